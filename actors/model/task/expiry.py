"""The expiry of a task: an instant from which on no attempt of it starts.

A record names it in a member of its own. The text of a row has it behind all other members but the
trace (``row_text``), so that it follows the task wherever its row goes. Behind it stands a kind
that no node has: a node of the version before, which knows no expiries, holds such a task. Decides
how an expiry is written and when it has passed, never what follows from that.
"""

from datetime import timedelta

import msgspec

from hourhand.actors.model.task.trace import CONTEXT_TAIL_BYTES, RESERVED, appended, without_context
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, format_instant, parse_instant

HOLDING_KIND = "hourhand:expires"
"""The kind that a node of the version before reads in a row with an expiry."""
MEMBER = "hourhand.expires"
"""The member's name in the text of a row."""

_OPENS = b'"%b":"' % MEMBER.encode()
_MARK = b'"%b"' % HOLDING_KIND.encode()
_CLOSES = b'","hourhand.kind":%b}' % _MARK
_TEXT_BYTES_MAX = 32
MEMBER_BYTES_MAX = len(_OPENS) + _TEXT_BYTES_MAX + len(_CLOSES) + len(b",")
"""Most bytes that an expiry adds to the text of a row."""
_REACH_BYTES = len(_CLOSES) + CONTEXT_TAIL_BYTES
_MILLISECOND = timedelta(milliseconds=1)
assert _OPENS.startswith(RESERVED), "what data may not end with is found by this prefix"


class Expiry(msgspec.Struct, frozen=True, gc=False):
    """An instant that stays, or a duration that moves with the scheduled time; one of both."""

    at_ms: int | None = None
    """The instant, in milliseconds since 1970."""
    after_ms: int | None = None
    """Milliseconds from the scheduled time, above zero."""

    def instant_ms(self, scheduled_ms: int) -> int:
        """Return the instant of a task that is scheduled at a time."""
        if self.at_ms is not None:
            return self.at_ms
        assert self.after_ms is not None, "an expiry is an instant or a duration"
        return min(scheduled_ms + self.after_ms, INSTANT_MAX_MS)

    def __str__(self) -> str:
        if self.at_ms is not None:
            return format_instant(self.at_ms)
        assert self.after_ms is not None, "an expiry is an instant or a duration"
        encoded: str = msgspec.to_builtins(timedelta(milliseconds=self.after_ms))
        return encoded


def expiry_after(duration: timedelta) -> Expiry:
    """Return the expiry after a duration; ValueError unless that is a millisecond or more."""
    after_ms = duration // _MILLISECOND
    if after_ms < 1:
        raise ValueError(
            f"{shown(duration)} after its time is too early: a millisecond is the least"
        )
    return Expiry(after_ms=after_ms)


def read_expiry(text: str) -> Expiry:
    """Return an expiry from its text: an instant as in RFC 3339, or a duration such as PT1H30M
    (ISO 8601); ValueError for another text.
    """
    if not text.startswith(("P", "-P", "+P")):
        return Expiry(at_ms=parse_instant(text))
    try:
        duration = msgspec.convert(text, timedelta)
    except msgspec.ValidationError as error:
        raise ValueError(f"{shown(text)} is not a duration such as PT1H30M: {error}") from None
    return expiry_after(duration)


def with_expiry(text: bytes, expiry: Expiry) -> bytes:
    """Return the text of a row that carries no trace, with an expiry behind all its members."""
    return appended(text, b"".join((_OPENS, str(expiry).encode(), _CLOSES)))


def split_expiry(text: bytes) -> tuple[Expiry | None, bytes]:
    """Return the expiry in a row's text without its trace, and the text without it."""
    if not text.endswith(_CLOSES):
        return None, text
    start = text.rfind(_OPENS, -MEMBER_BYTES_MAX)
    if start < 0:
        return None, text
    try:
        expiry = read_expiry(text[start + len(_OPENS) : -len(_CLOSES)].decode())
    except ValueError:
        return None, text
    return expiry, text[:start].removesuffix(b",") + b"}"


def carried_expiry(text: bytes) -> Expiry | None:
    """Return the expiry in a row's text."""
    # Nearly no row has one.
    if text.find(_MARK, -_REACH_BYTES) < 0:
        return None
    return split_expiry(without_context(text))[0]
