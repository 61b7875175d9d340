"""herd_load, herd_drain and herd_sweep: very many tasks that are all due at one moment.

All of them lie in one hour, so each partition has one row of the store's that cannot be split:
how fast it is written, read to its end, drained and deleted.  They share a moment and are not
spread over the minute: what a small herd would measure then is the minute.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.bench import Bench
from benchmarks.figures import Figure, Line, quantile
from benchmarks.loads import NOTE, Load
from benchmarks.records import Records, wall_s
from hourhand import Settings
from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.cassandra.connection import open_connection

MEASURES = ("herd_load", "herd_drain", "herd_sweep")
TASKS_VARIABLE = "HERD_TASKS"
"""Names the number of tasks where it is not that of the version."""
_TASKS_AN_ID = 6
_TASK_BYTES = len(NOTE) + 80
"""About what key and data of a row hold."""
_DAY_S = 86_400.0
_WARMING_TASKS = 20_000
_WARMING_SHARE = 50
_SLACK = 1.5
"""Factor by which the load may be slower than the tasks that were loaded before."""
_PAGE_ROWS = 500
_READS = 100
_PHASE_S = 1_200.0
_DRAIN_S = 300.0
"""The rate within this time is the figure of a drain that takes longer."""
_TIMEOUT_S = 120.0
_POLL_S = 0.02
_MIB = 2**20


@dataclass(frozen=True)
class _Herd:
    """A load with the partition of each of its ordering ids."""

    load: Load
    homes: bytes

    @classmethod
    def of(cls, load: Load, partitions: int) -> "_Herd":
        """Work out where its ids live."""
        homes = (partition_of(load.ordering_id(each), partitions) for each in range(load.ids))
        return cls(load, bytes(homes))

    def home(self, number: int) -> int:
        """Return the partition of a task."""
        return self.homes[number % self.load.ids]

    def rows(self) -> Counter[int]:
        """Return how many tasks each partition has."""
        whole, rest = divmod(self.load.count, self.load.ids)
        rows = Counter({home: ids * whole for home, ids in Counter(self.homes).items()})
        rows.update(self.homes[:rest])
        return rows

    def last_scheduled(self) -> dict[int, TaskKey]:
        """Return the task of each partition that was scheduled last."""
        return {
            self.home(each): self.load.key(each) for each in self.load.numbers()[-self.load.ids :]
        }

    def last_started(self, records: Records) -> dict[int, TaskKey]:
        """Return the task of each partition that ran last; RuntimeError unless each ran once."""
        seen = bytearray(self.load.count)
        last: dict[int, tuple[float, int]] = {}
        for number, started_s in records:
            if seen[number]:
                raise RuntimeError(f"task {number} ran twice")
            seen[number] = 1
            home = self.home(number)
            last[home] = max(last.get(home, (0.0, 0)), (started_s, number))
        if not all(seen):
            raise RuntimeError(f"{seen.count(0)} of {self.load.count} tasks did not run")
        return {home: self.load.key(number) for home, (_, number) in last.items()}


def run(bench: Bench) -> list[Line]:
    """Load, drain and sweep one herd."""
    count = int(os.environ.get(TASKS_VARIABLE) or bench.sizes.herd_tasks)
    with bench.servers.installation("herd") as settings:
        lines = taken(bench, settings, count)
    return [line for line in lines if line.measure in bench.wanted]


def taken(bench: Bench, settings: Settings, count: int) -> list[Line]:
    """Take all three measures in an installation that holds nothing yet."""
    stores = wiring.open_stores(settings)
    try:
        with bench.node(settings, count) as (_, records):
            herd, load = _load(bench, settings, stores, count)
            drain = _drain(bench, stores, herd, records)
        return [load, drain, _sweep(bench, settings, stores, herd)]
    finally:
        stores.close()


def _load(bench: Bench, settings: Settings, stores: Stores, count: int) -> tuple[_Herd, Line]:
    """Have a client schedule the herd, and the node store it, before it is due."""
    expected = _warmed(bench, settings, stores, count)
    ahead_s = _SLACK * count / expected + 4 * bench.sizes.ahead_s
    ids = max(1, count // _TASKS_AN_ID)
    herd = _Herd.of(Load(count, ids), settings.topic.partitions)
    herd = replace(herd, load=replace(herd.load, due_s=float(math.ceil(wall_s() + ahead_s))))
    taken_s = _stored(bench, settings, stores, herd)
    early_s = herd.load.due_s - wall_s()
    bench.say(f"{count:,} tasks stored in {taken_s:.0f} s, {early_s:.0f} s before they are due")
    rows = max(herd.rows().values())
    detail: dict[str, Any] = {
        "tasks": count,
        "stored_before_due_s": round(early_s, 1),
        "largest_hour_rows": rows,
        "largest_hour_about_mib": round(rows * _TASK_BYTES / _MIB, 1),
    }
    if early_s > 0:
        detail |= _read_times(stores, herd)
    else:
        bench.say("*** Stored after it was due: neither load nor drain stands alone. Take it again")
    return herd, Line("herd_load", Figure.of([count / taken_s]), "rows/s", detail=detail)


def _warmed(bench: Bench, settings: Settings, stores: Stores, count: int) -> float:
    """Store tasks of another day, nobody's figure; return how many a second that were."""
    warming = max(min(count, _WARMING_TASKS), count // _WARMING_SHARE)
    load = Load(warming, max(1, warming // _TASKS_AN_ID), wall_s() + 2 * _DAY_S, name="warming")
    herd = _Herd.of(load, settings.topic.partitions)
    return warming / _stored(bench, settings, stores, herd)


def _stored(bench: Bench, settings: Settings, stores: Stores, herd: _Herd) -> float:
    """Schedule a load; return how long it took until the last of each partition was a row."""
    with bench.client(settings, herd.load) as client:
        client.say("go")
        began_s = float(client.expect("done", _PHASE_S)["began_s"])
    return _seen(herd.last_scheduled(), stores.schedule.find_tasks) - began_s


def _seen(waiting: dict[int, TaskKey], find: Callable[[int, list[TaskKey]], Any]) -> float:
    """Wait until each partition's key is found; return when that was; raises TimeoutError."""
    ends_s = time.monotonic() + _PHASE_S
    while waiting:
        for partition, key in tuple(waiting.items()):
            if find(partition, [key]).result(_TIMEOUT_S):
                del waiting[partition]
        if time.monotonic() > ends_s:
            raise TimeoutError(f"{len(waiting)} partitions are not stored in {_PHASE_S:.0f} s")
        time.sleep(_POLL_S if waiting else 0)
    return wall_s()


def _read_times(stores: Stores, herd: _Herd) -> dict[str, float]:
    """Read pages as a node does, where an hour's row begins and where it ends."""
    due_ms = herd.load.due_ms(0)
    first = first_key_at(due_ms)
    # In order of text, ids that begin with 9 are the last hundredth or so.
    last = TaskKey(due_ms, f"{herd.load.name}-9", "")
    partitions = len(herd.rows())
    took_ms: dict[str, list[float]] = {"begin": [], "end": []}
    # By turns, so that neither meets the colder server.
    for number in range(_READS):
        for name, after in (("begin", first), ("end", last)):
            partition = number % partitions
            took_ms[name].append(_page_ms(stores, partition, after, due_ms + 1))
    return {
        f"page_{name}_p{percent}_ms": round(quantile(sorted(each_ms), percent / 100), 1)
        for name, each_ms in took_ms.items()
        for percent in (50, 99)
    }


def _page_ms(stores: Stores, partition: int, after: TaskKey, before_ms: int) -> float:
    began_s = time.monotonic()
    stores.schedule.load_tasks(partition, after, before_ms, _PAGE_ROWS).result(_TIMEOUT_S)
    return (time.monotonic() - began_s) * 1000


def _drain(bench: Bench, stores: Stores, herd: _Herd, records: Records) -> Line:
    """Wait until all of it ran and is completed, from the moment it is due, or for a while."""
    load = herd.load
    try:
        records.wait_for(load.count, max(0.0, load.due_s - wall_s()) + _DRAIN_S)
    except TimeoutError:
        return _drained_in_part(bench, load, records)
    ended_s = _seen(herd.last_started(records), stores.status.find_completions)
    after, up_to = first_key_at(load.due_ms(0)), TaskKey(load.due_ms(0) + 1, "", "")
    # One partition after the other: all completions of a herd are much memory.
    for partition, rows in herd.rows().items():
        ends_s = time.monotonic() + _TIMEOUT_S
        while len(_completions(stores, partition, after, up_to)) < rows:
            if time.monotonic() > ends_s:
                raise TimeoutError(f"completions of partition {partition} are missing")
            ended_s = wall_s()
    took_s = ended_s - load.due_s
    bench.say(f"all of them completed {took_s:.0f} s after they were due")
    return Line("herd_drain", Figure.of([load.count / took_s]), "tasks/s")


def _drained_in_part(bench: Bench, load: Load, records: Records) -> Line:
    """Return the rate so far, of tasks that ran; RuntimeError where one of them ran twice."""
    took_s = wall_s() - load.due_s
    numbers = [number for number, _ in records]
    if len(set(numbers)) < len(numbers):
        raise RuntimeError(f"{len(numbers) - len(set(numbers))} tasks ran twice")
    bench.say(f"{len(numbers):,} of them ran in the first {took_s:.0f} s after they were due")
    detail = {"ran": len(numbers), "of": load.count}
    return Line("herd_drain", Figure.of([len(numbers) / took_s]), "tasks/s", detail=detail)


def _completions(stores: Stores, partition: int, after: TaskKey, up_to: TaskKey) -> Any:
    return stores.status.load_completions(partition, after, up_to).result(_TIMEOUT_S)


def _sweep(bench: Bench, settings: Settings, stores: Stores, herd: _Herd) -> Line:
    """Delete the hour as owners do once it is closed, and load what is left of it.

    The store's own calls are made without a node, as a node waits until the hour is over.
    """
    hour_ms = hour_of(herd.load.due_ms(0))
    before_ms, partitions = hour_ms + HOUR_MS, settings.topic.partitions
    # Asked before the delete: afterwards a compaction may have dropped the rows.
    largest_mib = _largest_file_row_mib(settings) if settings.store == "cassandra" else 0
    began_s = time.monotonic()
    deleted = [
        delete(each, hour_ms, before_ms, _write_time(stores, each))
        for each in range(partitions)
        for delete in (stores.schedule.delete_tasks, stores.status.delete_statuses)
    ]
    for each in deleted:
        each.result(_TIMEOUT_S)
    took_s = time.monotonic() - began_s
    first_ms = [
        _page_ms(stores, each, first_key_at(hour_ms), before_ms) for each in range(partitions)
    ]
    empty_ms = [
        _page_ms(stores, each, first_key_at(hour_ms - HOUR_MS), hour_ms)
        for each in range(partitions)
    ]
    bench.say(f"swept in {took_s:.2f} s; the slowest load after it took {max(first_ms):.0f} ms")
    detail = {
        "first_load_after_max_ms": round(max(first_ms), 1),
        "load_of_an_empty_hour_max_ms": round(max(empty_ms), 1),
        "largest_row_in_files_mib": largest_mib,
    }
    return Line("herd_sweep", Figure.of([took_s]), "s", detail=detail)


def _write_time(stores: Stores, partition: int) -> int:
    """Return one above all of the owner that is gone."""
    claim = stores.ownership.read_watermark(partition).result(_TIMEOUT_S)
    assert claim is not None
    return (claim.epoch + 1) << EPOCH_SHIFT


def _largest_file_row_mib(settings: Settings) -> int:
    """Return what Cassandra knows of its files: 0 while all of it is in memory."""
    connection = open_connection(settings.cassandra)
    try:
        rows = connection.session.execute(
            "SELECT mebibytes FROM system_views.max_partition_size WHERE keyspace_name = %s"
            " AND table_name = %s",
            (settings.cassandra.keyspace, "task_schedule"),
        )
        return int(max((each[0] for each in rows), default=0))
    finally:
        connection.cluster.shutdown()
