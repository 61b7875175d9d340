"""Data that looks like what stands beside it in a row's text, and what is read back."""

import json

import pytest

from hourhand.actors.model.task.kind import split_kind
from hourhand.actors.model.task.priority import split_members
from hourhand.actors.model.task.row_text import data_of, row_text
from hourhand.actors.model.task.sealed import envelope_of, is_sealed

HOSTILE = [
    b'{"hourhand.kind":"refund"}',
    b'{"a":1,"hourhand.priority":9}',
    b'{"hourhand.sealed":{"steps":[],"data":""}}',
    b'{"a":{"hourhand.kind":"refund"}}',
    b"{}",
]


@pytest.mark.parametrize("data", HOSTILE)
def test_data_names_neither_a_kind_nor_a_priority_nor_an_envelope(data: bytes) -> None:
    """Whatever its members are called."""
    text = row_text(data)

    assert split_kind(text)[0] is None
    assert split_members(text)[:2] == (None, None)
    assert not is_sealed(text)
    assert json.loads(data_of(text)) == json.loads(data)


@pytest.mark.parametrize("data", [each for each in HOSTILE if b"sealed" not in each])
def test_what_stands_beside_data_is_read_back_beside_it(data: bytes) -> None:
    """Kind, priority and envelope are those that were given."""
    envelope = b'{"steps":[{"codec":"deflate"}],"data":"eA=="}'

    text = row_text(data, "mail", 7, None, envelope)

    assert split_kind(text)[0] == "mail"
    found = envelope_of(text)
    assert found is not None and [step.codec for step in found.steps] == ["deflate"]
    assert json.loads(data_of(text)) == json.loads(data)
