"""Values as the text of a row: what is JSON comes back, nothing else is written."""

import pytest

from hourhand.actors.model.task.json_text import (
    VALUE_BYTES_MAX,
    row_text,
    shown_value,
    value_bytes,
    value_of,
)
from hourhand.actors.model.task.sealed import with_envelope
from hourhand.actors.model.values.errors import InvalidCheckpoint, InvalidResult, PayloadSealed


@pytest.mark.parametrize("value", [None, 0, "Zoë", [], {"a": [1.5, None]}, "x" * 100_000])
def test_what_is_json_comes_back(value: object) -> None:
    """The text has no bound of its own: its owner sets one."""
    assert value_of(row_text(value, "result", InvalidResult), "result") == value


def test_the_error_is_of_what_the_value_is_for() -> None:
    """And names it."""
    for noun, error in (("result", InvalidResult), ("checkpoint", InvalidCheckpoint)):
        with pytest.raises(error, match=f"the {noun} .* is not JSON"):
            row_text({1, 2}, noun, error)


def test_the_size_is_that_of_the_value() -> None:
    """Without what is put around it."""
    assert value_bytes(row_text("é", "result", InvalidResult)) == 4
    text = row_text("x" * (VALUE_BYTES_MAX - 2), "result", InvalidResult)
    assert value_bytes(text) == VALUE_BYTES_MAX


def test_a_sealed_one_is_not_taken_for_a_value() -> None:
    """The error says what it is."""
    with pytest.raises(PayloadSealed, match="the result is"):
        value_of(with_envelope(b"{}", b'{"a":1}'), "result")


def test_a_damaged_one_is_shown_as_it_is() -> None:
    """To people; it is not decoded."""
    assert shown_value(b'{"value":7}') == 7
    assert "value" in str(shown_value(b'{"value":'))
