"""A node and the service beside it that accepts requests: started together, stopped in order.

Decides only the order: the service stops first, and everything it accepted is durable in the log by
then; the node stops last. The service uses the node's own connections.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.user_executors import Executors
from hourhand.scheduler.scheduler import Scheduler


class StartedOnEntry(ABC):
    """A context manager that starts on entry and always stops on exit."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Start, and return once it runs."""

    @abstractmethod
    def stop(self) -> None:
        """Stop, and release everything; repeatable."""


class DoorRunning(StartedOnEntry):
    """A running node with a door; as a context manager it starts on entry and stops on exit.

    A subclass's constructor calls this class's, then ``_opened`` with what opens its door.
    """

    def __init__(
        self,
        settings: Settings,
        executor: Callable[[], TaskExecutor] | None,
        executors: Executors,
        telemetry: Telemetry | None,
    ) -> None:
        self._closing = ExitStack()
        """Closers of the service's resources, above that of the node."""
        self.scheduler = Scheduler(
            settings, executor=executor, executors=executors, telemetry=telemetry
        )
        self._closing.callback(self.scheduler.close)

    @abstractmethod
    def _stop_door(self) -> None:
        """Stop the service, and return when nothing of it runs; repeatable."""

    def wait(self) -> None:
        """Wait until the node was stopped, by a signal or otherwise; then stop the rest."""
        self.scheduler.wait()
        self.stop()

    def stop(self) -> None:
        """Stop the door, then the node; nothing accepted is lost.  Repeatable."""
        self.scheduler.close()
        self._closing.close()

    def _opened(self, open_door: Callable[[], None]) -> None:
        """Open the service; if that fails, close everything."""
        try:
            open_door()
        except BaseException:
            self._closing.close()
            raise
        self.scheduler.stop_first(self._stop_door)
