"""The times of a cron expression, in a time zone.

Pure: no clock is read. Expressions are cronsim's, which treats the two switches to and from
daylight saving time as Debian's cron does: a time that the clock skips is run right after the gap,
and one that it shows twice is run the first time only. Expressions whose minute or hour begins with
a star (``*``, ``*/2``), and those with a seconds field, go by elapsed time instead: they are due at
each moment at which the wall clock shows a matching time, so never at a skipped one, and twice at a
repeated one.
"""

import re
from datetime import UTC, datetime
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from hourhand.actors.model.values.instant import from_millis, to_millis

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ZONE_IN_FRONT = re.compile(r"(?:CRON_)?TZ=", re.IGNORECASE)
_BEFORE_LAST = re.compile(r"L-\d+W?", re.IGNORECASE)
_NEAREST_WEEKDAY = re.compile(r"\d+W", re.IGNORECASE)
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_GAPS_LOOKED_AT, _GAPS_END = 200, datetime(2027, 3, 1, tzinfo=UTC)
_GAP_MS_MAX = 86_400_000
"""Longest gap that is reported: all longer ones count as a day."""


class _CronTimes(CronSim):
    """The times of an expression, also where a clock changes by less than an hour.

    ``CronSim`` advances by whole hours and jumps straight to a single wanted minute; after a change
    by half an hour, as on Lord Howe Island, both would pass the matching time.
    """

    def advance_hour(self) -> bool:
        """Advance to the next matching hour, by full hours of the wall clock."""
        if self.dt.hour in self.hours:
            return False
        while self.dt.hour not in self.hours:
            self.tick(3_600 - 60 * self.dt.minute - self.dt.second)
            if self.dt.hour == 0:
                break
        return True

    def advance_minute(self) -> bool:
        """Advance to the next matching minute; minute by minute where the clock may change."""
        if self.dt.minute in self.minutes:
            return False
        before, zone_offset = self.dt, self.dt.utcoffset()
        moved = super().advance_minute()
        if self.dt.utcoffset() != zone_offset:
            self.dt = before.replace(second=0)
            while self.dt.minute not in self.minutes:
                self.tick(60)
        return moved


def checked_cron(expression: str) -> str:
    """Return a valid expression, with a macro such as ``@daily`` written out; the ValueError for
    others suggests what to write.
    """
    expression = _MACROS.get(expression.strip().lower(), expression)
    if (hint := _hint(expression)) is not None:
        raise ValueError(hint)
    try:
        next(CronSim(expression, _BEGIN))
    except CronSimError as error:
        raise ValueError(
            f"this is not a cron expression: {error}; five fields are minute, hour, day of month,"
            " month, day of week; six begin with the second"
        ) from None
    except StopIteration:
        raise ValueError("it is due at no time within fifty years") from None
    return expression


def _hint(expression: str) -> str | None:
    """Return a suggestion for syntax of other cron tools; None if there is none."""
    first, *others = fields = expression.split() or [""]
    if first.startswith("@"):
        if first.lower() == "@every":
            return "give the interval instead of @every (every, --every)"
        return f"the macros are {', '.join(_MACROS)}: write one of them, or five or six fields"
    if _ZONE_IN_FRONT.match(first):
        rest = " ".join(others)
        return f"the time zone is not part of it: write {rest!r} and give time_zone (--time-zone)"
    if "?" in fields:
        written = " ".join("*" if each == "?" else each for each in fields)
        return f"there is no ? here: write {written!r}"
    for term in (term for each in fields for term in each.split(",")):
        if _BEFORE_LAST.fullmatch(term):
            return (
                f"{term} (days before the last one) is not read: write L for the last day of the"
                " month, LW for its last weekday, or days of the month such as 26-28"
            )
        if _NEAREST_WEEKDAY.fullmatch(term):
            return (
                f"{term} (the weekday nearest to a day) is not read: write the day itself, LW for"
                " the last weekday of the month, or a day of the week such as MON#3 for the third"
                " Monday"
            )
    return None


def cron_after(expression: str, time_zone: str, time_ms: int) -> int | None:
    """Return the first time after ``time_ms`` at which it is due; None if there is none."""
    begin = from_millis(time_ms).astimezone(ZoneInfo(time_zone))
    try:
        for due in _CronTimes(expression, begin):
            due_ms = to_millis(due)
            # In an hour that the clock shows twice, CronSim returns the first one again.
            if due_ms > time_ms:
                return due_ms
    except (ValueError, OverflowError):
        # The calendar of ``datetime`` has ended.
        return None
    return None


def shortest_gap_ms(expression: str) -> int:
    """Return the shortest time between two of its times, at most a day, among the next ones."""
    times = takewhile(lambda due: due < _GAPS_END, CronSim(expression, _BEGIN))
    looked_at = map(to_millis, islice(times, _GAPS_LOOKED_AT))
    gaps = (later - earlier for earlier, later in pairwise(looked_at))
    return min(gaps, default=_GAP_MS_MAX)
