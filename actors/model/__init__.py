"""Frozen values and pure functions: the vocabulary of all other code."""
