"""A node with something beside it that serves a door: started together, stopped in order.

Decides only the order: the door stops first, and what it accepted is durable in the log by then;
the node stops last.  A door uses the node's own connections.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from actors.model.task_executor import TaskExecutor
from actors.ports.telemetry import Telemetry
from scheduler.configuration.settings import Settings
from scheduler.executors.user_executors import Executors
from scheduler.scheduler import Scheduler


class StartedOnEntry(ABC):
    """Starts on entry, and stops on exit whatever came in between."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Run, and return once it does."""

    @abstractmethod
    def stop(self) -> None:
        """Run no more, and let go of everything; repeatable."""


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
        """What the door has open, the node below it."""
        self.scheduler = Scheduler(
            settings, executor=executor, executors=executors, telemetry=telemetry
        )
        self._closing.callback(self.scheduler.close)

    @abstractmethod
    def _stop_door(self) -> None:
        """Serve no more, and return when nothing of the door runs; repeatable."""

    def wait(self) -> None:
        """Wait until the node was stopped, by a signal or otherwise; then stop the rest."""
        self.scheduler.wait()
        self.stop()

    def stop(self) -> None:
        """Stop the door, then the node; nothing accepted is lost.  Repeatable."""
        self.scheduler.close()
        self._closing.close()

    def _opened(self, open_door: Callable[[], None]) -> None:
        """Open the door; where that fails nothing stays open."""
        try:
            open_door()
        except BaseException:
            self._closing.close()
            raise
        self.scheduler.stop_first(self._stop_door)
