"""Something that runs between entry and exit of a ``with`` block.

Decides nothing about how it starts and stops.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class StartedOnEntry(ABC):
    """Starts on entry, and stops on exit whatever came in between."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Run, and return once it does."""

    @abstractmethod
    def stop(self) -> None:
        """Run no more, and let go of everything; repeatable."""
