"""Crash tests of the embedded folder: real processes, killed at moments drawn from a seed."""
