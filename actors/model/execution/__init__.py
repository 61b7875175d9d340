"""The execution of a task: its attempts, the effects of their ends, and the classes of users."""
