"""`make demo-dashboard`: a cluster with load, blocked keys and nodes that die, and its dashboard.

The pictures of docs/dashboard.md come from here.
"""
