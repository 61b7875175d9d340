"""Binds the log suite to the embedded log: one member, whose lease is a lock."""

import itertools
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.dead_letters import EmbeddedLogView
from hourhand.scheduler.adapters.embedded.folder import log_file
from hourhand.scheduler.adapters.embedded.log import EmbeddedLog
from hourhand.scheduler.adapters.embedded.records import insert_records, packed_headers, record_id
from hourhand.scheduler.adapters.embedded.writer import EmbeddedWriter
from hourhand.scheduler.configuration.settings import (
    ClientSettings,
    EmbeddedSettings,
    GroupSettings,
    Settings,
    TopicSettings,
)
from tests.conformance.log_bench import QUICK, WAIT_S
from tests.conformance.task_log import TaskLogContract

RECORD_BYTES_MAX = 1_000_000


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
        with closing(EmbeddedLogView(self.settings)) as view:
            return view.letters(None, 1_000).letters[::-1][:count]

    def append_foreign(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Write the row that an append would, whatever is not there."""
        appended: Any = [(partition, key, value, packed_headers(headers))]
        self._change(lambda connection: insert_records(connection, appended))

    def trim(self, partition: int, before_offset: int) -> None:
        """Remove the rows of records before an offset."""
        span = (record_id(partition, 0), record_id(partition, before_offset))
        self._change(
            lambda connection: connection.execute(
                "DELETE FROM record WHERE id >= ? AND id < ?", span
            )
        )

    def make_anew(self) -> None:
        """Refuse: a log without its store, or a store without its log, is damaged."""
        raise NotImplementedError

    def _change(self, work: Callable[[sqlite3.Connection], object]) -> None:
        database = Database(log_file(self.settings.embedded.folder))
        try:
            database.write(work).result(WAIT_S)
        finally:
            database.close()

    def close(self) -> None:
        """Do nothing: the folder goes with the test's own."""


class EmbeddedWorld:
    """A folder for each topic."""

    members_max = 1
    has_lease_expiry = False
    record_bytes_max = RECORD_BYTES_MAX
    bounds_batches = False
    loses_last_records = False
    topics_have_ids = False

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
