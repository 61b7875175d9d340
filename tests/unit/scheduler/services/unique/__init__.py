"""Tasks of which one is made in a window of time."""
