"""Values the store suites share: keys, rows, write times, and ids that break adapters.

Times lie around one fixed hour, so nothing here reads a clock.
"""

import zlib
from collections.abc import Sequence
from typing import Protocol, TypeVar

import pytest

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import Stores, TaskPage

Answer_co = TypeVar("Answer_co", covariant=True)

ANSWER_TIMEOUT_S = 60.0
HOUR_START_MS = 491_834 * HOUR_MS
"""The start of an hour in February 2026; most tests write around it."""
FAR_MS = 253_402_300_799_999
"""The last millisecond a key can hold."""

AWKWARD_IDS = (
    "",
    " ",
    "customer-7",
    "null",
    "nul\x00inside",
    "'single' \"double\" `back`",
    "semi;colon -- comment /* */",
    "line\nfeed\ttab\r",
    "comma,percent%2C)",
    "Zoë",
    "Zoe\u0308",
    "\u202eright to left",
    "\uffff",
    "\U00010000",
    "🐈‍⬛",
    "\U0010ffff",
    "x" * 30_000,
    "é" * 15_000,
)
"""Ids that break adapters that quote, separate, normalise or compare by UTF-16."""


class Pending(Protocol[Answer_co]):
    """What a test needs of a future; covariant, so that any reader of its answer fits."""

    def result(self, timeout: float | None = None) -> Answer_co:
        """Wait for the answer."""


def done(future: Pending[Answer_co]) -> Answer_co:
    """Return what ``future`` holds, waiting long enough for a real server."""
    return future.result(timeout=ANSWER_TIMEOUT_S)


def write_time(epoch: int, counter: int = 1) -> int:
    """Return the write time of an owner's ``counter``-th write."""
    return (epoch << EPOCH_SHIFT) | counter


def key_at(time_ms: int, ordering_id: str = "a", uniqueness_key: str = "u") -> TaskKey:
    """Return a key; the ids matter only to tests that name them."""
    return TaskKey(time_ms, ordering_id, uniqueness_key)


def task_at(
    time_ms: int,
    ordering_id: str = "a",
    uniqueness_key: str = "u",
    *,
    data: bytes = b'{"invoice":42}',
    offset: int = 7,
) -> StoredTask:
    """Return a row of the schedule."""
    return StoredTask(TaskKey(time_ms, ordering_id, uniqueness_key), data, offset)


def before(time_ms: int) -> TaskKey:
    """Return a key below every key of ``time_ms``, for ranges that begin there."""
    return TaskKey(time_ms - 1, "\U0010ffff" * 10, "\U0010ffff")


def rows(tasks: Sequence[StoredTask]) -> list[tuple[TaskKey, bytes, int]]:
    """Return all that a store keeps of tasks, in a form pytest shows well."""
    return [(task.key, bytes(task.data), task.offset) for task in tasks]


def hour_page(stores: Stores, partition: int, hour_ms: int, hours: int = 1) -> TaskPage:
    """Load whole hours, far above any limit."""
    end_ms = hour_ms + hours * HOUR_MS
    return done(stores.schedule.load_tasks(partition, before(hour_ms), end_ms, 100_000))


class StoreSuite:
    """What the three suites share: a partition that no other test uses."""

    @pytest.fixture
    def partition(self, request: pytest.FixtureRequest) -> int:
        """Return a number made from the test's own name, so that tests never meet."""
        return zlib.crc32(request.node.nodeid.encode()) % 1_000_000
