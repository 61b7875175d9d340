"""`make demo-dashboard`: a cluster with load, blocked keys and nodes that die, and its dashboard.

What it decides is told by `make` alone; the pictures of docs/dashboard.md come from here.
"""
