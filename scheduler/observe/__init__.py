"""The numbers of a node, and what it tells of itself: metrics, health, reports."""
