"""Tasks of which one is made in a window of time: the request, and who decides it."""
