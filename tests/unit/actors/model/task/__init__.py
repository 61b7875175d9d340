"""Mirrors the source."""
