"""Binds the store suite to the embedded stores."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
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


class Opened:
    """The stores a test has open; opening again closes what was open."""

    def __init__(self, folder: Path) -> None:
        self._settings = Settings(embedded=EmbeddedSettings(folder=folder))
        self.stores = open_stores(self._settings)
        self._others: list[Stores] = []

    def reopen(self) -> Stores:
        """Close and open again."""
        self.stores.close()
        self.stores = open_stores(self._settings)
        return self.stores

    def beside(self, _skew_minutes: int) -> Stores:
        """Open the same folder beside; no clock is asked here."""
        self._others.append(open_stores(self._settings))
        return self._others[-1]

    def close(self) -> None:
        """Close whatever is open."""
        for each in (self.stores, *self._others):
            each.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A folder for each test."""
    opened = Opened(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """Return what is open."""
    return opened.stores


@pytest.fixture
def reopen(opened: Opened) -> Callable[[], Stores]:
    """Return the callable of ``Opened``."""
    return opened.reopen


@pytest.fixture
def beside(opened: Opened) -> Beside:
    """Return the callable of ``Opened``."""
    return opened.beside


class TestEmbeddedSchedule(ScheduleSuite):
    """``task_schedule``."""


class TestEmbeddedPaging(PagingSuite):
    """``task_schedule``, page by page."""


class TestEmbeddedWriters(WritersSuite):
    """All tables, several writers."""


class TestEmbeddedStatus(StatusSuite):
    """``task_status`` and ``attempt_history``."""


class TestEmbeddedCheckpoints(CheckpointSuite):
    """``task_checkpoint``."""


class TestEmbeddedResults(ResultSuite):
    """``task_result``."""


class TestEmbeddedOutcomes(OutcomeSuite):
    """``outcome_log`` and ``outcome_kept``."""


class TestEmbeddedDefinitions(DefinitionSuite):
    """``definition``."""


class TestEmbeddedOversight(OversightSuite):
    """``node_report``, ``pause_sheet``, ``audit_log``."""


class TestEmbeddedTallies(TallySuite):
    """``hour_tally``."""


class TestEmbeddedOwnership(OwnershipSuite):
    """``partition_watermark``, ``command_outcome``, ``schedule_meta``."""


class TestEmbeddedReading(ReadingSuite):
    """All tables, as a client reads them."""
