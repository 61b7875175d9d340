"""Servers that tests start: ports, ends, pauses."""
