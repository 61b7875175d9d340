"""Limits while a node runs: lines for allowances, and the shares and loans of partitions."""
