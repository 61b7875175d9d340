"""Messages that are passed on to a topic at their own time."""
