"""The user's code on a node: executors by kind of task, and middleware around them."""
