"""Binds the store suite to the memory stores, which makes them verified fakes."""

from collections.abc import Callable

import pytest

from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from tests.conformance.stores import (
    Beside,
    CheckpointSuite,
    DefinitionSuite,
    OutcomeSuite,
    OversightSuite,
    OwnershipSuite,
    PagingSuite,
    ReadingSuite,
    ResultSuite,
    ScheduleSuite,
    StatusSuite,
    TallySuite,
    WritersSuite,
)


@pytest.fixture
def data() -> MemoryStores:
    """What the stores of a test hold."""
    return MemoryStores()


@pytest.fixture
def stores(data: MemoryStores) -> Stores:
    """A view of it."""
    return open_memory_stores(data)


@pytest.fixture
def reopen(data: MemoryStores, stores: Stores) -> Callable[[], Stores]:
    """Close that view and open another."""

    def open_again() -> Stores:
        stores.close()
        return open_memory_stores(data)

    return open_again


@pytest.fixture
def beside(data: MemoryStores) -> Beside:
    """Open another view; no clock is asked here."""
    return lambda _skew_minutes: open_memory_stores(data)


class TestMemorySchedule(ScheduleSuite):
    """``task_schedule``."""


class TestMemoryPaging(PagingSuite):
    """``task_schedule``, page by page."""

    bounds_bytes = False


class TestMemoryWriters(WritersSuite):
    """All tables, several writers."""


class TestMemoryStatus(StatusSuite):
    """``task_status`` and ``attempt_history``."""


class TestMemoryCheckpoints(CheckpointSuite):
    """``task_checkpoint``."""


class TestMemoryResults(ResultSuite):
    """``task_result``."""


class TestMemoryOutcomes(OutcomeSuite):
    """``outcome_log`` and ``outcome_kept``."""


class TestMemoryDefinitions(DefinitionSuite):
    """``definition``."""


class TestMemoryOversight(OversightSuite):
    """``node_report``, ``pause_sheet``, ``audit_log``."""


class TestMemoryTallies(TallySuite):
    """``hour_tally``."""


class TestMemoryOwnership(OwnershipSuite):
    """``partition_watermark``, ``command_outcome``, ``schedule_meta``."""


class TestMemoryReading(ReadingSuite):
    """All tables, as a client reads them."""
