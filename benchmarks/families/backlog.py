"""Installations that already hold many tasks of the next thirty days, made without a log.

Rows are written through the store's own port, as the pipeline does, before any node runs.
"""

import contextlib
import itertools
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future

import msgspec

from benchmarks.bench import Bench
from benchmarks.loads import Load, data_of
from benchmarks.records import wall_s
from hourhand import Settings
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.priority import with_priority
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring

_DAY_MS = 86_400_000
DAYS = 30
"""Days over which far tasks lie, beginning tomorrow."""
_CHUNK = 1_000
_IN_FLIGHT = 8
_WRITE_TIME = 1
"""Below every owner's, as bulk writers write."""
_IDS_A_PARTITION = 50
_TIMEOUT_S = 120.0


@contextlib.contextmanager
def filled(bench: Bench, tasks: int, *, embedded: bool = False) -> Iterator[Settings]:
    """Make an installation with so many far tasks."""
    make = bench.servers.embedded if embedded else bench.servers.installation
    with make(f"backlog_{tasks}") as settings:
        began_s = wall_s()
        fill(settings, tasks)
        bench.say(f"{tasks:,} far tasks written in {wall_s() - began_s:.0f} s")
        yield settings


def shared(bench: Bench, tasks: int) -> Settings:
    """Return an installation with so many far tasks that all families of this call use."""
    if tasks not in bench.backlogs:
        bench.backlogs[tasks] = bench.kept.enter_context(filled(bench, tasks))
    return bench.backlogs[tasks]


def fill(settings: Settings, tasks: int) -> None:
    """Write far tasks, the same number into each partition."""
    stores = wiring.open_stores(settings)
    try:
        ids = ids_by_partition(settings.topic.partitions, _IDS_A_PARTITION)
        each = tasks // settings.topic.partitions
        for partition, names in enumerate(ids):
            _fill_partition(stores, partition, names, each)
    finally:
        stores.close()


def leave(settings: Settings, load: Load) -> None:
    """Write a load as a node leaves it that had stored it, and stopped before it was due."""
    stores = wiring.open_stores(settings)
    rows: defaultdict[int, list[StoredTask]] = defaultdict(list)
    for number in load.numbers():
        data = msgspec.json.encode(load.data(number))
        if load.priority is not None:
            data = with_priority(data, load.priority)
        partition = partition_of(load.ordering_id(number), settings.topic.partitions)
        rows[partition].append(StoredTask(load.key(number), data, 0))
    try:
        for partition in range(settings.topic.partitions):
            # A partition that never had an owner would begin now, after all of them.
            claimed = stores.ownership.claim(partition, load.due_ms(load.first))
            claimed.result(_TIMEOUT_S)
            _insert(stores, partition, rows[partition])
    finally:
        stores.close()


def ids_by_partition(partitions: int, wanted: int, name: str = "far") -> list[list[str]]:
    """Return ordering ids of every partition, so many each."""
    found: list[list[str]] = [[] for _ in range(partitions)]
    number = 0
    while any(len(names) < wanted for names in found):
        ordering_id = f"{name}-{number}"
        names = found[partition_of(ordering_id, partitions)]
        if len(names) < wanted:
            names.append(ordering_id)
        number += 1
    return found


def _fill_partition(stores: Stores, partition: int, names: list[str], count: int) -> None:
    first_ms = int(wall_s() * 1000) + _DAY_MS
    step_ms = DAYS * _DAY_MS / max(1, count)
    data = msgspec.json.encode(data_of(0))

    def row(number: int) -> StoredTask:
        due_ms = first_ms + int(number * step_ms)
        return StoredTask(TaskKey(due_ms, names[number % len(names)], str(number)), data, 0)

    _insert(stores, partition, map(row, range(count)))


def _insert(stores: Stores, partition: int, rows: Iterable[StoredTask]) -> None:
    left = iter(rows)
    written: deque[Future[None]] = deque()
    while some := list(itertools.islice(left, _CHUNK)):
        written.append(stores.schedule.insert_tasks(partition, some, _WRITE_TIME))
        if len(written) > _IN_FLIGHT:
            written.popleft().result(_TIMEOUT_S)
    for each in written:
        each.result(_TIMEOUT_S)
