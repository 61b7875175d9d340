"""Binds the store suite to the embedded stores."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.ports.store import Stores
from scheduler.adapters.embedded.stores import open_stores
from scheduler.settings import EmbeddedSettings, Settings
from tests.conformance.stores import OwnershipSuite, ScheduleSuite, StatusSuite


class Opened:
    """The stores a test has open; opening again closes what was open."""

    def __init__(self, folder: Path) -> None:
        self._settings = Settings(embedded=EmbeddedSettings(folder=folder))
        self.stores = open_stores(self._settings)

    def reopen(self) -> Stores:
        """Close and open again."""
        self.stores.close()
        self.stores = open_stores(self._settings)
        return self.stores


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A folder for each test."""
    opened = Opened(tmp_path)
    yield opened
    opened.stores.close()


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """Return what is open."""
    return opened.stores


@pytest.fixture
def reopen(opened: Opened) -> Callable[[], Stores]:
    """Return the callable of ``Opened``."""
    return opened.reopen


class TestEmbeddedSchedule(ScheduleSuite):
    """``task_schedule``."""


class TestEmbeddedStatus(StatusSuite):
    """``task_status`` and ``attempt_history``."""


class TestEmbeddedOwnership(OwnershipSuite):
    """``partition_watermark``, ``command_outcome``, ``schedule_meta``."""
