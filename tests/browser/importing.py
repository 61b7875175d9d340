"""User code that says how far it is, and runs until a command asks it to end."""

import threading

from hourhand import Task, TaskExecutor

TOTAL = 1_000
_STEP_S = 0.1


class Importing(TaskExecutor):
    """Makes a checkpoint after each step."""

    def execute(self, task: Task) -> None:
        """Work on."""
        del task
        pause, done = threading.Event(), 0
        while not self.cancelled:
            done = min(done + 1, TOTAL)
            self.checkpoint({"done": done, "total": TOTAL})
            pause.wait(_STEP_S)
