"""Frozen values and pure functions: the vocabulary everything else is written in."""
