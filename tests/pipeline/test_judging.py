"""Which rows of somebody's file are tasks, and what the others are told."""

from datetime import UTC, datetime
from typing import Any

import pytest

from actors.model.errors import InvalidTask
from actors.model.instant import INSTANT_MIN_MS
from actors.model.key import TaskKey
from scheduler.pipeline.judging import Rules, checked_timezone, judge, judge_line

AT_MS = 1_770_601_272_959
AT = "2026-02-09T01:41:12.959Z"
RULES = Rules(partition_count=4, oldest_ms=INSTANT_MIN_MS, record_bytes_max=1_000)
VIENNA = Rules(4, INSTANT_MIN_MS, 1_000, "Europe/Vienna")


@pytest.mark.parametrize(
    ("rules", "time", "expected_ms"),
    [
        (RULES, AT, AT_MS),
        (RULES, "2026-02-09T02:41:12.959999+01:00", AT_MS),
        (RULES, AT_MS, AT_MS),
        (RULES, datetime(2026, 2, 9, 1, 41, 12, 959_999, tzinfo=UTC), AT_MS),
        (VIENNA, "2026-02-09T02:41:12.959", AT_MS),
        (VIENNA, "2026-02-09 02:41:12.959", AT_MS),
        (VIENNA, AT, AT_MS),
    ],
)
def test_times_are_instants(rules: Rules, time: object, expected_ms: int) -> None:
    """With a zone, or with the one that was named for all."""
    task, reason = judge(rules, time, "customer-7", "x", "{}")

    assert reason is None
    assert task is not None
    assert task.key == TaskKey(expected_ms, "customer-7", "x")


@pytest.mark.parametrize(
    ("time", "ordering_id", "uniqueness_key", "data", "complaint"),
    [
        ("2026-02-09T01:41:12", "a", "x", "{}", "has no time zone: say which with --timezone"),
        ("tomorrow", "a", "x", "{}", "is no RFC 3339 instant"),
        (None, "a", "x", "{}", "a time is needed"),
        (1.5, "a", "x", "{}", "a time is needed"),
        (10**18, "a", "x", "{}", "is not within the years 1 to 9999"),
        (AT, None, "x", "{}", "ordering_id is missing"),
        (AT, "", "x", "{}", "ordering_id is empty"),
        (AT, "a", None, "{}", "uniqueness_key is missing"),
        (AT, "a", "x", "[1]", "data is no JSON object"),
        (AT, "a", "x", '{"n":NaN}', "data is no JSON object"),
        (AT, "a", "x", '{"n":"' + 1_000 * "x" + '"}', "at most 1000 are allowed"),
        (AT, "ä" * 20_000, "x", "{}", "ordering_id is longer than"),
    ],
)
def test_what_is_no_task_is_told_why(
    time: object, ordering_id: object, uniqueness_key: object, data: Any, complaint: str
) -> None:
    """The value and what to do; never an exception that ends the load."""
    task, reason = judge(RULES, time, ordering_id, uniqueness_key, data)

    assert task is None
    assert complaint in str(reason)


def test_a_time_that_clocks_skipped_is_refused() -> None:
    """Guessing would be early or late by an hour."""
    task, reason = judge(VIENNA, "2026-03-29T02:30:00", "a", "x", None)

    assert task is None
    assert "does not exist in Europe/Vienna" in str(reason)


def test_the_past_is_refused_from_the_moment_named() -> None:
    """Exactly that moment is accepted."""
    rules = Rules(4, AT_MS, 1_000)

    assert judge(rules, AT_MS, "a", "x", None).task is not None
    assert "--past run accepts it" in str(judge(rules, AT_MS - 1, "a", "x", None).reason)


def test_an_empty_uniqueness_key_is_one() -> None:
    """As in the log."""
    assert judge(RULES, AT, "a", "", "").task is not None


def test_a_line_keeps_its_data_as_it_was_written() -> None:
    """Numbers, order and spaces; in the log's own names or in others."""
    data = '{"b": 1.0,  "a": 1e3}'
    line = f'{{"scheduledTime":"{AT}","orderingId":"a","uniquenessKey":7,"taskData":{data}}}'
    renamed = f'{{"when":"{AT}","ordering_id":"a","uniqueness_key":"7","data":{data}}}'

    first, _ = judge_line(RULES, line, {})
    second, _ = judge_line(RULES, renamed, {"scheduled_time": "when"})

    assert first is not None
    assert first.data == data.encode()
    assert first == second


@pytest.mark.parametrize("line", ["[1]", "{", '"text"', '{"orderingId":"a"}', "NaN"])
def test_a_line_that_is_none_is_told_why(line: str) -> None:
    """And the next one is read."""
    assert judge_line(RULES, line, {}).reason is not None


def test_an_unknown_zone_is_refused_before_anything_is_read() -> None:
    """With the names that are known."""
    assert checked_timezone("Europe/Vienna") == "Europe/Vienna"
    with pytest.raises(InvalidTask, match="'Mars/Base' is unknown: write a name as"):
        checked_timezone("Mars/Base")
