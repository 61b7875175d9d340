"""Reads stored tasks, from outside of a node."""
