"""The expiry of a task, in its record and in the text of its row."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.task.codec import decode_record, encode_task, letter_of
from hourhand.actors.model.task.expiry import HOLDING_KIND, Expiry, carried_expiry, read_expiry
from hourhand.actors.model.task.kind import checked_kind
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import InvalidTask, PoisonRecord
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from tests.builders import NOW, NOW_MS, a_record, a_task

CONTEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EXPIRIES = st.one_of(
    st.integers(1, 10**14).map(lambda ms: Expiry(after_ms=ms)),
    st.integers(0, INSTANT_MAX_MS).map(lambda ms: Expiry(at_ms=ms)),
)


def stored(task: Task, *, traced: bool = False) -> StoredTask:
    """Read the record of a task as a node does."""
    headers = (("traceparent", CONTEXT),) if traced else ()
    found = decode_record(a_record(task=task, offset=3, headers=headers))
    assert isinstance(found, StoredTask)
    return found


def record_with(expires: object) -> bytes:
    """Return a record of another producer with a member ``expires``."""
    return json.dumps({**json.loads(encode_task(a_task())), "expires": expires}).encode()


@pytest.mark.parametrize("kind", [None, "mail", "x" * 64])
@pytest.mark.parametrize("priority", [None, -100])
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "expires", [timedelta(hours=1), timedelta(days=400), NOW.replace(year=9999)]
)
def test_a_row_carries_the_expiry_whatever_else_it_carries(
    kind: str | None, priority: int | None, traced: bool, expires: object
) -> None:
    """User code and a dead letter get the task as it was scheduled."""
    task = a_task(kind=kind, priority=priority).model_copy(update={"expires": expires})

    row = stored(task, traced=traced)

    assert (row.kind, row.priority, row.expiry) == (kind, priority, task.expiry)
    assert row.kind_and_expiry == (kind, task.expiry) and row.to_task() == task
    assert letter_of(row, 0, NOW_MS).value == encode_task(task)


@given(EXPIRIES)
def test_an_expiry_is_read_as_it_was_written(expiry: Expiry) -> None:
    """To the millisecond."""
    assert read_expiry(str(expiry)) == expiry


def test_a_node_of_the_version_before_holds_a_task_with_an_expiry() -> None:
    """It reads the last kind in the text, which nobody has, and can give to no executor."""
    row = stored(a_task(kind="mail").model_copy(update={"expires": timedelta(hours=1)}))

    assert row.body.endswith(b'"hourhand.kind":"%b"}' % HOLDING_KIND.encode())
    with pytest.raises(ValueError, match="Hourhand's own"):
        checked_kind(HOLDING_KIND)


def test_what_data_ends_with_is_no_expiry() -> None:
    """Data chooses nothing."""
    data = {"hourhand.expires": "PT1S", "hourhand.kind": HOLDING_KIND}

    row = stored(a_task(data=dict(data)))

    assert carried_expiry(row.body) is None and row.kind is None
    assert row.to_task().data == data


def test_a_duration_moves_with_the_scheduled_time_and_an_instant_stays() -> None:
    """No expiry lies behind the year 9999."""
    assert Expiry(after_ms=5).instant_ms(NOW_MS) == NOW_MS + 5
    assert Expiry(after_ms=5).instant_ms(INSTANT_MAX_MS) == INSTANT_MAX_MS
    assert Expiry(at_ms=5).instant_ms(NOW_MS) == 5


@pytest.mark.parametrize("expires", [5, "soon", "PT0S", "-PT1S", "P1M", "2026-02-09", {}])
def test_p10_a_record_with_another_expiry_is_poison(expires: object) -> None:
    """It says which value is wrong."""
    with pytest.raises(PoisonRecord):
        decode_record(a_record(value=record_with(expires)))


@pytest.mark.parametrize("text", ["PT1H", "P1DT0.5S", "2026-02-09T01:41:12.959Z"])
def test_other_producers_write_an_instant_or_a_duration(text: str) -> None:
    """As ISO 8601 has both."""
    found = decode_record(a_record(value=record_with(text)))

    assert isinstance(found, StoredTask) and found.expiry == read_expiry(text)


@pytest.mark.parametrize(
    ("expires", "said"),
    [
        (timedelta(0), "^invalid task: expires: .*0.* is too early: a millisecond is the least"),
        (timedelta(microseconds=999), "a millisecond is the least"),
        (NOW.replace(tzinfo=None), "time zone"),
        (3600, "time zone"),
        (NOW, "not after scheduled_time"),
    ],
)
def test_an_expiry_that_makes_no_sense_is_refused(expires: object, said: str) -> None:
    """A task that could never run is an error of whoever schedules it."""
    fields = {**dict(a_task(due_in_ms=0)), "expires": expires}

    with pytest.raises(InvalidTask, match=said):
        Task(**fields)
