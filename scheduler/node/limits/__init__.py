"""Limits while a node runs: who waits for an allowance, and the shares and loans of partitions."""
