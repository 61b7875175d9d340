"""A file of recurring schedules: what it may say, and which place an error names."""

from datetime import timedelta
from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import InvalidInput
from hourhand.scheduler.cli.schedule_file import read_schedule_file
from hourhand.scheduler.services.recurring.requests import rule_of

FILE = """
name = "billing"

[calendars]
holidays = [2026-12-25, "2027-01-01"]

[schedules.report]
cron = "@daily"
time_zone = "Europe/Berlin"
kind = "report"
overlap = "buffer_one"
except_calendar = "holidays"
except_dates = [2026-12-24]

[schedules."poll 7"]
every = "90s"
catch_up = "0s"
jitter = "1s"
expires_after = "1h"
starts = 2026-01-01T00:00:00Z
ends = "2027-01-01T00:00:00+01:00"
count_max = 7
priority = 2
data = {source = 7}
"""


def written(folder: Path, text: str) -> Path:
    """Write a file, and return its path."""
    path = folder / "schedules.toml"
    path.write_text(text)
    return path


def test_a_file_says_all_that_the_library_does(tmp_path: Path) -> None:
    """Dates of a calendar are added to those of the schedule."""
    found = read_schedule_file(written(tmp_path, FILE))

    assert found.owner == "file:billing"
    assert found.rules["report"] == rule_of(
        "report",
        cron="0 0 * * *",
        time_zone="Europe/Berlin",
        kind="report",
        overlap="buffer_one",
        except_dates=["2026-12-24", "2026-12-25", "2027-01-01"],
    )
    poll = found.rules["poll 7"]
    assert (poll.every_ms, poll.jitter_ms, poll.catch_up_ms) == (90_000, 1_000, 0)
    assert (poll.count_max, poll.priority, poll.data) == (7, 2, {"source": 7})
    assert poll.expires_after == timedelta(hours=1)
    assert poll.ends_ms is not None
    assert poll.starts_ms is not None
    assert poll.ends_ms - poll.starts_ms == (365 * 24 - 1) * 3_600_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = ", "is not TOML"),
        ("[schedules.a]\ncron = '@daily'", "it needs a name"),
        ("name = 7", "it needs a name"),
        ("name = 'n'\nschedule = 1", "no member 'schedule'; did you mean schedules"),
        ("name = 'n'\nschedules = 1", "schedules is a table"),
        ("name = 'n'\n[schedules]\na = 1", "schedules.a: a table is needed"),
        ("name = 'n'\n[schedules.a]\ncorn = 1", "schedules.a: .*'corn'; did you mean cron"),
        ("name = 'n'\n[schedules.a]\ncron = 'x'", "schedules.a: .*not a cron expression"),
        ("name = 'n'\n[schedules.a]\nevery = 90", "schedules.a: every: a duration in quotes"),
        ("name = 'n'\n[schedules.a]\nevery = '9'", "schedules.a: every: .*not a duration"),
        ("name = 'n'\n[schedules.a]\nstarts = 2026-01-01T00:00:00", "starts: a time with its zone"),
        ("name = 'n'\n[calendars]\nunused = 1", "calendars.unused: a list of dates.*got 1"),
        ("name = 'n'\n[schedules.a]\nexcept_calendar = 'x'", "not one of the calendars.*none"),
        (
            "name = 'n'\n[calendars]\nx = 1\n[schedules.a]\nexcept_calendar = 'x'",
            "calendars.x: a list of dates",
        ),
        ("name = 'n'\n[schedules.a]\ncron = '@daily'\nexcept_dates = 1", "except_dates: a list"),
        ("name = 'n'\n[schedules.a]\ncron = '@daily'\ndata = 1", "data"),
        (
            "name = 'n'\n[schedules.a]\ncron = '@daily'\ndata = {a = nan}",
            "schedules.a: .*data is not JSON",
        ),
    ],
)
def test_an_error_names_the_place(tmp_path: Path, text: str, told: str) -> None:
    """The complaint names the member, and says what to write."""
    with pytest.raises(InvalidInput, match=told):
        read_schedule_file(written(tmp_path, text))


def test_a_mark_of_the_byte_order_is_no_part_of_the_file(tmp_path: Path) -> None:
    """Some editors write it."""
    path = tmp_path / "schedules.toml"
    path.write_text(FILE, encoding="utf-8-sig")

    assert read_schedule_file(path) == read_schedule_file(written(tmp_path, FILE))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that is absent, and one that is not text."""
    (tmp_path / "picture").write_bytes(b"\xff")

    for name in ("absent", "picture"):
        with pytest.raises(InvalidInput, match=name):
            read_schedule_file(tmp_path / name)
