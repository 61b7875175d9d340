"""Instants as whole UTC milliseconds, and the two text forms they are read from.

No clock is read here. Sub-millisecond digits are cut, towards the past, so an instant is never
later than it was written, and less than a millisecond earlier.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

import msgspec

_C_DATETIME: type[datetime] = next(
    each
    for each in datetime.__mro__
    if issubclass(each, datetime) and each.__module__ == "datetime"
)
_read_rfc3339 = partial(msgspec.convert, type=_C_DATETIME)
"""Bound to the class itself: tests that freeze time (freezegun) put a subclass in its place in
every module, also during its import, and msgspec reads no text as a subclass."""
_from_timestamp = _C_DATETIME.fromtimestamp
_EPOCH = _C_DATETIME(1970, 1, 1, tzinfo=UTC)
_MILLIS_TEXTS = tuple(f".{millis:03d}Z" for millis in range(1000))
_MILLIS_OF_TEXT = {text: millis for millis, text in enumerate(_MILLIS_TEXTS)}
_SECOND_CHARS = len("2026-02-09T01:41:12")

INSTANT_MIN_MS = -62_135_596_800_000
"""Year 1, the first instant a ``datetime`` holds."""
INSTANT_MAX_MS = 253_402_300_799_999
"""The last millisecond of year 9999."""

_FLOAT_END_MS = 1000 * 2**33
"""Before this time, in the year 2242, a float of seconds is off by less than half a microsecond,
and a ``datetime`` is made from it in half the time."""

_SURPLUS_DIGITS = re.compile(r"(?<=\.\d{3})\d+", re.ASCII)
_LEAP_SECOND = re.compile(r"(?<=:\d\d:)60", re.ASCII)


def to_millis(instant: datetime) -> int:
    """Return ``instant`` as UTC milliseconds.

    Raises ValueError if it has no zone, or lies outside of the years 1 to 9999 in UTC.
    """
    if instant.tzinfo is not UTC and instant.utcoffset() is None:
        raise ValueError(f"{instant.isoformat()} has no time zone")
    since = instant - _EPOCH
    # By hand: dividing one timedelta by another takes twice as long.
    time_ms = since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    if not INSTANT_MIN_MS <= time_ms <= INSTANT_MAX_MS:
        raise ValueError(f"{instant.isoformat()} is not within the years 1 to 9999 in UTC")
    return time_ms


def from_millis(time_ms: int) -> datetime:
    """Return UTC milliseconds as an aware ``datetime`` in UTC."""
    if 0 <= time_ms < _FLOAT_END_MS:
        return _from_timestamp(time_ms / 1000, UTC)
    # Made from whole days, seconds and microseconds without floating point.
    return _EPOCH + timedelta(0, time_ms // 1000, time_ms % 1000 * 1000)


def cut_to_millis(instant: datetime) -> datetime:
    """Return ``instant`` in UTC, cut to milliseconds.

    Raises ValueError as ``to_millis``.
    """
    if instant.tzinfo is UTC and type(instant) is datetime and not instant.microsecond % 1000:
        return instant
    return from_millis(to_millis(instant))


@lru_cache(maxsize=4096)
def _day_text(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).date().isoformat()


@lru_cache(maxsize=4096)
def _second_text(second: int) -> str:
    day, within_day = divmod(second, 86_400)
    minute, within_minute = divmod(within_day, 60)
    return f"{_day_text(day)}T{minute // 60:02d}:{minute % 60:02d}:{within_minute:02d}"


def format_instant(time_ms: int) -> str:
    """Write ``yyyy-mm-ddThh:mm:ss.mmmZ``, always with three millisecond digits."""
    return _second_text(time_ms // 1000) + _MILLIS_TEXTS[time_ms % 1000]


@lru_cache(maxsize=4096)
def _whole_second(text: str) -> int:
    return to_millis(_read_rfc3339(text + "Z"))


def parse_instant(text: str) -> int:
    """Read any RFC 3339 instant with a zone; raises ValueError for another text."""
    millis = _MILLIS_OF_TEXT.get(text[_SECOND_CHARS:])
    if millis is not None:
        try:
            return _whole_second(text[:_SECOND_CHARS]) + millis
        except msgspec.ValidationError:
            # msgspec knows no leap seconds.
            pass
    return _parse_any(text)


def _parse_any(text: str) -> int:
    # msgspec rounds digits after the sixth, which could make an instant later than it was written,
    # so they are cut before.
    shortened = _SURPLUS_DIGITS.sub("", text)
    # Unix time has no leap seconds: 23:59:60 is the same number as the next day's 00:00:00.
    without_leap, leap_seconds = _LEAP_SECOND.subn("59", shortened)
    try:
        time_ms = to_millis(_read_rfc3339(without_leap)) + 1000 * leap_seconds
    except (msgspec.ValidationError, ValueError) as error:
        raise _no_instant(text) from error
    if leap_seconds and (time_ms // 1000 % 86_400 or time_ms > INSTANT_MAX_MS):
        raise _no_instant(text)
    return time_ms


def _no_instant(text: str) -> ValueError:
    return ValueError(
        f"{text[:80]!r} is not an RFC 3339 instant with a time zone, in the years 1 to 9999"
    )
