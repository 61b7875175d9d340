"""The envelope of sealed data, and how it is told from plain data."""

import pytest

from hourhand.actors.model.task.kind import carried_kind, with_kind
from hourhand.actors.model.task.sealed import (
    SealedData,
    SealingStep,
    envelope_of,
    is_sealed,
    refuse_sealed,
)
from hourhand.actors.model.task.trace import with_context
from hourhand.actors.model.values.errors import CannotRunHere, PayloadSealed

SEALED = (
    b'{"hourhand.sealed":{"steps":[{"codec":"aes-gcm","key":"k1"}],"data":"AAEC"},"tenant":"a"}'
)


def test_an_envelope_says_what_opens_it() -> None:
    """Codecs in their order, with the ids of their keys."""
    assert envelope_of(SEALED) == SealedData([SealingStep("aes-gcm", "k1")], "AAEC")
    assert "aes-gcm (key id 'k1')" in str(envelope_of(SEALED))


def test_kind_and_trace_are_carried_behind_the_envelope() -> None:
    """They are added at the end, and the envelope is looked for at the beginning."""
    context = b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"
    row = with_context(with_kind(SEALED, "mail"), context)

    assert is_sealed(row) and carried_kind(row) == "mail"
    assert envelope_of(row) == envelope_of(SEALED)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"invoice":42}',
        b'{"note":"hourhand.sealed"}',
        b'{"inner":{"hourhand.sealed":{"steps":[],"data":""}}}',
    ],
)
def test_plain_data_is_not_sealed(data: bytes) -> None:
    """Whatever stands in it."""
    assert not is_sealed(data) and envelope_of(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"hourhand.sealed":1}',
        b'{"hourhand.sealed":{"steps":"x","data":""}}',
        b'{"hourhand.sealed":{"data":"AAEC"}}',
        b'{"hourhand.sealed":\xff}',
    ],
)
def test_a_broken_envelope_is_sealed_and_says_nothing(data: bytes) -> None:
    """It is never taken for a user's data."""
    assert is_sealed(data) and envelope_of(data) is None
    with pytest.raises(PayloadSealed, match="in a way that this version does not read"):
        refuse_sealed(data)


def test_a_node_without_codecs_names_what_is_missing() -> None:
    """The id of the key, and what to do."""
    with pytest.raises(CannotRunHere, match=r"key id 'k1'.*no payload codecs"):
        refuse_sealed(SEALED)
