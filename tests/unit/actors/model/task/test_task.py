"""What a task may be, what its errors say, and how a row remembers its attempts."""

import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import FRESH, ID_BYTES_MAX, AttemptState, StoredTask, Task
from hourhand.actors.model.values.errors import CallerError, InvalidTask
from hourhand.actors.model.window.task_queue import TaskQueue
from tests.builders import NOW, NOW_MS, a_stored_task, a_task


def test_the_key_of_a_task_is_its_time_and_its_two_ids() -> None:
    """Data is not part of the identity."""
    task = a_task(due_in_ms=0, ordering_id="a", uniqueness_key="b", data={"c": 1})

    assert task.key == TaskKey(NOW_MS, "a", "b")


def test_a_task_cannot_be_changed() -> None:
    """Assigning to a field raises."""
    task = a_task()

    with pytest.raises(ValidationError, match="frozen"):
        task.ordering_id = "other"  # type: ignore[misc]


def test_sub_millisecond_digits_are_cut() -> None:
    """The time is cut towards the past and told in UTC."""
    local = datetime(2026, 2, 9, 2, 41, 12, 959_999, tzinfo=timezone(timedelta(hours=1)))

    task = Task(ordering_id="a", scheduled_time=local, uniqueness_key="")

    assert task.scheduled_time == NOW
    assert task.scheduled_time.utcoffset() == timedelta(0)


def test_a_naive_time_is_refused_and_the_error_says_how_to_write_it() -> None:
    """The caller reads which field, and what to write instead."""
    with pytest.raises(InvalidTask, match=r"scheduled_time: .*datetime\.now\(UTC\)"):
        Task(ordering_id="a", scheduled_time=NOW.replace(tzinfo=None), uniqueness_key="")


@pytest.mark.parametrize(
    "instant",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
)
def test_a_time_outside_the_years_utc_can_tell_is_refused(instant: datetime) -> None:
    """A zone can carry the first and last hours out of what any text form holds."""
    with pytest.raises(InvalidTask, match="years 1 to 9999"):
        Task(ordering_id="a", scheduled_time=instant, uniqueness_key="")


def test_an_empty_ordering_id_is_refused_and_an_empty_uniqueness_key_is_not() -> None:
    """The log refuses the one; the other is an id like any."""
    with pytest.raises(InvalidTask, match="ordering_id: a text that is not empty is needed"):
        a_task(ordering_id="")

    assert a_task(uniqueness_key="").key.uniqueness_key == ""


@pytest.mark.parametrize("field", ["ordering_id", "uniqueness_key"])
def test_an_id_is_measured_in_utf8_bytes(field: str) -> None:
    """Exactly the longest is accepted; the error tells both numbers."""
    fields: dict[str, Any] = {
        "ordering_id": "a",
        "scheduled_time": NOW,
        "uniqueness_key": "b",
    }
    Task(**(fields | {field: "é" * (ID_BYTES_MAX // 2)}))

    with pytest.raises(InvalidTask, match=f"{field}.*32762 bytes.*at most 32760"):
        Task(**(fields | {field: "é" * (ID_BYTES_MAX // 2 + 1)}))


def test_a_lone_surrogate_in_an_id_is_refused() -> None:
    """No log or store can hold it."""
    with pytest.raises(InvalidTask, match="ordering_id: a text in UTF-8 is needed"):
        a_task(ordering_id="\ud800")


def test_data_that_is_no_json_is_refused_and_named() -> None:
    """The error tells the path into the data."""
    data: dict[str, JsonValue] = {"lines": [1, {2, 3}]}  # type: ignore[list-item]

    with pytest.raises(InvalidTask, match=r"data\.lines\.1: a JSON value is needed"):
        a_task(data=data)


def test_data_without_an_end_is_refused_with_a_short_message() -> None:
    """Deep or cyclic data is the caller's error, not a crash while it is described."""
    deep: dict[str, JsonValue] = {}
    for _ in range(3_000):
        deep = {"a": deep}
    cyclic: dict[str, JsonValue] = {}
    cyclic["a"] = cyclic

    for data in (deep, cyclic):
        with pytest.raises(InvalidTask) as caught:
            a_task(data=data)
        assert len(str(caught.value)) < 1_000


def test_an_unknown_field_is_refused() -> None:
    """A typing error in a name is not silently dropped."""
    mistyped: Any = {"uniqueness": "b"}
    with pytest.raises(
        InvalidTask, match="uniqueness: there is no such name here; did you mean uniqueness_key"
    ):
        Task(ordering_id="a", scheduled_time=NOW, uniqueness_key="", **mistyped)


def test_an_error_lists_every_wrong_field() -> None:
    """One round of mending is enough."""
    fields: Any = {"ordering_id": 7, "scheduled_time": "tomorrow", "uniqueness_key": None}
    with pytest.raises(CallerError) as caught:
        Task(**fields)

    for field in ("ordering_id", "scheduled_time", "uniqueness_key"):
        assert field in str(caught.value)


def test_a_row_gives_user_code_the_task_that_was_scheduled() -> None:
    """Data is decoded only then."""
    row = a_stored_task(due_in_ms=0, data=b'{"invoice":42}')

    assert row.to_task() == a_task(due_in_ms=0, data={"invoice": 42})


def test_p6_a_later_record_replaces_the_data_and_keeps_the_attempts() -> None:
    """A record read again knows nothing of attempts already made."""
    tried = AttemptState(used=2, last=3, next_attempt_ms=NOW_MS)
    row = a_stored_task(offset=5, data=b'{"n":1}', attempts=tried)

    merged = row.merged_with(a_stored_task(offset=9, data=b'{"n":2}'))

    assert (merged.offset, merged.data, merged.attempts) == (9, b'{"n":2}', tried)


def test_p6_an_earlier_record_brings_no_data_but_what_is_known_of_attempts() -> None:
    """A load that ran beside a new record may know attempts the record does not."""
    tried = AttemptState(used=2, last=3)
    row = a_stored_task(offset=9, data=b'{"n":2}')
    loaded = a_stored_task(offset=5, data=b'{"n":1}', attempts=tried, overdue_when_loaded=True)

    merged = row.merged_with(loaded)

    assert (merged.offset, merged.data) == (9, b'{"n":2}')
    assert merged.attempts == tried
    assert merged.overdue_when_loaded


def test_a_row_that_was_never_tried_is_fresh() -> None:
    """The shared value says: no attempt, no pause, no suspicion."""
    assert a_stored_task().attempts is FRESH
    assert AttemptState() == FRESH
    assert datetime.fromtimestamp(FRESH.next_attempt_ms / 1000, UTC).year == 1970


def test_a_waiting_task_holds_no_more_than_is_counted() -> None:
    """``OBJECT_BYTES`` stands for its objects and its places in two dictionaries and a heap."""
    tracemalloc.start()
    try:
        queue, by_id = TaskQueue(), dict[str, int]()
        before_bytes, _ = tracemalloc.get_traced_memory()
        for number in range(2_000):
            key = TaskKey(NOW_MS + number, f"customer-{number}", f"invoice-{number}")
            queue.add(StoredTask(key, b'{"amount":%d}' % number, number))
            by_id[key.ordering_id] = number
        size_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    finally:
        tracemalloc.stop()

    assert 0.3 * queue.size_bytes < size_bytes < queue.size_bytes


def test_the_error_shows_what_was_given() -> None:
    """A caller looks for that value."""
    with pytest.raises(InvalidTask, match="got 7"):
        a_task(ordering_id=7)  # type: ignore[arg-type]


def test_a_stored_task_equals_none_of_another_kind() -> None:
    """Such a comparison is left to the other."""
    task = a_stored_task()

    assert task != "task"
    assert task.__eq__(task.key) is NotImplemented
