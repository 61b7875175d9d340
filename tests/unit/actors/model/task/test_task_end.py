"""The end of a task, as its follower reads it."""

import pytest

from hourhand.actors.model.task.task_end import TaskEnd
from hourhand.actors.model.values.instant import from_millis
from tests.builders import NOW_MS, a_key


def an_end(result_text: bytes | None = None) -> TaskEnd:
    """Return the end of a task that went well."""
    return TaskEnd(key=a_key(), state="success", finished_ms=NOW_MS, result_text=result_text)


@pytest.mark.parametrize(
    ("text", "result"),
    [(None, None), (b'{"value":null}', None), (b'{"value":{"a":[1]}}', {"a": [1]})],
)
def test_a_result_is_read_from_the_text_of_its_row(text: bytes | None, result: object) -> None:
    """One that ended without a value has none."""
    assert an_end(text).result == result


def test_an_end_has_its_time_and_hides_the_text_of_its_result() -> None:
    """A log that shows it shows no data."""
    end = an_end(b'{"value":"secret"}')

    assert end.finished_time == from_millis(NOW_MS)
    assert "secret" not in repr(end)
