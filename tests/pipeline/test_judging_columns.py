"""Whole batches at once, against the same rows one by one."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from actors.model.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from actors.model.partition import partition_of
from actors.model.task import ID_BYTES_MAX
from scheduler.pipeline.judging import Rules, judge
from scheduler.pipeline.judging_columns import millis_of, partitions_of, plain_tasks
from scheduler.pipeline.transform_load import times_of

NOON_MS = 1_770_638_400_000
RULES = Rules(partition_count=4, oldest_ms=NOON_MS, record_bytes_max=1_000)
LAX = Rules(4, INSTANT_MIN_MS, 1_000_000)
MICROS = pa.timestamp("us", tz="UTC")
Row = tuple[Any, Any, Any, Any]
SOUND: Row = (NOON_MS, "customer-7", "x", '{"n":1}')


def batch_of(*rows: Row) -> list[pa.Array]:
    """Return the columns of rows; a time is milliseconds."""
    times, *texts = zip(*rows, strict=True)
    return [pa.array(times, pa.int64()), *(pa.array(each, pa.string()) for each in texts)]


def one_by_one(rules: Rules, *rows: Row) -> list[tuple[Any, ...]]:
    """Return key and data of the tasks that rows are, judged alone; all of them must be."""
    tasks = [judge(rules, *row).task for row in rows]
    return [(*task.key, task.data) for task in tasks if task is not None]


@pytest.mark.parametrize(
    "row",
    [
        SOUND,
        (NOON_MS + 1, "customer-ä", "", ' { "b" : 1.0, "a":1e3 } '),
        (NOON_MS, "a", "x", None),
        (NOON_MS, "a", "x", ""),
        (INSTANT_MAX_MS, "a", "\0", "{}"),
    ],
)
def test_a_batch_of_tasks_is_what_its_rows_are(row: Row) -> None:
    """The same keys and bytes as row by row, data that is missing included."""
    found = plain_tasks(RULES, *batch_of(SOUND, row))

    assert found is not None
    columns = [each.to_pylist() for each in found]
    assert list(zip(*columns, strict=True)) == one_by_one(RULES, SOUND, row)


@pytest.mark.parametrize(
    "row",
    [
        (NOON_MS - 1, "a", "x", "{}"),
        (INSTANT_MAX_MS + 1, "a", "x", "{}"),
        (None, "a", "x", "{}"),
        (NOON_MS, None, "x", "{}"),
        (NOON_MS, "", "x", "{}"),
        (NOON_MS, "a", None, "{}"),
        (NOON_MS, "a", "x", "[1]"),
        (NOON_MS, "a", "x", '{"n":1},{"n":2}'),
        (NOON_MS, "a", "x", '{"n":NaN}'),
        (NOON_MS, "a", "x", '{"a":' * 100_000),
        (NOON_MS, "a", "x", '{"n":"' + 1_000 * "x" + '"}'),
    ],
)
def test_a_batch_with_one_row_that_is_none_is_left_to_be_judged_by_row(row: Row) -> None:
    """Which alone knows the reason."""
    assert one_by_one(RULES, row) == []
    assert plain_tasks(RULES, *batch_of(SOUND, row, SOUND)) is None


def test_ids_are_measured_in_bytes() -> None:
    """One of half as many characters may be too long."""
    longest = "ä" * (ID_BYTES_MAX // 2)

    assert plain_tasks(LAX, *batch_of((NOON_MS, longest, longest, "{}"))) is not None
    assert plain_tasks(LAX, *batch_of((NOON_MS, longest + "ä", "x", "{}"))) is None
    assert plain_tasks(LAX, *batch_of((NOON_MS, "a", longest + "ä", "{}"))) is None


def test_text_that_is_no_text_is_left_to_be_judged_by_row() -> None:
    """Spark's strings are bytes, which need not be UTF-8."""
    times, ids, _, data = batch_of(SOUND)
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())

    assert plain_tasks(RULES, times, broken, ids, data) is None
    assert plain_tasks(RULES, times, ids, broken, data) is None
    assert plain_tasks(RULES, times, ids, ids, broken) is None


def test_text_for_times_and_an_empty_batch_are_left_to_be_judged_by_row() -> None:
    """A column cannot tell a zone."""
    _, *others = batch_of(SOUND)

    assert plain_tasks(RULES, pa.array(["2026-02-09T12:00:00Z"]), *others) is None
    assert plain_tasks(RULES, *(each.slice(0, 0) for each in batch_of(SOUND))) is None


def test_instants_are_cut_to_milliseconds_downwards() -> None:
    """Before 1970 as after it."""
    micros = [-1_001, -1_000, -999, -1, 0, 1, 999, 1_000, None]
    times = pa.array(micros, pa.int64()).cast(MICROS)

    expected = [None if each is None else each // 1_000 for each in micros]
    assert millis_of(times).to_pylist() == times_of(times) == expected
    nanos = pa.array([datetime(2026, 2, 9, 12, tzinfo=UTC)], pa.timestamp("ns", tz="UTC"))
    assert times_of(nanos) == [NOON_MS]


def test_partitions_are_those_of_each_id() -> None:
    """Whichever ids repeat."""
    ids = ["a", "b", "ä", "a", "customer-7", "b"]

    owners = partitions_of(pa.array(ids), 7).to_pylist()

    assert owners == [partition_of(each, 7) for each in ids]
