"""Bare servers and drivers without an engine: the ceiling of every figure."""
