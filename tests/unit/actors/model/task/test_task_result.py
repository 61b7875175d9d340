"""The value that a task ends with: which there are, and how a row holds one."""

import pytest

from hourhand.actors.model.task.json_text import VALUE_BYTES_MAX
from hourhand.actors.model.task.sealed import is_sealed
from hourhand.actors.model.task.task_result import (
    StoredResult,
    require_storable,
    result_text,
    result_value,
)
from hourhand.actors.model.values.errors import InvalidResult, PayloadSealed
from hourhand.payloads import AesGcm, PayloadCodecs
from tests.builders import NOW_MS, a_task

LARGEST = "x" * (VALUE_BYTES_MAX - 2)
DAY_MS = 86_400_000


def a_result(**fields: object) -> StoredResult:
    """Return the row of a task that ended now and is kept for a day."""
    known = {
        "key": a_task().key,
        "attempt": 1,
        "finished_ms": NOW_MS,
        "kept_until_ms": NOW_MS + DAY_MS,
        "body": b'{"value":1}',
    }
    return StoredResult(**(known | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [0, False, "", [], {}, {"a": [1.5, None, {"b": "Zoë"}]}, "\u2028", LARGEST]
)
def test_what_is_json_comes_back(value: object) -> None:
    """Empty values too: only None is none."""
    text = result_text(value)
    require_storable(text)

    assert result_value(text) == value


@pytest.mark.parametrize("value", [b"bytes", {1: 2}, {"a": (1, 2)}, float("nan"), {1, 2}, object()])
def test_what_is_not_json_is_refused(value: object) -> None:
    """A reader would find something else, or nothing."""
    with pytest.raises(InvalidResult, match=r"the result .* is not JSON"):
        result_text(value)


def test_a_value_that_is_too_large_says_what_to_do() -> None:
    """Its size, the limit, and where it could go."""
    with pytest.raises(InvalidResult, match=r"65537 bytes.*at most 65536.*ClaimCheck"):
        require_storable(result_text(LARGEST + "x"))


def test_a_sealed_value_may_be_larger_by_what_sealing_adds() -> None:
    """No more: it is a row of the store."""
    codecs = PayloadCodecs(AesGcm({"k": bytes(32)}))
    text = codecs.sealed_result(result_text(LARGEST), a_task())

    assert is_sealed(text)
    require_storable(text)
    with pytest.raises(InvalidResult, match="when it is sealed"):
        require_storable(codecs.sealed_result(result_text(LARGEST * 2), a_task()))
    with pytest.raises(PayloadSealed, match="the result is"):
        result_value(text)


def test_it_is_kept_for_its_time() -> None:
    """Until then it can be read; a store that forgot it early has an empty body."""
    kept = a_result()

    assert kept.is_kept(NOW_MS + DAY_MS - 1) and not kept.is_kept(NOW_MS + DAY_MS)
    assert not a_result(body=b"").is_kept(NOW_MS)
    assert (kept.kept_s, a_result(kept_until_ms=NOW_MS + 1).kept_s) == (86_400, 1)


def test_an_older_one_is_not_that_of_a_completion() -> None:
    """It is of an attempt whose completion was never durable."""
    assert a_result().is_of(NOW_MS) and a_result().is_of(NOW_MS - 1)
    assert not a_result().is_of(NOW_MS + 1)
