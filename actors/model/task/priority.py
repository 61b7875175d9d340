"""The priority of one task, if it differs from its kind's.

A record names it in a field of its own. The text of a row has it behind the data, before the kind
and the trace (``row_text``), so that it follows the task wherever its row goes: to another time,
another topic, an archive. User code never sees it there. Decides how a priority is written, never
what starts first.
"""

import re
from typing import TypeGuard

from hourhand.actors.model.task.kind import TAIL_BYTES_MAX, is_linked, split_kind, with_kind
from hourhand.actors.model.task.links_text import may_have_links, split_links
from hourhand.actors.model.task.sealed import is_sealed, split_envelope, with_envelope
from hourhand.actors.model.task.trace import RESERVED, appended
from hourhand.actors.model.values.display import shown

PRIORITY_MAX = 100
"""Priorities lie between this and the same number below zero."""
MEMBER = "hourhand.priority"
"""The member's name in the text of a row."""

_OPENS = b'"%b":' % MEMBER.encode()
_CLOSES = b"}"
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]{0,2})").fullmatch
_NUMBER_BYTES_MAX = 4
_MEMBER_BYTES_MAX = len(_OPENS) + _NUMBER_BYTES_MAX + len(_CLOSES)
REACH_BYTES = _MEMBER_BYTES_MAX + TAIL_BYTES_MAX
"""Number of bytes at a text's end in which members of ours are searched."""


def is_priority(number: object) -> TypeGuard[int]:
    """True for a valid priority: a small whole number."""
    # A bool passes isinstance as a whole number.
    return isinstance(number, int) and type(number) is not bool and abs(number) <= PRIORITY_MAX


def checked_priority(number: object) -> int:
    """Return a valid priority; ValueError for another value."""
    if not is_priority(number):
        raise ValueError(
            f"{shown(number)} is not a priority: write a whole number from {-PRIORITY_MAX} to"
            f" {PRIORITY_MAX}"
        )
    return number


def with_priority(data: bytes, priority: int) -> bytes:
    """Return a JSON object that carries no trace or expiry, with the priority behind its own
    members and before its kind.
    """
    assert is_priority(priority), "a priority is checked before a row carries it"
    kind, _, written = split_members(data)
    row = appended(written, b"".join((_OPENS, b"%d" % priority, _CLOSES)))
    return row if kind is None else with_kind(row, kind)


def split_members(data: bytes) -> tuple[str | None, int | None, bytes]:
    """Return the kind and the priority in a row's data, and the data as its producer wrote it,
    without them, the expiry and the trace.
    """
    # Most rows have none of these.
    if data.find(RESERVED, -REACH_BYTES) < 0:
        return None, None, data
    has_links = is_linked(data)
    kind, data = split_kind(data)
    priority, data = _split_priority(data)
    # Last, as an envelope's members are written again without the white space that tells data from
    # members of ours.
    return kind, priority, _without_links(data) if has_links else data


def _split_priority(data: bytes) -> tuple[int | None, bytes]:
    """Return the last member if it is a priority, and data without it."""
    start = data.rfind(_OPENS, max(0, len(data) - _MEMBER_BYTES_MAX))
    number = data[start + len(_OPENS) : -len(_CLOSES)]
    if start < 0 or _NUMBER(number) is None or not is_priority(int(number)):
        return None, data
    return int(number), data[:start].removesuffix(b",") + _CLOSES


def _without_links(data: bytes) -> bytes:
    if not is_sealed(data):
        return split_links(data)[1]
    envelope, clear = split_envelope(data)
    assert envelope is not None, "sealed data has one"
    return with_envelope(split_links(clear)[1], envelope)


def carried_links(data: bytes) -> bytes | None:
    """Return the links in a row's data, as JSON."""
    if not may_have_links(data) or not is_linked(data):
        return None
    return split_links(split_envelope(data)[1])[0]


def carried_priority(data: bytes) -> int | None:
    """Return the priority in a row's data."""
    return split_members(data)[1] if data.find(_OPENS, -REACH_BYTES) >= 0 else None


def without_members(data: bytes) -> bytes:
    """Return a row's data as its producer wrote it: without members of ours."""
    return split_members(data)[2]
