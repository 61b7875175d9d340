"""What the tests of the embedded adapters share: settings of a folder, a held lock, waiting."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings, TopicSettings

WAIT_S = 60.0
"""Longest wait for anything that must happen."""


def settings_of(folder: Path, partitions: int = 2) -> Settings:
    """Return settings of an embedded installation."""
    return Settings(
        embedded=EmbeddedSettings(folder=folder), topic=TopicSettings(partitions=partitions)
    )


@contextlib.contextmanager
def held_write_lock(path: Path) -> Iterator[None]:
    """Keep everybody else from writing to a file meanwhile, so that requests queue up."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


class Listener:
    """Notes what is assigned; gives up at the offsets it was told to."""

    def __init__(self) -> None:
        self.partitions: list[int] = []
        self.offsets: dict[int, int] = {}
        self.lost_partitions: list[int] = []

    def assigned(self, partitions: Sequence[int]) -> None:
        """Note them."""
        self.partitions += partitions

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """Resolve at once."""
        future: Future[Mapping[int, int]] = Future()
        future.set_result(self.offsets)
        return future

    def lost(self, partitions: Sequence[int]) -> None:
        """Note them."""
        self.lost_partitions += partitions
