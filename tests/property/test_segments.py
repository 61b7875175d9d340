"""Completion segments of the embedded store, and the way back to rows."""

import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion
from hourhand.scheduler.adapters.embedded.bulk import open_bulk
from hourhand.scheduler.adapters.embedded.connection import open_connection, version_of
from hourhand.scheduler.adapters.embedded.folder import store_file
from hourhand.scheduler.adapters.embedded.schema import STORE
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
from tests.conformance.segments_suite import KEYS, ORDERS, STEPS, Step, check_segments

PARTITION = 0


def check_way_back(folder: Path, left: Mapping[TaskKey, Completion]) -> None:
    """Turn segments into rows, as for a version that knows none, and open the folder again."""
    for in_segments in (False, True):
        chosen = EmbeddedSettings(folder=folder, completion_segments=in_segments)
        stores = open_stores(Settings(embedded=chosen))
        assert stores.status.find_completions(PARTITION, KEYS).result() == left
        stores.close()
        with closing(open_connection(store_file(folder))) as connection:
            assert version_of(connection) == STORE.version
            assert not connection.execute("SELECT 1 FROM completion_segment").fetchall()


@settings(max_examples=40, deadline=None)
@given(STEPS, ORDERS)
def test_segments_read_as_rows_do(steps: list[Step], order: list[int]) -> None:
    """By range, by key and in bulk, also after single rows were deleted at their write time."""
    with tempfile.TemporaryDirectory() as folder:
        opened = Settings(embedded=EmbeddedSettings(folder=Path(folder)))
        stores, bulk = open_stores(opened), open_bulk(opened)
        left = check_segments(stores, bulk, PARTITION, steps, order)
        bulk.close()
        stores.close()
        check_way_back(Path(folder), left)
