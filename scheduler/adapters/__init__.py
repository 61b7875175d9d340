"""Implementations of the ports: one folder a technology, files named after the port."""
