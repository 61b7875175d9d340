"""Binds the bulk suite to the embedded store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.scheduler.adapters.embedded.bulk import open_bulk
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
from tests.conformance.bulk_suite import BulkPorts, BulkSuite


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[BulkPorts]:
    """A folder of the test's own."""
    settings = Settings(embedded=EmbeddedSettings(folder=tmp_path))
    stores = open_stores(settings)
    bulk = open_bulk(settings)
    yield BulkPorts(stores, bulk)
    bulk.close()
    stores.close()


class TestEmbeddedBulk(BulkSuite):
    """The suite on SQLite."""
