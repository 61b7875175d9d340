"""A context rides on a row's data and comes off again, whatever the data looks like."""

import json

import pytest

from hourhand.actors.model.task.codec import decode_record, letter_of
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.trace import (
    TRACEPARENT,
    carried_context,
    context_of,
    with_context,
    without_context,
)
from tests.builders import NOW_MS, a_record, a_task

CONTEXT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "data", [b"{}", b'{"a":1}', b'{ "a": {} }', b'{"hourhand.traceparent":"x"}', b'{"a":"}\\""}  ']
)
def test_data_comes_back_as_it_was(data: bytes) -> None:
    """But for white space at its end, which JSON does not count."""
    traced = with_context(data, CONTEXT)

    assert carried_context(traced) == CONTEXT
    assert list(json.loads(traced).items())[-1] == ("hourhand.traceparent", CONTEXT.decode())
    assert json.loads(without_context(traced)) == json.loads(data)
    assert with_context(traced, CONTEXT) == traced
    assert without_context(data) == data
    assert carried_context(data) is None


def test_white_space_before_the_end_stays() -> None:
    """It tells data from members of ours; an empty object gets no comma."""
    assert with_context(b"{ }", CONTEXT).startswith(b'{ "hourhand')
    assert with_context(b' {"a":1 } ', CONTEXT).startswith(b' {"a":1 ,"hourhand')


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        CONTEXT[:-2] + b"00",
        CONTEXT.upper(),
        b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01",
        CONTEXT + b'","admin":"yes',
    ],
)
def test_a_header_that_is_no_sampled_context_is_not_kept(header: bytes | None) -> None:
    """A producer may put anything there; nothing of it may reach a row's JSON."""
    assert context_of([("other", CONTEXT), (TRACEPARENT, header)]) is None


def test_a_record_keeps_its_trace_into_the_row_and_out_of_it() -> None:
    """User code sees the data alone, and a dead letter names the trace as the record did."""
    task = a_task(data={"invoice": 42})
    record = a_record(task=task, headers=[(TRACEPARENT, CONTEXT)])

    row = decode_record(record)

    assert isinstance(row, StoredTask)
    assert carried_context(row.body) == CONTEXT
    assert row.to_task() == task
    letter = letter_of(row, 3, NOW_MS)
    assert context_of(letter.headers) == CONTEXT
    assert letter.value == record.value


def test_very_long_data_is_left_alone() -> None:
    """What a row can hold was judged before."""
    data = b'{"a":"%b"}' % (b"x" * 1_000_000)

    assert with_context(data, CONTEXT) is data
