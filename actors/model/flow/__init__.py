"""Limits, priorities and fair shares: what kinds declare, and who goes next."""
