"""Decides which of many equal events are logged, and counts the others.

Decides which events are equal: the first one is logged at once, then at most one a second with the
number of those that were only counted. Every count is logged: with the next event, a second after
the last one, or at the end. The form of a line is decided elsewhere.
"""

import re
from collections.abc import Callable, Iterator
from logging import INFO
from threading import Lock
from typing import NamedTuple

from hourhand.actors.model.operations.events import (
    AttemptAbandoned,
    AttemptFailed,
    AttemptFinished,
    AttemptStuck,
    CommandDecided,
    Event,
    RecordMisplaced,
    RecordPoisoned,
    RetriesExhausted,
    TaskHeld,
)
from hourhand.actors.model.values.display import class_name_of, message_of

PAUSE_MS = 1_000
SHAPES_MAX = 32
"""Kinds of equal events that are distinguished within a second; all further ones count as one more
kind, so that messages which all differ do not flood the log either."""

_SHAPE_CHARS_MAX = 200
_VARIABLE = re.compile(r"\b(?=[\w.:/@+-]*\d)\w[\w.:/@+-]*")
"""Words with a digit, such as numbers, times and ids: they differ from one message to the next."""

_EQUAL_BY: dict[type, tuple[str, ...]] = {
    AttemptAbandoned: ("reason",),
    AttemptFailed: ("kind", "result", "error"),
    # Attempts that will be repeated; no line of others has this level.
    AttemptFinished: ("kind", "result"),
    AttemptStuck: ("limit", "limit_ms"),
    CommandDecided: ("kind", "outcome"),
    RecordMisplaced: (),
    RecordPoisoned: ("reason",),
    RetriesExhausted: ("on_exhausted",),
    TaskHeld: ("kind", "error_class", "message"),
}
"""Events of which there may be one for each task, and the fields that equal ones share."""

Shape = tuple[object, ...]


class Suppressed(NamedTuple):
    """Equal events that were counted and not logged."""

    event: type
    fields: dict[str, str]
    """Their common fields, and the key of the last one."""
    level: int
    number: int


class _SinceTold:
    """The count of equal events since the last logged one."""

    __slots__ = ("count", "last", "level", "told_ms")

    def __init__(self, event: Event, level: int, told_ms: float) -> None:
        self.told_ms, self.level = told_ms, level
        self.last: dict[str, str] = _told_fields(event)
        self.count = 0


class RepeatedEvents:
    """Counts equal events; used from any thread.  ``monotonic_ms`` is the clock."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._lock = Lock()
        self._known: dict[Shape, _SinceTold] = {}
        self.due_ms: float | None = None
        """Time at which a number may be due for the log; None if none waits.  Read without the
        lock, for each event."""

    def take(self, event: Event, level: int) -> int | None:
        """Return the number of equal events since the last line; None if this one is only counted.

        Lines below INFO are for single tasks, and all are logged.
        """
        by = _EQUAL_BY.get(event.__class__)
        if by is None or level < INFO:
            return 0
        shape = (event.__class__, *(_shape_of(getattr(event, name)) for name in by))
        now_ms = self._monotonic_ms()
        with self._lock:
            known = self._known.get(shape)
            if known is None and self._is_full(now_ms):
                shape = (event.__class__,)
                known = self._known.get(shape)
            if known is None or now_ms - known.told_ms >= PAUSE_MS:
                self._known[shape] = _SinceTold(event, level, now_ms)
                return 0 if known is None else known.count
            known.count += 1
            known.last = _told_fields(event)
            due_ms = known.told_ms + PAUSE_MS
            self.due_ms = due_ms if self.due_ms is None else min(due_ms, self.due_ms)
            return None

    def overdue(self, *, all_of_them: bool = False) -> list[Suppressed]:
        """Return the counts that are due for the log, each once."""
        now_ms, due_ms = self._monotonic_ms(), self.due_ms
        if not all_of_them and (due_ms is None or now_ms < due_ms):
            # The usual case, for each event of each task while others fail.
            return []
        with self._lock:
            found = [
                (shape, known)
                for shape, known in self._known.items()
                if known.count and (all_of_them or now_ms - known.told_ms >= PAUSE_MS)
            ]
            told = [Suppressed(_event_of(shape), k.last, k.level, k.count) for shape, k in found]
            for _, known in found:
                known.count, known.told_ms = 0, now_ms
            counted = [known.told_ms for known in self._known.values() if known.count]
            self.due_ms = min(counted) + PAUSE_MS if counted else None
        return told

    def _is_full(self, now_ms: float) -> bool:
        """True if the limit of distinguished shapes within a second is reached."""
        if len(self._known) < SHAPES_MAX:
            return False
        for shape in [*self._silent(now_ms)]:
            del self._known[shape]
        return len(self._known) >= SHAPES_MAX

    def _silent(self, now_ms: float) -> Iterator[Shape]:
        for shape, known in self._known.items():
            if not known.count and now_ms - known.told_ms >= PAUSE_MS:
                yield shape


def _event_of(shape: Shape) -> type:
    event = shape[0]
    assert isinstance(event, type), "a shape begins with its event"
    return event


def _shape_of(value: object) -> object:
    """Return the part of a value that equal events share."""
    if isinstance(value, BaseException):
        return class_name_of(value), _shape_of(message_of(value, _SHAPE_CHARS_MAX))
    if isinstance(value, str) and value.__class__ is str:
        return _VARIABLE.sub("#", value[:_SHAPE_CHARS_MAX])
    return value


def _told_fields(event: Event) -> dict[str, str]:
    told: dict[str, str] = {}
    for name in _EQUAL_BY[event.__class__]:
        value = getattr(event, name)
        if isinstance(value, BaseException):
            told |= {name: class_name_of(value), f"{name}_message": message_of(value)}
        else:
            told[name] = str(value)
    key = getattr(event, "key", None)
    return told if key is None else {**told, "last_key": str(key)}
