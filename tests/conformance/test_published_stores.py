"""Binds the store suite to stores whose writes are published to a topic first."""

from collections.abc import Callable

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.lifecycle import LifecycleFeed
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryMessages
from tests.builders import NOW_MS
from tests.conformance.stores import Beside, PagingSuite, ScheduleSuite, StatusSuite, WritersSuite


def _published(data: MemoryStores) -> Stores:
    clock = VirtualClock(NOW_MS)
    return LifecycleFeed(MemoryMessages(clock), "events", clock).publishing(
        open_memory_stores(data)
    )


@pytest.fixture
def data() -> MemoryStores:
    """What the stores of a test hold."""
    return MemoryStores()


@pytest.fixture
def stores(data: MemoryStores) -> Stores:
    """A view of it."""
    return _published(data)


@pytest.fixture
def reopen(data: MemoryStores, stores: Stores) -> Callable[[], Stores]:
    """Close that view and open another."""

    def open_again() -> Stores:
        stores.close()
        return _published(data)

    return open_again


@pytest.fixture
def beside(data: MemoryStores) -> Beside:
    """Open another view; no clock is asked here."""
    return lambda _skew_minutes: _published(data)


class TestPublishedSchedule(ScheduleSuite):
    """``task_schedule``."""


class TestPublishedPaging(PagingSuite):
    """``task_schedule``, page by page."""

    bounds_bytes = False


class TestPublishedWriters(WritersSuite):
    """All tables, several writers."""


class TestPublishedStatus(StatusSuite):
    """``task_status`` and ``attempt_history``."""
