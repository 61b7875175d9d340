"""The content of a memory store, and one node's view of it: rows in key order, with write times."""

import sys
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial, wraps
from inspect import signature
from typing import Any, Generic, ParamSpec, TypeVar, cast

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import AuditEntry, AuditPlace, NodeReport
from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.definition import Definition, DefinitionName
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.outcome_row import OutcomesRow
from hourhand.actors.model.task.status import AttemptRecord, Completion, RecordedOutcome
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.values.bucket import (
    HOUR_MS,
    SURELY_DELETED_HOURS,
    hour_of,
    hours_between,
)
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.memory.delivery import Deliver, Request

Answer = TypeVar("Answer")
Given = ParamSpec("Given")
Value = TypeVar("Value")
_RowKey = tuple[TaskKey, int]
_LAST = sys.maxsize


class Rows(Generic[Value]):
    """Rows of all partitions, keyed by task key and a number (an attempt's, or 0)."""

    def __init__(self) -> None:
        self._keys: dict[int, list[_RowKey]] = defaultdict(list)
        self._cells: dict[int, dict[_RowKey, tuple[int, Value]]] = defaultdict(dict)
        self._tombstones: dict[int, dict[int, int]] = defaultdict(dict)
        """By partition and start of an hour, the highest write time of its deletes."""

    def insert(
        self, partition: int, key: TaskKey, value: Value, write_time: int, number: int = 0
    ) -> None:
        """Write a row unless a later version, or a delete at or above its time, stands there."""
        row_key = (key, number)
        if self._tombstones[partition].get(hour_of(key.scheduled_ms), -1) >= write_time:
            return
        cells = self._cells[partition]
        if row_key not in cells:
            insort(self._keys[partition], row_key)
        elif cells[row_key][0] >= write_time:
            return
        cells[row_key] = (write_time, value)

    def between(self, partition: int, after: TaskKey, up_to: TaskKey) -> list[Value]:
        """Return the rows with ``after`` < key <= ``up_to``, in order."""
        keys, cells = self._keys[partition], self._cells[partition]
        start = bisect_right(keys, (after, _LAST))
        return [cells[each][1] for each in keys[start : bisect_right(keys, (up_to, _LAST))]]

    def before(self, partition: int, after: TaskKey, before_ms: int) -> list[Value]:
        """Return the rows with key > ``after`` that are scheduled before a time, in order."""
        keys, cells = self._keys[partition], self._cells[partition]
        start = bisect_right(keys, (after, _LAST))
        return [cells[each][1] for each in keys[start : _index_at(keys, before_ms)]]

    def of_key(self, partition: int, key: TaskKey) -> list[Value]:
        """Return the rows of one key, by number."""
        keys, cells = self._keys[partition], self._cells[partition]
        start = bisect_left(keys, (key, 0))
        return [cells[each][1] for each in keys[start : bisect_right(keys, (key, _LAST))]]

    def of_keys(self, partition: int, keys: Iterable[TaskKey]) -> list[Value]:
        """Return the rows of single keys, in their order."""
        return [row for key in keys for row in self.of_key(partition, key)]

    def hours(self, partition: int, first_ms: int, end_ms: int) -> set[int]:
        """Return the hours of [first, end) that hold rows."""
        keys = self._keys[partition]
        inside = keys[_index_at(keys, first_ms) : _index_at(keys, end_ms)]
        return {hour_of(key.scheduled_ms) for key, _ in inside}

    def delete(
        self, partition: int, first_ms: int, end_ms: int, write_time: int, held: set[int]
    ) -> None:
        """Remove [first, end) up to a write time, and what comes below it later to the hours
        ``held`` and to the last ones.
        """
        keys, cells = self._keys[partition], self._cells[partition]
        start, end = _index_at(keys, first_ms), _index_at(keys, end_ms)
        inside = keys[start:end]
        living = [each for each in inside if cells[each][0] > write_time]
        for each in set(inside).difference(living):
            del cells[each]
        keys[start:end] = living
        tombstones = self._tombstones[partition]
        surely_ms = max(first_ms, end_ms - SURELY_DELETED_HOURS * HOUR_MS)
        for hour_ms in held.union(hours_between(surely_ms, end_ms)):
            tombstones[hour_ms] = max(write_time, tombstones.get(hour_ms, -1))


def _index_at(keys: list[_RowKey], time_ms: int) -> int:
    return bisect_left(keys, (first_key_at(time_ms), 0))


class MemoryStores:
    """The content of a store, independent of its views.

    Rows expire by ``clock``; without one they never expire.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.tasks: Rows[StoredTask] = Rows()
        self.completions: Rows[Completion] = Rows()
        self.attempts: Rows[AttemptRecord] = Rows()
        self.checkpoints: Rows[TaskCheckpoint] = Rows()
        self.results: Rows[StoredResult] = Rows()
        self.reached_ms = 0
        """The latest end of a task with a result."""
        self.outcome_log: dict[int, dict[tuple[int, int], tuple[int, OutcomesRow]]] = {}
        """By partition and place: write time and row."""
        self.outcomes_gone: dict[int, list[tuple[tuple[int, int], tuple[int, int], int]]] = {}
        """By partition: ranges that were removed, with their write times."""
        self.kept_outcomes: dict[int, tuple[int, bytes]] = {}
        """By position: time and text."""
        self.kept_position = 0
        """The last position that was given out."""
        self.claims: dict[int, Claim] = {}
        self.outcomes: dict[tuple[int, int], tuple[int, RecordedOutcome]] = {}
        """By partition and offset: write time and outcome."""
        self.definitions: dict[int, dict[DefinitionName, Definition]] = {}
        """By partition."""
        self.expiries: dict[tuple[int, DefinitionName], float] = {}
        """Monotonic times at which rows of definitions expire."""
        self.clock = clock
        self.partition_count: int | None = None
        self.reports: dict[str, NodeReport] = {}
        """By node."""
        self.config = OperatorConfig()
        self.audit: dict[AuditPlace, AuditEntry] = {}
        self.tallies: dict[int, dict[int, tuple[int, bytes]]] = {}
        """By partition and hour: write time and encoded counts."""
        self.counted_offsets: dict[int, tuple[int, int]] = {}
        """By partition: write time and offset."""
        self.page_limit: Callable[[int], int] = lambda limit: limit
        """Returns the number of rows for a page of a requested size; a store may answer fewer."""


class View:
    """One node's way to the data: makes requests, and refuses them once it is closed."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._closed = False

    def ask(self, kind: str, partition: int, effect: Callable[[], Answer]) -> "Future[Answer]":
        """Hand a request to whoever delivers; StoreUnavailable where the view is closed."""
        request = Request(kind, partition, effect)
        if self._closed:
            request.fail(StoreUnavailable("the store was closed; open it again to go on"))
        else:
            self._deliver(request)
        return request.future

    def close(self) -> None:
        """Refuse what comes from now on."""
        self._closed = True


class MemoryTables:
    """One port over the content of a store, as a view reaches it."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        self._data = data
        self.ask = view.ask


def request(method: "Callable[Given, Answer]") -> "Callable[Given, Future[Answer]]":
    """Return a method of ``MemoryTables`` that makes a request of its effect.

    The request has the method's name and the method's partition, -1 without one. A list is copied:
    its caller may change it before the effect.
    """
    has_partition = "partition" in signature(method).parameters

    @wraps(method)
    def asked(*args: Given.args, **named: Given.kwargs) -> "Future[Answer]":
        copied: list[Any] = [_copied(each) for each in args]
        tables = cast("MemoryTables", copied[0])
        partition = copied[1] if has_partition else -1
        by_name: dict[str, Any] = {name: _copied(each) for name, each in named.items()}
        return tables.ask(method.__name__, partition, partial(method, *copied, **by_name))

    return asked


def _copied(given: object) -> object:
    return tuple(given) if isinstance(given, list) else given


def check_hours(*starts: int) -> None:
    """Raise ValueError where one of these is not the start of an hour."""
    for each in starts:
        if each != hour_of(each):
            raise ValueError(f"{each} is not the start of an hour")
