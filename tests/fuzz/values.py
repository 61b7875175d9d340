"""Values no sane program would pass: text, numbers, moments, and objects that hit back.

Decides what is hostile; what should become of it is the doors' matter.
"""

import random
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

TEXTS = (
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfff",
    "\u2028\n\r\t",
    "🕰" * 20,
    "ü/,%2C",
    "%",
    "%ff",
    "../..",
    "-1",
    "NaN",
    "null",
    "\x1b[2J",
    "'; DROP TABLE task_schedule; --",
    "x" * 33_000,
    "ß" * 16_381,
)
INSTANTS = (
    "1969-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999999Z",
    "9999-12-31T23:59:59-23:59",
    "10000-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "-001-01-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-02-09T01:41:12",
    "2026-02-09",
    "2026-02-09T23:59:60Z",
    "2026-02-09T12:30:60Z",
    "9999-12-31T23:59:60Z",
    "2026-02-09T01:41:13." + "9" * 5_000 + "Z",
    "2026-02-09T01:41:13.٣٣٣Z",
    "2026-02-09t01:41:13z",
    "2026-02-09T25:00:00Z",
    "now",
    "",
)
NUMBERS = (0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**70, 1.5, -0.0, 1e308)


class Explosive:
    """An object every view of which raises."""

    def __repr__(self) -> str:
        """Refuse to be shown."""
        raise RuntimeError("no repr")

    __str__ = __repr__

    def __len__(self) -> int:
        """Refuse to be measured."""
        raise RuntimeError("no length")


class BadZone(tzinfo):
    """A time zone that does not know itself."""

    def utcoffset(self, dt: datetime | None) -> timedelta:
        """Raise, as the code of a caller may."""
        raise ZeroDivisionError(str(dt is None))

    dst = utcoffset

    def tzname(self, dt: datetime | None) -> str:
        """Give a name that no text can hold."""
        return "\ud800"


def text(rng: random.Random) -> str:
    """Return hostile text: of the list, or of any characters at all."""
    if rng.random() < 0.5:
        return rng.choice(TEXTS)
    return "".join(chr(rng.choice((rng.randrange(128), rng.randrange(0x11_0000)))) for _ in "12345")


def moment(rng: random.Random) -> object:
    """Return something given for a ``datetime``."""
    soon = datetime(2999, 1, 1, tzinfo=UTC)
    return rng.choice(
        (
            soon,
            soon.replace(tzinfo=None),
            soon.replace(tzinfo=BadZone()),
            date(2999, 1, 1),
            datetime.min,  # noqa: DTZ901 - without a zone on purpose
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
            datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
            datetime.max.replace(tzinfo=UTC),
            value(rng),
        )
    )


def value(rng: random.Random, depth: int = 0) -> Any:
    """Return anything Python has."""
    kind = rng.randrange(12 if depth < 3 else 9)
    match kind:
        case 0 | 1 | 2:
            return text(rng)
        case 3:
            return rng.choice(NUMBERS)
        case 4:
            return rng.choice((None, True, False, float("nan"), float("-inf"), 10**5_000))
        case 5:
            return rng.randbytes(rng.randrange(8))
        case 6:
            return Explosive()
        case 7:
            return object()
        case 8:
            return rng.choice((int, value, BadZone(), {1, 2}, range(3), timedelta.max))
        case 9:
            return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
        case 10:
            return {_name(rng, depth): value(rng, depth + 1) for _ in range(rng.randrange(4))}
        case _:
            return _bottomless(rng)


def _name(rng: random.Random, depth: int) -> Any:
    return text(rng) if rng.random() < 0.9 or depth else rng.randrange(9)


def _bottomless(rng: random.Random) -> object:
    nested: dict[str, Any] = {}
    if rng.random() < 0.5:
        nested["itself"] = nested
        return nested
    for _ in range(rng.choice((50, 300, 5_000))):
        nested = {"a": nested}
    return nested
