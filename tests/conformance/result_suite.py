"""The contract of ``ResultStore``: the values that tasks ended with.

Bound as ``tests.conformance.stores`` describes.
"""

from collections.abc import Callable, Sequence
from time import monotonic

import pytest
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import Stores
from tests.conformance.store_values import (
    AWKWARD_IDS,
    HOUR_START_MS,
    StoreSuite,
    done,
    key_at,
    write_time,
)

DAY_MS = 86_400_000
FORGOTTEN_WITHIN_S = 20


def result_at(
    time_ms: int = HOUR_START_MS, ordering_id: str = "a", body: bytes = b'{"value":{"row":7}}'
) -> StoredResult:
    """Return the result of a first attempt, which is kept for a day."""
    key = key_at(time_ms, ordering_id)
    return StoredResult(key, 1, time_ms + 5, time_ms + 5 + DAY_MS, body, 4)


def found(stores: Stores, partition: int, *keys: TaskKey) -> Sequence[StoredResult]:
    """Read results by their keys."""
    return list(done(stores.results.find_results(partition, keys)))


class ResultSuite(StoreSuite):
    """The behaviour of every ``ResultStore``."""

    def test_a_result_is_found_again_field_by_field(
        self, stores: Stores, reopen: Callable[[], Stores], partition: int
    ) -> None:
        """After a reopening too."""
        body = b'{"value":"' + b"x" * 131_000 + b'"}'
        made = replace(result_at(body=body), attempt=3, fence=2**40)
        done(stores.results.insert_results(partition, [made], write_time(1)))

        assert found(reopen(), partition, made.key) == [made]

    @pytest.mark.parametrize("name", AWKWARD_IDS)
    def test_any_id_is_kept(self, stores: Stores, partition: int, name: str) -> None:
        """As text, byte for byte."""
        made = replace(result_at(), key=TaskKey(HOUR_START_MS, "a" + name, name))
        done(stores.results.insert_results(partition, [made], write_time(1)))

        assert found(stores, partition, made.key) == [made]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_the_higher_write_time_stands_whichever_comes_first(
        self, stores: Stores, partition: int, order: tuple[int, int]
    ) -> None:
        """A frozen owner that wakes up replaces nothing of the next one."""
        older, newer = result_at(body=b'{"value":1}'), result_at(body=b'{"value":2}')
        writes = [(older, write_time(1, 900)), (newer, write_time(2, 1))]

        for each in order:
            made, at = writes[each]
            done(stores.results.insert_results(partition, [made], at))

        assert found(stores, partition, older.key) == [newer]

    def test_many_come_in_key_order_each_once(self, stores: Stores, partition: int) -> None:
        """The last of two results of one key in one call stands, and no key breaks the store."""
        made = [result_at(ordering_id=each) for each in ("a", "b")]
        before = replace(made[0], body=b'{"value":0}')
        done(stores.results.insert_results(partition, [before, *made], write_time(1)))
        odd = [TaskKey(HOUR_START_MS, "\ud800", ""), TaskKey(HOUR_START_MS, "x" * 70_000, "")]
        keys = [made[1].key, *odd, key_at(HOUR_START_MS, "c"), made[0].key, made[1].key]

        assert found(stores, partition, *keys) == made

    def test_a_body_whose_time_is_over_is_forgotten_and_no_other(
        self, stores: Stores, partition: int
    ) -> None:
        """The rest of the row says that there was a result; a store needs no other call for it."""
        short = replace(result_at(), kept_until_ms=HOUR_START_MS + 5 + 1_000)
        long = result_at(ordering_id="b")
        insert = stores.results.insert_results
        done(insert(partition, [short, long], write_time(1)))
        later, until_s = result_at(HOUR_START_MS + 60_000), monotonic() + FORGOTTEN_WITHIN_S
        done(insert(partition, [later], write_time(2)))

        while monotonic() < until_s and found(stores, partition, short.key)[0].body:
            pass

        assert found(stores, partition, short.key) == [replace(short, body=b"")]
        assert found(stores, partition, long.key, later.key) == [long, later]

    def test_they_go_with_the_statuses_of_their_hour(self, stores: Stores, partition: int) -> None:
        """A later write below the delete is dead too; a write above it stands."""
        inside, outside = result_at(), result_at(HOUR_START_MS + HOUR_MS)
        keys, insert = (inside.key, outside.key), stores.results.insert_results
        done(insert(partition, [inside, outside], write_time(1)))

        end_ms = HOUR_START_MS + HOUR_MS
        done(stores.status.delete_statuses(partition, HOUR_START_MS, end_ms, write_time(1, 9)))
        done(insert(partition, [inside], write_time(1, 8)))
        late = found(stores, partition, *keys)
        done(insert(partition, [inside], write_time(2)))

        assert late == [outside]
        assert found(stores, partition, *keys) == [inside, outside]

    def test_an_old_hour_with_nothing_but_results_is_deleted(
        self, stores: Stores, partition: int
    ) -> None:
        """However far back the delete begins."""
        made = result_at()
        done(stores.results.insert_results(partition, [made], write_time(1)))
        end_ms = HOUR_START_MS + 2_000 * HOUR_MS

        reached_ms = HOUR_START_MS
        while reached_ms < end_ms:
            delete = stores.status.delete_statuses
            reached_ms = done(delete(partition, reached_ms, end_ms, write_time(1, 2)))

        assert found(stores, partition, made.key) == []
