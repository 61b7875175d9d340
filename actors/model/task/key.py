"""The identity of a task, its order, and its one reversible text form.

The text form is ``<instant>,<ordering id>,<uniqueness key>`` with both ids percent-encoded (RFC
3986, everything except unreserved characters), so it needs no quoting in a shell or in a URL path
and every string survives it. No task has an empty ordering id, so none is read. The form of a pair
of both ids lacks the instant and its comma.
"""

import re
from datetime import datetime
from typing import NamedTuple, Self
from urllib.parse import quote, unquote_to_bytes

from hourhand.actors.model.values.errors import InvalidKey
from hourhand.actors.model.values.instant import format_instant, from_millis, parse_instant
from hourhand.actors.model.values.public import public

_LEGACY = re.compile(r"TaskKey\(([^,]*),([^,]*),([^,]*)\)", re.DOTALL)


@public("hourhand")
class TaskKey(NamedTuple):
    """Identity of a task; sorts by time, then ordering id, then uniqueness key."""

    scheduled_ms: int
    """Due time, in UTC milliseconds."""
    ordering_id: str
    uniqueness_key: str

    @property
    def scheduled_time(self) -> datetime:
        """Due time, as an aware ``datetime`` in UTC."""
        return from_millis(self.scheduled_ms)

    def __str__(self) -> str:
        ids = (_quoted(self.ordering_id), _quoted(self.uniqueness_key))
        return f"{format_instant(self.scheduled_ms)},{ids[0]},{ids[1]}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form, or PagerDuty's ``TaskKey(time,orderingId,uniquenessKey)``.

        The latter is not encoded, so it is read only if neither id holds a comma. Raises InvalidKey
        for everything else.
        """
        legacy = _LEGACY.fullmatch(text)
        parts = list(legacy.groups()) if legacy else text.split(",")
        if len(parts) != 3:
            raise InvalidKey(
                f"{text!r} is not a task key: expected <instant>,<ordering id>,<uniqueness key>,"
                " with commas inside the ids written as %2C"
            )
        try:
            scheduled_ms = parse_instant(parts[0])
            ids = parts[1:] if legacy else [_unquoted(part) for part in parts[1:]]
        except ValueError as error:
            raise InvalidKey(f"{text!r} is not a task key: {error}") from error
        if not ids[0]:
            raise InvalidKey(
                f"{text!r} is not a task key: the ordering id is empty, which no task's is"
            )
        return cls(scheduled_ms, ids[0], ids[1])


class TaskPair(NamedTuple):
    """Both ids of a task without its time; commands name the one open task that has them."""

    ordering_id: str
    uniqueness_key: str

    def __str__(self) -> str:
        return f"{_quoted(self.ordering_id)},{_quoted(self.uniqueness_key)}"


def parse_name(text: str) -> TaskKey | TaskPair:
    """Read the text form of a key or, with one comma, of a pair; raises InvalidKey."""
    if text.count(",") != 1:
        try:
            return TaskKey.parse(text)
        except InvalidKey as error:
            told = f"{error}; or <ordering id>,<uniqueness key> without a time"
            raise InvalidKey(told) from error
    try:
        pair = TaskPair(*map(_unquoted, text.split(",")))
    except ValueError as error:
        raise InvalidKey(f"{text!r} is not a pair of ids: {error}") from error
    if not pair.ordering_id:
        raise InvalidKey(f"{text!r} is not a pair of ids: its ordering id is empty")
    return pair


def first_key_at(time_ms: int) -> TaskKey:
    """Return the lowest possible key of a millisecond: before every real task of it."""
    return TaskKey(time_ms, "", "")


def _quoted(part: str) -> str:
    return quote(part, safe="", errors="surrogatepass")


def _unquoted(part: str) -> str:
    return unquote_to_bytes(part).decode(errors="surrogatepass")
