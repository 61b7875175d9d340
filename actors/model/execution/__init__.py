"""The execution of a task: its attempts, what follows from their ends, and the classes of users."""
