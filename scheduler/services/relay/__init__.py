"""Messages that appear on a topic at a time of their own."""
