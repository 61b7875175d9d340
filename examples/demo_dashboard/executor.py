"""The executor of the demonstration: it takes its time, and fails where the data says so."""

import threading
from datetime import timedelta
from typing import Any

import tenacity

from hourhand import Retry, Task, TaskExecutor
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Done

SPEC = f"{__name__}:DashboardExecutor"
"""Its name on a node's command line."""


class BillingUnavailable(ConnectionError):
    """Raised where a task's data asks for it."""


class DashboardExecutor(TaskExecutor):
    """Works as long as ``work_ms`` says; blocks its ordering id after three failures.

    ``fails`` is the number of attempts that do, each one does where an account is ``missing``, and
    ``again_s`` asks for another one much later.
    """

    retry = RetryPolicy(attempts_max=3, wait=tenacity.wait_fixed(1.0), on_exhausted="block")

    def execute(self, task: Task) -> Done | Retry:
        """Run one task of the demonstration."""
        data: dict[str, Any] = task.data
        # Nothing ever sets the event: it stands for a service that takes its time.
        threading.Event().wait(data.get("work_ms", 0) / 1000)
        if data.get("fails", 0) >= self.attempt:
            raise BillingUnavailable(f"billing answered 503 to invoice {task.uniqueness_key}")
        if "missing" in data:
            raise LookupError(f"there is no account {data['missing']}")
        if "again_s" in data and self.attempt == 1:
            return Retry(after=timedelta(seconds=data["again_s"]))
        return Done()
