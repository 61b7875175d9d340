"""Binds the transfer suite to the embedded store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.adapters.embedded.transfer import EmbeddedTransfer
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
from tests.conformance.transfer_suite import TransferPorts, TransferSuite


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[TransferPorts]:
    """A folder of the test's own."""
    settings = Settings(embedded=EmbeddedSettings(folder=tmp_path))
    stores = open_stores(settings)
    transfer = EmbeddedTransfer(settings)
    yield TransferPorts(stores, transfer)
    transfer.close()
    stores.close()


class TestEmbeddedTransfer(TransferSuite):
    """The suite on SQLite."""
