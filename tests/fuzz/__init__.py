"""Hostile input to every door, from seeds: records, arguments, command lines, settings."""
