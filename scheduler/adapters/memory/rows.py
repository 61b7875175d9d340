"""One table of the store: rows in key order, write times, and what deletes leave behind."""

import sys
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from typing import Generic, TypeVar

from actors.model.bucket import HOUR_MS, SURELY_DELETED_HOURS, hour_of, hours_between
from actors.model.key import TaskKey, first_key_at

Value = TypeVar("Value")
_RowKey = tuple[TaskKey, int]
_LAST = sys.maxsize


class Rows(Generic[Value]):
    """Rows of all partitions, keyed by task key and a number (an attempt's, or 0)."""

    def __init__(self) -> None:
        self._keys: dict[int, list[_RowKey]] = defaultdict(list)
        self._cells: dict[int, dict[_RowKey, tuple[int, Value]]] = defaultdict(dict)
        self._tombstones: dict[int, dict[int, int]] = defaultdict(dict)
        """Of each partition: the start of an hour, and the highest time it was deleted at."""

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
