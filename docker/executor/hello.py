"""What the nodes of the compose files run until they are given something of yours."""

from hourhand import Task, TaskExecutor


class Hello(TaskExecutor):
    """Says what it was given; `docker compose logs` shows it."""

    def execute(self, task: Task) -> None:
        """Print one line for each task."""
        print(f"{task.ordering_id} {task.uniqueness_key}: {task.data}")
