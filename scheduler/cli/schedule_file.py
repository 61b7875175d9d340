"""A file of recurring schedules, in TOML: its name, calendars of dates, and a rule for each name.

Decides which members a file has and how their values are written (InvalidInput names the place).
The rule judges everything about a schedule itself.
"""

import tomllib
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidInput, InvalidTask
from hourhand.actors.model.values.instant import from_millis, parse_instant
from hourhand.actors.model.values.suggestion import did_you_mean
from hourhand.scheduler.cli.task_input import parse_duration_ms
from hourhand.scheduler.services.recurring.requests import rule_of
from hourhand.scheduler.services.recurring.rule import RecurringRule

FILES = "file:"
"""Prefix of the owner that a file's name gives."""
_FILE_BYTES_MAX = 10_000_000


def _duration(value: object) -> timedelta:
    if not isinstance(value, str):
        raise InvalidTask(f"a duration in quotes is needed, as '90s', got {shown(value)}")
    return timedelta(milliseconds=parse_duration_ms(value))


def _moment(value: object) -> datetime:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    if not isinstance(value, str):
        raise InvalidTask(f"a time with its zone is needed, as 2026-12-25T00:00:00Z, got {value}")
    try:
        return from_millis(parse_instant(value))
    except ValueError as error:
        raise InvalidTask(str(error)) from None


_READERS: dict[str, Callable[[object], object]] = {
    "every": _duration,
    "catch_up": _duration,
    "jitter": _duration,
    "expires_after": _duration,
    "starts": _moment,
    "ends": _moment,
}
_PLAIN = (
    "cron",
    "time_zone",
    "kind",
    "ordering_id",
    "priority",
    "data",
    "overlap",
    "except_dates",
    "count_max",
)
_CALENDAR = "except_calendar"


class ScheduleFile(NamedTuple):
    """The content of a file."""

    owner: str
    rules: dict[str, RecurringRule]


def read_schedule_file(path: Path) -> ScheduleFile:
    """Read a file; InvalidInput where it is not one of recurring schedules."""
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX + 1)
        if len(text) > _FILE_BYTES_MAX:
            raise InvalidInput(f"{path} is longer than {_FILE_BYTES_MAX:,} bytes")
        content = tomllib.loads(text.decode("utf-8-sig"))
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from None
    try:
        return _read(content)
    except InvalidTask as error:
        raise InvalidInput(f"{path}: {error}") from None


def _read(content: Mapping[str, Any]) -> ScheduleFile:
    _refuse_unknown("the file", content, ("name", "calendars", "schedules"))
    name = content.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidTask(
            'it needs a name, as name = "billing": its schedules belong to that name, by which'
            " they are removed when they leave the file"
        )
    calendars = _table("calendars", content)
    for each, dates in calendars.items():
        if not isinstance(dates, list):
            raise InvalidTask(
                f"calendars.{each}: a list of dates is needed, as [2026-12-25], got {shown(dates)}"
            )
    rules = {}
    for each, given in _table("schedules", content).items():
        try:
            rules[each] = _rule(each, given, calendars)
        except InvalidTask as error:
            raise InvalidTask(f"schedules.{each}: {error}") from None
    return ScheduleFile(f"{FILES}{name}", rules)


def _rule(name: str, given: object, calendars: Mapping[str, Any]) -> RecurringRule:
    if not isinstance(given, dict):
        raise InvalidTask(f"a table is needed, got {shown(given)}")
    _refuse_unknown("a schedule", given, (*_READERS, *_PLAIN, _CALENDAR))
    values: dict[str, Any] = {}
    for member, value in given.items():
        if member in _READERS:
            try:
                values[member] = _READERS[member](value)
            except InvalidTask as error:
                raise InvalidTask(f"{member}: {error}") from None
        elif member != _CALENDAR:
            values[member] = value
    if _CALENDAR in given:
        dates = _dates(given[_CALENDAR], calendars)
        own = values.get("except_dates", [])
        values["except_dates"] = [*own, *dates] if isinstance(own, list) else own
    return rule_of(name, **values)


def _dates(calendar: object, calendars: Mapping[str, Any]) -> list[date | str]:
    if not isinstance(calendar, str) or calendar not in calendars:
        raise InvalidTask(
            f"{_CALENDAR}: {shown(calendar)} is not one of the calendars of this file:"
            f" {', '.join(calendars) or 'none'}{did_you_mean(calendar, calendars)}"
        )
    dates: list[date | str] = calendars[calendar]
    return dates


def _table(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise InvalidTask(f"{name} is a table, as [{name}.NAME], got {shown(table)}")
    return table


def _refuse_unknown(what: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for each in given:
        if each not in known:
            hint = did_you_mean(each, known) or f"; it has {', '.join(known)}"
            raise InvalidTask(f"{what} has no member {shown(each)}{hint}")
