"""Nodes of the version before kinds of tasks and of today's, which share an installation."""
