"""Values that a person types about a task."""

from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.cli.task_input import due_ms, parse_dates

DATES = ["2026-12-25", "2027-01-01"]


@pytest.mark.parametrize(
    ("at", "delay", "said"),
    [
        (None, None, "the time is missing: give one of --to and --in"),
        ("now", "1h", "--to and --in are both given: leave out one of them"),
    ],
)
def test_a_time_is_given_once(at: str | None, delay: str | None, said: str) -> None:
    """Each of the two faults is told for itself."""
    with pytest.raises(InvalidTask, match=said):
        due_ms(at, delay, 0, "--to and --in")


def test_dates_are_read_from_text_and_from_a_file(tmp_path: Path) -> None:
    """With commas, spaces, lines and comments."""
    calendar = tmp_path / "holidays"
    calendar.write_text("# holidays\n2026-12-25  # Christmas\n\n2027-01-01\n")

    assert parse_dates("2026-12-25, 2027-01-01") == DATES
    assert parse_dates(f"@{calendar}") == DATES
    assert parse_dates(None) == []


def test_a_file_of_dates_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that is absent, and one that is not text."""
    other = tmp_path / "picture"
    other.write_bytes(b"\xff\xfe")

    for name in (tmp_path / "absent", other):
        with pytest.raises(InvalidTask, match=name.name):
            parse_dates(f"@{name}")
