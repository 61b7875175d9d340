"""A client's requests about recurring schedules, as tasks: checked before anything is sent."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hourhand.actors.model.task.sealed import seal_of
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.services.recurring.rule import RecurringRule, checked_name, checked_rule
from hourhand.scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    change_task,
    rule_values,
)
from hourhand.scheduler.services.system.system_tasks import unique_in_order
from hourhand.scheduler.tasks.admission import refuse_reserved, target_ms


def rule_of(name: str, **values: object) -> RecurringRule:
    """Return the rule from the arguments of ``schedule_recurring``; raises InvalidTask."""
    given = {key: value for key, value in values.items() if value is not None}
    data = given.get("data")
    if isinstance(data, Mapping):
        # The remaining data of a schedule may be sealed.
        given |= {"data": dict(data), "seal": seal_of(data)}
    readers: dict[str, tuple[str, Callable[[str, object], int]]] = {
        "every": ("every_ms", _millis),
        "catch_up": ("catch_up_ms", _millis),
        "jitter": ("jitter_ms", _millis),
        "expires_after": ("expires_after_ms", _millis),
        "starts": ("starts_ms", target_ms),
        "ends": ("ends_ms", target_ms),
    }
    for key, (field, read) in readers.items():
        if key in given:
            given[field] = read(f"schedule {key}", given.pop(key))
    if "time_zone" in given:
        given["time_zone"] = _zone_name(given["time_zone"])
    if "except_dates" in given:
        given["except_dates"] = _date_texts(given["except_dates"])
    rule = checked_rule(**{"ordering_id": checked_name(name), **given})
    refuse_reserved(rule.ordering_id)
    return rule


def set_task(name: str, rule: RecurringRule, now_ms: int) -> Task:
    """Return the task that makes or replaces a schedule; InvalidTask if the rule is never due."""
    if rule.next_after(now_ms, now_ms) is None:
        raise InvalidTask(
            f"the recurring schedule {shown(name)} would end before it is due: check ends"
        )
    return request_task(name, ChangeRequest(Change.SET, rule_values(rule)), now_ms)


def request_task(name: str, request: ChangeRequest, now_ms: int) -> Task:
    """Return the task that changes a schedule."""
    return change_task(checked_name(name), now_ms, unique_in_order(now_ms), request)


def _zone_name(zone: object) -> str:
    """Return the name of a time zone, given as its name, a ZoneInfo or ``UTC``."""
    if isinstance(zone, str):
        return zone
    name = "UTC" if zone is UTC else zone.key if isinstance(zone, ZoneInfo) else None
    if name is None:
        raise InvalidTask(
            "invalid recurring schedule: time_zone: a name such as 'Europe/Berlin', or a ZoneInfo"
            f" that has one, is needed, got {shown(zone)}"
        )
    return name


def _date_texts(dates: object) -> list[object]:
    """Return dates as text; what is not a date is left for the rule to refuse."""
    if not isinstance(dates, Iterable) or isinstance(dates, str | bytes | Mapping):
        raise InvalidTask(
            "invalid recurring schedule: except_dates: a list of dates is needed, as"
            f" [date(2026, 12, 25)], got {shown(dates)}"
        )
    return [_date_text(each) for each in dates]


def _date_text(day: object) -> object:
    if isinstance(day, datetime):
        raise InvalidTask(
            f"invalid recurring schedule: except_dates: {shown(day)} is a time: a date is needed,"
            " as date(2026, 12, 25)"
        )
    return day.isoformat() if isinstance(day, date) else day


def _millis(what: str, duration: object) -> int:
    if not isinstance(duration, timedelta):
        raise InvalidTask(f"cannot {what}: a timedelta is needed, got {shown(duration)}")
    return duration // timedelta(milliseconds=1)
