"""The contract of ``CheckpointStore``: the newest checkpoint of each task.

Bound as ``tests.conformance.stores`` describes.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import Stores
from tests.conformance.store_values import (
    AWKWARD_IDS,
    FAR_MS,
    HOUR_START_MS,
    StoreSuite,
    before,
    done,
    key_at,
    write_time,
)

KEY = key_at(HOUR_START_MS)
END_KEY = key_at(HOUR_START_MS + 100 * HOUR_MS)


def checkpoint_at(
    time_ms: int, ordering_id: str = "a", body: bytes = b'{"value":{"row":7}}'
) -> TaskCheckpoint:
    """Return the checkpoint of a first attempt."""
    return TaskCheckpoint(key_at(time_ms, ordering_id), 1, time_ms + 5, body, 4)


def all_checkpoints(stores: Stores, partition: int) -> list[TaskCheckpoint]:
    """Load whatever is near the hour all tests write around."""
    after = before(HOUR_START_MS - HOUR_MS)
    return list(done(stores.checkpoints.load_checkpoints(partition, after, END_KEY)))


class CheckpointSuite(StoreSuite):
    """The contract of every ``CheckpointStore``."""

    def test_a_checkpoint_is_found_again_field_by_field(
        self, stores: Stores, reopen: Callable[[], Stores], partition: int
    ) -> None:
        """After a reopening too, by range and by key."""
        made = TaskCheckpoint(KEY, 3, FAR_MS, b'{"value":"' + b"x" * 65_534 + b'"}', 2**40)
        done(stores.checkpoints.insert_checkpoints(partition, [made], write_time(1)))

        again = reopen()

        assert all_checkpoints(again, partition) == [made]
        assert list(done(again.checkpoints.find_checkpoints(partition, [KEY]))) == [made]

    @pytest.mark.parametrize("name", AWKWARD_IDS)
    def test_any_id_is_kept(self, stores: Stores, partition: int, name: str) -> None:
        """As text, byte for byte."""
        made = replace(checkpoint_at(HOUR_START_MS), key=TaskKey(HOUR_START_MS, "a" + name, name))
        done(stores.checkpoints.insert_checkpoints(partition, [made], write_time(1)))

        assert list(done(stores.checkpoints.find_checkpoints(partition, [made.key]))) == [made]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_the_higher_write_time_stands_whichever_comes_first(
        self, stores: Stores, partition: int, order: tuple[int, int]
    ) -> None:
        """A frozen owner that wakes up replaces nothing of the next one."""
        older = checkpoint_at(HOUR_START_MS, body=b'{"value":1}')
        newer = checkpoint_at(HOUR_START_MS, body=b'{"value":2}')
        writes = [(older, write_time(1, 900)), (newer, write_time(2, 1))]

        for each in order:
            made, at = writes[each]
            done(stores.checkpoints.insert_checkpoints(partition, [made], at))

        assert all_checkpoints(stores, partition) == [newer]

    def test_of_two_of_one_key_in_one_call_the_last_stands(
        self, stores: Stores, partition: int
    ) -> None:
        """As for every write."""
        first, last = (checkpoint_at(HOUR_START_MS, body=b'{"value":%d}' % n) for n in (1, 2))
        done(stores.checkpoints.insert_checkpoints(partition, [first, last], write_time(1)))

        assert all_checkpoints(stores, partition) == [last]

    def test_a_range_is_open_below_and_closed_above(self, stores: Stores, partition: int) -> None:
        """Over hours, in key order, and of its partition alone."""
        times = [HOUR_START_MS + hours * HOUR_MS for hours in range(4)]
        made = [checkpoint_at(each) for each in times]
        done(stores.checkpoints.insert_checkpoints(partition, made[::-1], write_time(1)))
        done(stores.checkpoints.insert_checkpoints(partition + 1, made, write_time(1)))

        load = stores.checkpoints.load_checkpoints
        found = done(load(partition, made[0].key, made[2].key))

        assert list(found) == made[1:3]
        assert list(done(load(partition, made[2].key, made[2].key))) == []

    def test_keys_without_a_checkpoint_are_left_out(self, stores: Stores, partition: int) -> None:
        """Those with one come in key order, each once, and no key breaks the store."""
        made = [checkpoint_at(HOUR_START_MS, each) for each in ("a", "b")]
        done(stores.checkpoints.insert_checkpoints(partition, made, write_time(1)))
        odd = [TaskKey(HOUR_START_MS, "\ud800", ""), TaskKey(HOUR_START_MS, "x" * 70_000, "")]
        keys = [made[1].key, *odd, key_at(HOUR_START_MS, "c"), made[0].key, made[1].key]

        assert list(done(stores.checkpoints.find_checkpoints(partition, keys))) == made

    def test_they_go_with_the_statuses_of_their_hour(self, stores: Stores, partition: int) -> None:
        """A later write below the delete is dead too; a write above it stands."""
        inside, outside = checkpoint_at(HOUR_START_MS), checkpoint_at(HOUR_START_MS + HOUR_MS)
        insert = stores.checkpoints.insert_checkpoints
        done(insert(partition, [inside, outside], write_time(1)))

        end_ms = HOUR_START_MS + HOUR_MS
        done(stores.status.delete_statuses(partition, HOUR_START_MS, end_ms, write_time(1, 9)))
        done(insert(partition, [inside], write_time(1, 8)))
        late = all_checkpoints(stores, partition)
        done(insert(partition, [inside], write_time(2)))

        assert late == [outside]
        assert all_checkpoints(stores, partition) == [inside, outside]

    def test_an_old_hour_with_nothing_but_checkpoints_is_deleted(
        self, stores: Stores, partition: int
    ) -> None:
        """However far back the delete begins."""
        made = checkpoint_at(HOUR_START_MS)
        done(stores.checkpoints.insert_checkpoints(partition, [made], write_time(1)))
        end_ms = HOUR_START_MS + 2_000 * HOUR_MS

        reached_ms = HOUR_START_MS
        while reached_ms < end_ms:
            deleting = stores.status.delete_statuses(
                partition, reached_ms, end_ms, write_time(1, 2)
            )
            reached_ms = done(deleting)

        assert all_checkpoints(stores, partition) == []
