"""Data that looks like what stands beside it in a row's text, and what is read back."""

import json

import pytest

from hourhand.actors.model.task.kind import carried_kind, split_kind
from hourhand.actors.model.task.priority import carried_links, carried_priority, split_members
from hourhand.actors.model.task.row_text import data_of, row_text
from hourhand.actors.model.task.sealed import envelope_of, is_sealed

HOSTILE = [
    b'{"hourhand.kind":"refund"}',
    b'{"a":1,"hourhand.priority":9}',
    b'{"hourhand.sealed":{"steps":[],"data":""}}',
    b'{"a":{"hourhand.kind":"refund"}}',
    b'{"a":1,"hourhand.kind":"hourhand:linked"}',
    b'{"hourhand.links":[2,{}],"a":1}',
    b"{}",
]
ENVELOPE = b'{"steps":[{"codec":"deflate"}],"data":"eA=="}'
LINKS = b'{"then":{"task":{"orderingId":"b"}}}'


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
    text = row_text(data, "mail", 7, None, ENVELOPE)

    assert split_kind(text)[0] == "mail"
    found = envelope_of(text)
    assert found is not None and [step.codec for step in found.steps] == ["deflate"]
    assert json.loads(data_of(text)) == json.loads(data)


@pytest.mark.parametrize("data", HOSTILE)
@pytest.mark.parametrize("envelope", [None, ENVELOPE])
@pytest.mark.parametrize("priority", [None, 7])
@pytest.mark.parametrize("kind", [None, "mail"])
def test_p1_data_beside_links_chooses_nothing(
    data: bytes, envelope: bytes | None, priority: int | None, kind: str | None
) -> None:
    """It is escaped behind them, too; a record has no seal beside some of these names."""
    if envelope is not None and json.loads(data).keys() & {"hourhand.sealed", "hourhand.links"}:
        return

    text = row_text(data, kind, priority, None, envelope, links=LINKS)

    assert split_members(text)[:2] == (kind, priority)
    assert carried_priority(text) == priority and carried_kind(text) == kind
    assert carried_links(text) == LINKS
    assert is_sealed(text) == (envelope is not None)
    assert is_sealed(split_members(text)[2]) == (envelope is not None)
    assert json.loads(data_of(text)) == json.loads(data)
