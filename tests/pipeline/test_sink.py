"""The writer's protocol beside a running node: whatever it is interrupted by, nothing is missed.

The node is the real one under a virtual clock; between the writer's two steps any time may pass.
"""

import random
import threading
from collections.abc import Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from hourhand import Scheduler
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.codec import encode_data
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.errors import TaskTooLarge
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.memory.stores import open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.pipeline.sink import (
    NO_OFFSET,
    SinkCounts,
    SinkPorts,
    TaskSink,
    bulk_write_time,
)
from hourhand.scheduler.ports.bulk import Bucket, BulkTable
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import a_stored_task
from tests.pipeline.installation import PARTITIONS, settings_of
from tests.promises.group import QUIET, Group

HOURS_LATER = timedelta(hours=8)


class Recording(TaskExecutor):
    """Notes what it is given; ``ran`` belongs to one test."""

    ran: ClassVar[list[Task]]

    def execute(self, task: Task) -> None:
        """Note the task."""
        self.ran.append(task)


@pytest.fixture
def virtual() -> Iterator[VirtualScheduler]:
    """A node at work, with every partition its own."""
    Recording.ran = []
    with VirtualScheduler(Recording) as scheduler:
        yield scheduler


def sink_beside(virtual: VirtualScheduler, *, direct: bool = True) -> TaskSink:
    """Open a sink on the node's installation, as a job that begins now."""
    ports = SinkPorts(
        writer=MemoryWriter(virtual.broker),
        stores=virtual.stores if direct else None,
        begin_partition=_nobody_begins,
        now_ms=virtual.clock.now_ms,
    )
    write_time = bulk_write_time(virtual.clock.now_ms())
    return TaskSink(ports, write_time=write_time, record_bytes_max=10_000, in_flight_max=10)


def _nobody_begins(partition: int, _claim: Claim) -> Claim:
    raise AssertionError(f"partition {partition} has an owner already")


def a_row(virtual: VirtualScheduler, due_in: timedelta, name: str = "a", **data: int) -> StoredTask:
    """Return a task due so long after the virtual now, as the sink takes it."""
    task = Task(
        ordering_id=name, scheduled_time=virtual.now + due_in, uniqueness_key=name, data={**data}
    )
    return StoredTask(task.key, encode_data(task), NO_OFFSET)


def ran(virtual: VirtualScheduler) -> list[TaskKey]:
    """Return what was executed, in order."""
    return [each.key for each in virtual.executions]


def test_a_row_the_node_looked_for_before_it_was_there_still_runs(
    virtual: VirtualScheduler,
) -> None:
    """The writer is paused for hours between its two steps; the row alone would be lost."""
    # The first look reaches no further than a moment, the one after it beyond the row's time.
    virtual.advance(seconds=1)
    row = a_row(virtual, timedelta(minutes=1))
    sink = sink_beside(virtual)

    written = sink.write_rows([row])
    virtual.advance(HOURS_LATER)
    missed_by_the_node = ran(virtual)
    counts = sink.settle(written)
    virtual.advance(seconds=1)

    assert missed_by_the_node == []
    assert ran(virtual) == [row.key]
    assert counts == SinkCounts(rows=1, batched=1, logged=1)


def test_a_row_far_ahead_is_left_to_the_store() -> None:
    """It is loaded like any other when its time comes, without a record in the log."""
    group = Group(tree=QUIET, step_ms=HOUR_MS)
    group.join()
    group.advance(1_000)
    stores = open_memory_stores(group.data)
    ports = SinkPorts(MemoryWriter(group.broker), stores, _nobody_begins, group.clock.now_ms)
    sink = TaskSink(
        ports,
        write_time=bulk_write_time(group.clock.now_ms()),
        record_bytes_max=10_000,
        in_flight_max=10,
    )

    counts = sink.write([a_stored_task(due_in_ms=72 * HOUR_MS, uniqueness_key="far")])
    group.advance(hours=96)

    assert counts == SinkCounts(rows=1, batched=1)
    assert group.journal.names == ["far"]


@pytest.mark.parametrize("seed", range(12))
def test_every_row_runs_once_whenever_the_writer_pauses(
    virtual: VirtualScheduler, seed: int
) -> None:
    """Random times, random pauses, everything written twice in part."""
    rng = random.Random(seed)
    sink = sink_beside(virtual)
    expected = set()
    for batch in range(6):
        rows = [
            a_row(virtual, timedelta(seconds=rng.randint(-60, 7_200)), f"{batch}-{number}")
            for number in range(8)
        ]
        expected |= {row.key for row in rows}
        written = sink.write_rows(rows)
        virtual.advance(seconds=rng.choice([0, 1, 300, 4_000]))
        if rng.random() < 0.5:
            written = sink.write_rows(rows)
        sink.settle(written)
        virtual.advance(seconds=rng.choice([0, 1, 300]))
    virtual.drain()

    assert sorted(ran(virtual)) == sorted(expected)


def test_writing_again_changes_nothing(virtual: VirtualScheduler) -> None:
    """A job that is run a second time finds its own rows, and runs no done task again."""
    rows = [a_row(virtual, timedelta(minutes=minutes), str(minutes)) for minutes in (1, 300)]

    sink_beside(virtual).write(rows)
    virtual.advance(minutes=2)
    again = sink_beside(virtual).write(rows)
    virtual.drain()

    assert sorted(ran(virtual)) == sorted(row.key for row in rows)
    assert (again.rows, again.done) == (2, 1)


def test_newer_data_of_a_waiting_key_wins(virtual: VirtualScheduler) -> None:
    """The owner's own write is never overwritten from outside, so the log has to tell."""
    task = Task(
        ordering_id="a", scheduled_time=virtual.now + HOURS_LATER, uniqueness_key="a", data={"v": 1}
    )
    virtual.schedule_task(task).result(0)
    virtual.run_due()

    counts = sink_beside(virtual).write([a_row(virtual, HOURS_LATER, "a", v=2)])
    virtual.drain()

    assert counts.logged == 1
    assert [task.data for task in Recording.ran] == [{"v": 2}]


def test_a_cancelled_key_is_opened_again(virtual: VirtualScheduler) -> None:
    """As a schedule record that comes later in the log would do."""
    row = a_row(virtual, HOURS_LATER)
    virtual.schedule_task(row.to_task()).result(0)
    virtual.client.cancel_task(row.key).result(0)
    virtual.run_due()

    sink_beside(virtual).write([row])
    virtual.drain()

    assert ran(virtual) == [row.key]


def test_without_a_store_of_its_own_everything_goes_through_the_log(
    virtual: VirtualScheduler,
) -> None:
    """The embedded store has one writer at a time."""
    rows = [a_row(virtual, HOURS_LATER, str(number)) for number in range(50)]

    counts = sink_beside(virtual, direct=False).write(rows)
    virtual.drain()

    assert counts == SinkCounts(rows=50, batched=0, logged=50)
    assert sorted(ran(virtual)) == sorted(row.key for row in rows)


def test_a_task_the_log_could_never_hold_is_refused(virtual: VirtualScheduler) -> None:
    """With the limit and the setting it comes from."""
    key = a_row(virtual, timedelta(0)).key
    huge = StoredTask(key, b'{"x":"%b"}' % (b"x" * 10_000), NO_OFFSET)

    with pytest.raises(TaskTooLarge, match=r"at most 10000 are allowed: see client\."):
        sink_beside(virtual).write([huge])


def test_rows_of_a_partition_without_an_owner_are_not_before_its_beginning(tmp_path: Path) -> None:
    """A first node begins at its own time and would never look back: the writer begins earlier."""
    settings = settings_of(tmp_path / "data")
    now_ms = wiring.open_clock().now_ms()
    tasks = [
        StoredTask(TaskKey(now_ms - minutes * 60_000, name, ""), b"{}", NO_OFFSET)
        for minutes in (-1, 5, 10_000)
        for name in "abcdef"
    ]
    writer, bulk = wiring.open_writer(settings), wiring.open_bulk(settings)
    stores = wiring.open_stores(settings)
    ports = SinkPorts(writer, stores, bulk.begin_partition, lambda: now_ms)
    sink = TaskSink(ports, write_time=1, record_bytes_max=10_000, in_flight_max=10)

    counts = sink.write(tasks)
    claims = [stores.ownership.read_watermark(each).result(30) for each in range(PARTITIONS)]
    writer.close()
    bulk.close()
    stores.close()

    assert (counts.batched, counts.logged) == (18, 0)
    watermarks = {claim.watermark.watermark_ms for claim in claims if claim is not None}
    assert watermarks == {now_ms - 600_000_000}
    ran = threading.Event()
    done: list[TaskKey] = []

    class Counting(TaskExecutor):
        """Counts what is overdue."""

        def execute(self, task: Task) -> None:
            """Note the task."""
            done.append(task.key)
            if len(done) == 12:
                ran.set()

    with Scheduler(settings, executor=Counting):
        assert ran.wait(60)
    assert sorted(done) == sorted(task.key for task in tasks if task.key.scheduled_ms < now_ms)


def test_buckets_are_asked_for_together_and_one_that_is_begun_not_again(
    virtual: VirtualScheduler,
) -> None:
    """Each question costs as much as writing hundreds of rows; rows come sorted by bucket."""
    asked: list[tuple[BulkTable, int, int]] = []
    held: list[Bucket] = []

    def list_buckets(
        table: BulkTable, partitions: Collection[int], first_ms: int, end_ms: int
    ) -> list[Bucket]:
        asked.append((table, first_ms, end_ms))
        return [each for each in held if each.partition in partitions]

    rows = [a_row(virtual, timedelta(days=3, hours=hour)) for hour in (0, 1, 400)]
    hours = [hour_of(row.key.scheduled_ms) for row in rows]
    ports = SinkPorts(
        MemoryWriter(virtual.broker),
        virtual.stores,
        _nobody_begins,
        virtual.clock.now_ms,
        list_buckets,
    )
    sink = TaskSink(ports, write_time=1, record_bytes_max=10_000, in_flight_max=10)

    assert sink.look(rows).occupied == frozenset()
    near, far = (hours[0], hours[1] + HOUR_MS), (hours[2], hours[2] + HOUR_MS)
    assert asked == [(table, *span) for span in (near, far) for table in _CLOSED_OR_NOT]

    asked.clear()
    assert sink.look(rows[2:]).occupied == frozenset()
    assert asked == [], "the last bucket was empty, and what it holds by now is the sink's own"

    (partition,) = sink.look(rows[:1]).tasks
    held.append(Bucket(partition, hours[0]))
    assert sink.look(rows[:2]).occupied == frozenset()
    assert sink.look(rows[:1]).occupied == {held[0]}


_CLOSED_OR_NOT = (BulkTable.TASKS, BulkTable.STATUSES)
