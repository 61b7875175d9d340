"""The backend as Django's own tests of backends expect theirs: with ``results``, or run at once.

Each runs on a virtual installation.  Decides nothing about a task: what a test reads of a result is
what the backend under test returned.
"""

from typing import Any

from asgiref.sync import sync_to_async

from hourhand.django import HourhandBackend, executors
from hourhand.testing import VirtualScheduler


class RecordedBackend(HourhandBackend):
    """Nothing runs; ``results`` are those of ``get_result``, read once for each task."""

    def __init__(self, alias: str, params: Any) -> None:
        super().__init__(alias, params)
        self.clear()

    def clear(self) -> None:
        """Begin with an installation without tasks."""
        self.results: list[Any] = []
        self._scheduler: VirtualScheduler | None = None

    @property
    def scheduler(self) -> VirtualScheduler:
        """The installation that the backend's client belongs to."""
        if self._scheduler is None:
            self._scheduler = VirtualScheduler(executors=executors(self.alias))
        return self._scheduler

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue, and read the result."""
        _ = self.scheduler
        result = super().enqueue(task, args, kwargs)
        self.results.append(super().get_result(result.id))
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Do the same in a coroutine."""
        _ = self.scheduler
        result = await super().aenqueue(task, args, kwargs)
        self.results.append(await super().aget_result(result.id))
        return result

    def get_result(self, result_id: str) -> Any:
        """Read a result of this installation."""
        _ = self.scheduler
        return super().get_result(result_id)

    async def aget_result(self, result_id: str) -> Any:
        """Do the same in a coroutine."""
        _ = self.scheduler
        return await super().aget_result(result_id)


class AtOnceBackend(RecordedBackend):
    """An enqueued task runs before ``enqueue`` returns."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue, run, and read the result."""
        result = super().enqueue(task, args, kwargs)
        self.scheduler.run_due()
        result.refresh()
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Do the same in a coroutine."""
        return await sync_to_async(self.enqueue)(task, args, kwargs)
