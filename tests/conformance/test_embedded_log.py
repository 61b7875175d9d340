"""Binds the log suite to the embedded log: one member, whose lease is a lock."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from actors.model.codec import LogRecord
from scheduler.adapters.clock import SystemClock
from scheduler.adapters.embedded.log import EmbeddedLog
from scheduler.adapters.embedded.writer import EmbeddedWriter, load_dead_letters
from scheduler.settings import (
    ClientSettings,
    EmbeddedSettings,
    GroupSettings,
    Settings,
    TopicSettings,
)
from tests.conformance.log_bench import QUICK
from tests.conformance.task_log import TaskLogContract

RECORD_BYTES_MAX = 200_000


class EmbeddedTopic:
    """A folder of its own."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self.settings = Settings(
            embedded=EmbeddedSettings(folder=folder),
            topic=TopicSettings(partitions=partitions),
            client=ClientSettings(record_bytes_max=RECORD_BYTES_MAX),
        )

    def open_log(self, group: GroupSettings = QUICK) -> EmbeddedLog:
        """Open the one member, not yet subscribed."""
        return EmbeddedLog(self.settings.model_copy(update={"group": group}), SystemClock())

    def open_writer(self) -> EmbeddedWriter:
        """Open a writer."""
        return EmbeddedWriter(self.settings)

    def dead_letters(self, count: int) -> Sequence[LogRecord]:
        """Return the first ``count`` dead letters."""
        return load_dead_letters(self.settings, limit=count)

    def close(self) -> None:
        """Do nothing: the folder goes with the test's own."""


class EmbeddedWorld:
    """A folder for each topic."""

    members_max = 1
    has_lease_expiry = False
    record_bytes_max = RECORD_BYTES_MAX

    def __init__(self, folder: Path) -> None:
        self.clock = SystemClock()
        self._folder = folder
        self._numbers = itertools.count()

    def create_topic(self, partitions: int) -> EmbeddedTopic:
        """Begin a folder."""
        return EmbeddedTopic(self._folder / str(next(self._numbers)), partitions)


@pytest.fixture(scope="module")
def log_world(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedWorld:
    """Folders below one of the session's."""
    return EmbeddedWorld(tmp_path_factory.mktemp("logs"))


class TestEmbeddedLog(TaskLogContract):
    """Everything a log must do, in one folder."""
