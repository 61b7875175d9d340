"""Whole batches of rows that are tasks beyond doubt, judged a column at a time.

Most batches of most files hold nothing but tasks, which their columns show at a tenth of what
judging row by row costs.  It decides nothing of its own: where a column leaves any doubt the batch
is left to ``judging``, whose rules these are.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.model.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from actors.model.partition import partition_of
from actors.model.task import ID_BYTES_MAX
from scheduler.pipeline.judging import Rules, is_object, record_bytes_bound

_MICROS = pa.timestamp("us", tz="UTC")
_NO_DATA = "{}"


class TaskColumns(NamedTuple):
    """Rows that are tasks, none of their values missing."""

    millis: pa.Array
    """When each is due, in UTC milliseconds."""
    ordering_id: pa.Array
    uniqueness_key: pa.Array
    data: pa.Array
    """JSON objects in UTF-8, as ``binary``."""


def millis_of(times: pa.Array) -> pa.Array:
    """Return instants as whole milliseconds, cut downwards; raises ArrowInvalid for no instants."""
    if not pa.types.is_timestamp(times.type):
        return times.cast(pa.int64())
    micros = times.cast(_MICROS).cast(pa.int64())
    # Arrow divides towards zero, so what lies before 1970 is one lower.
    towards_zero = pc.divide(micros, 1000)
    below = pc.less(micros, pc.multiply(towards_zero, 1000)).cast(pa.int64())
    return pc.subtract(towards_zero, below)


def partitions_of(ordering_ids: pa.Array, count: int) -> pa.Array:
    """Return the partition, of ``count``, that owns each ordering id; none is missing."""
    ids = ordering_ids.dictionary_encode()
    owners = [partition_of(each, count) for each in ids.dictionary.to_pylist()]
    return pa.array(owners, pa.int32()).take(ids.indices)


def plain_tasks(
    rules: Rules, times: pa.Array, ordering_id: pa.Array, uniqueness_key: pa.Array, data: pa.Array
) -> TaskColumns | None:
    """Return the tasks that rows are; None where one of them may be none."""
    instants = pa.types.is_timestamp(times.type) or pa.types.is_integer(times.type)
    given = (times, ordering_id, uniqueness_key)
    if not len(times) or not instants or any(each.null_count for each in given):
        return None
    millis = millis_of(times)
    if not _within(millis, max(rules.oldest_ms, INSTANT_MIN_MS), INSTANT_MAX_MS):
        return None
    if not _are_ids(rules, ordering_id, uniqueness_key, data):
        return None
    encoded = _given_data(data).cast(pa.binary())
    if not _are_objects(encoded.to_pylist()):
        return None
    return TaskColumns(millis, ordering_id, uniqueness_key, encoded)


def _within(values: pa.Array, least: int, most: int) -> bool:
    ends = pc.min_max(values).as_py()
    return bool(least <= ends["min"] and ends["max"] <= most)


def _are_ids(rules: Rules, ordering_id: pa.Array, uniqueness_key: pa.Array, data: pa.Array) -> bool:
    """Whether ids and data are text of lengths that are allowed, however the rows combine them."""
    try:
        for each in (ordering_id, uniqueness_key, data):
            each.validate(full=True)
    except pa.ArrowInvalid:
        return False
    lengths = pc.binary_length(ordering_id)
    ids_bytes = (pc.max(lengths).as_py(), pc.max(pc.binary_length(uniqueness_key)).as_py())
    data_bytes = pc.max(pc.binary_length(data)).as_py() or 0
    bound = record_bytes_bound(sum(ids_bytes), data_bytes)
    return (
        bool(pc.min(lengths).as_py() and max(ids_bytes) <= ID_BYTES_MAX)
        and bound <= rules.record_bytes_max
    )


def _given_data(data: pa.Array) -> pa.Array:
    """Put an object without fields where there is no data."""
    filled = pc.fill_null(data, "")
    return pc.if_else(pc.equal(pc.binary_length(filled), 0), _NO_DATA, filled)


def _are_objects(texts: Iterable[Any]) -> bool:
    return all(map(is_object, texts))
