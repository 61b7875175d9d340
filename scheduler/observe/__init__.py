"""What a node tells of itself: figures, health, reports, log lines."""
