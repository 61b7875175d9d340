"""The trace of a task: a header of its record, and a member behind the data in its row.

A row's text ends with the context, in one fixed form (``row_text``), so that it follows the task
wherever its row goes: to another time, another topic, an archive. User code never sees it. Only a
context that is sampled is kept. Decides nothing about spans.
"""

import re
from collections.abc import Sequence

TRACEPARENT = "traceparent"
"""The header's name, in W3C's Trace Context."""
MEMBER = "hourhand.traceparent"
"""The member's name in the text of a row."""
RESERVED = b'"hourhand.'
"""Prefix of the names of members that are ours."""

_OPENS = b'"%b":"' % MEMBER.encode()
_SAMPLED = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][13579bdf]")
_CONTEXT_BYTES = 55
_CLOSES = b'"}'
CONTEXT_TAIL_BYTES = len(_OPENS) + _CONTEXT_BYTES + len(_CLOSES)
"""Bytes of a context at the end of the data."""
_TRACED_BYTES_MAX = 1_000_000
"""Longer data gets no context: its size was judged without one."""


def context_of(headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    """Return the sampled context in a record's headers; None if there is none."""
    for name, value in headers:
        if name == TRACEPARENT and value is not None and _SAMPLED.fullmatch(value):
            return value
    return None


def with_context(data: bytes, context: bytes) -> bytes:
    """Return a JSON object with the context as its last member."""
    if len(data) > _TRACED_BYTES_MAX:
        return data
    assert _SAMPLED.fullmatch(context), "only a sampled context is carried"
    return appended(without_context(data), _OPENS + context + _CLOSES)


def appended(data: bytes, member: bytes) -> bytes:
    """Return a JSON object with a member added behind its own, and the end of the object."""
    # White space before the end stays: it distinguishes data from members of ours (``escaped``).
    body = data.rstrip()[:-1]
    comma = b"" if body.rstrip().endswith(b"{") else b","
    return b"".join((body, comma, member))


def carried_context(data: bytes) -> bytes | None:
    """Return the context in a row's data."""
    tail = data[-CONTEXT_TAIL_BYTES:]
    if tail.startswith(_OPENS) and tail.endswith(_CLOSES):
        context = tail[len(_OPENS) : -len(_CLOSES)]
        return context if _SAMPLED.fullmatch(context) else None
    return None


def without_context(data: bytes) -> bytes:
    """Return a row's data without its context."""
    if not data.startswith(_OPENS, -CONTEXT_TAIL_BYTES) or carried_context(data) is None:
        return data
    return data[:-CONTEXT_TAIL_BYTES].removesuffix(b",") + b"}"
