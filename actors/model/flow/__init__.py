"""Limits, priorities and fair shares: what kinds may declare, and which flow goes next."""
