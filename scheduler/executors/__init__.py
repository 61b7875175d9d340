"""The user's code on a node: which executor runs which kind of task, and what goes around it."""
