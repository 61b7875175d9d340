"""Completion segments: plain successes of one hour, some hundred in one row of a store.

It decides which completions are packed together and how, and which of several versions of a key
counts: the one with the highest write time, whether a row or an entry of a segment (ADR 27). It
never reads or writes a store, and of a row it knows only the place of the write time.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, merge
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.values.bucket import hour_of

SEGMENT_ROWS_MIN = 32
"""With fewer successes in an hour they are rows: reading a single key is then cheaper."""
SEGMENT_ROWS_MAX = 500
"""Most entries of a segment, which bounds the cost of reading one key."""
_ID_LENGTH_MAX = 200
"""Most characters of both ids together; longer ones are rows, which bounds a segment's size."""
_SOUGHT_MAX = 16

Row = tuple[Any, ...]
"""A completion as an adapter reads it; its write time comes last."""
KeyOf = Callable[[Row], Any]
"""Returns the key of a row: it sorts as ``TaskKey`` does, and begins with the scheduled time."""
Entry = tuple[TaskKey, int, int, int | None, int]
"""Key, offset, attempts, started_ms, finished_ms."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Entry]).decode
_write_time_of = itemgetter(-1)


class Segment(NamedTuple):
    """Packed entries in key order, and the times of the first and the last of them."""

    first_ms: int
    last_ms: int
    body: bytes


def plain_by_hour(
    completions: Iterable[Completion], write_time: int, rows_min: int = SEGMENT_ROWS_MIN
) -> tuple[Mapping[int, list[Completion]], list[Completion]]:
    """Return the completions for segments, by hour in milliseconds, and those for rows.

    Fewer than ``rows_min`` of an hour are rows.  A writer with write times below every owner's may
    use one twice: its completions are rows.
    """
    by_hour: dict[int, list[Completion]] = {}
    rows: list[Completion] = []
    for each in completions:
        if write_time >> EPOCH_SHIFT and _is_plain(each):
            by_hour.setdefault(hour_of(each.key.scheduled_ms), []).append(each)
        else:
            rows.append(each)
    for hour_ms in [hour for hour, found in by_hour.items() if len(found) < rows_min]:
        rows += by_hour.pop(hour_ms)
    return by_hour, rows


def segments_of(completions: Iterable[Completion]) -> list[Segment]:
    """Pack plain successes of one hour, cut into segments in key order."""
    entries: list[Entry] = sorted(
        (each.key, each.offset, each.attempts, each.started_ms, each.finished_ms)
        for each in completions
    )
    return [
        packed(entries[start : start + SEGMENT_ROWS_MAX])
        for start in range(0, len(entries), SEGMENT_ROWS_MAX)
    ]


def packed(entries: Sequence[Entry]) -> Segment:
    """Pack entries that are in key order, at least one."""
    return Segment(entries[0][0].scheduled_ms, entries[-1][0].scheduled_ms, _encode(entries))


def unpacked(body: bytes, wanted: Collection[TaskKey] | None = None) -> list[Entry]:
    """Return the entries of a segment; an empty list if it certainly has no wanted key."""
    # Ids are in the body uncompressed: searching one costs a hundredth of unpacking.
    few = wanted is not None and len(wanted) <= _SOUGHT_MAX
    if few and not any(key.uniqueness_key.encode() in body for key in wanted or ()):
        return []
    return _decode(body)


def merged(rows: Iterable[Row], entries: Iterable[Row], key_of: KeyOf) -> Iterator[Row]:
    """Yield, from rows and entries in key order, the version of each key that counts."""
    for _, versions in groupby(merge(rows, entries, key=key_of), key_of):
        yield max(versions, key=_write_time_of)


def in_key_order(segments: Iterable[tuple[int, list[Row]]], key_of: KeyOf) -> Iterator[Row]:
    """Yield the entries of segments, each given by its first time and its entries as rows.

    Segments come in the order of their first times; only overlapping ones are held at a time.
    """
    waiting: list[tuple[Any, int, int, list[Row]]] = []

    def next_row() -> Row:
        _, number, place, rows = heappop(waiting)
        if place + 1 < len(rows):
            heappush(waiting, (key_of(rows[place + 1]), number, place + 1, rows))
        return rows[place]

    for number, (first_ms, rows) in enumerate(segments):
        while waiting and waiting[0][0][0] < first_ms:
            yield next_row()
        if rows:
            heappush(waiting, (key_of(rows[0]), number, 0, rows))
    while waiting:
        yield next_row()


def _is_plain(completion: Completion) -> bool:
    key = completion.key
    return (
        completion.result is CompletionResult.SUCCESS
        and completion.reason is None
        and completion.moved_to_ms is None
        and not completion.for_good
        and len(key.ordering_id) + len(key.uniqueness_key) <= _ID_LENGTH_MAX
    )
