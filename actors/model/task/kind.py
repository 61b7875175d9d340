"""The kind of a task, which chooses its executor.

A record names it in a field of its own. The text of a row has it behind the data, before the trace
(``row_text``), so that it follows the task wherever its row goes: to another time, another topic,
an archive. User code never sees it there. Decides how a kind is written, never who runs it.
"""

import re

from hourhand.actors.model.task.expiry import HOLDING_KIND, MEMBER_BYTES_MAX, Expiry, split_expiry
from hourhand.actors.model.task.links_text import HOLDING_KIND as LINKED_KIND
from hourhand.actors.model.task.links_text import MARK, MARK_BYTES, split_mark
from hourhand.actors.model.task.trace import CONTEXT_TAIL_BYTES, RESERVED, appended, without_context
from hourhand.actors.model.values.display import shown

KIND_CHARS_MAX = 64
KIND_PATTERN = rf"[A-Za-z0-9][A-Za-z0-9_.:/-]{{0,{KIND_CHARS_MAX - 1}}}"
MEMBER = "hourhand.kind"
"""The member's name in the text of a row."""

is_kind = re.compile(KIND_PATTERN).fullmatch
_OPENS = b'"%b":"' % MEMBER.encode()
_CLOSES = b'"}'
_MEMBER_BYTES_MAX = len(_OPENS) + KIND_CHARS_MAX + len(_CLOSES)
_NEITHER = (None, None)
TAIL_BYTES_MAX = _MEMBER_BYTES_MAX + MARK_BYTES + MEMBER_BYTES_MAX + CONTEXT_TAIL_BYTES
"""Most bytes of kind, mark of links, expiry and trace at the end of the data."""


def checked_kind(kind: object) -> str:
    """Return a valid kind; ValueError for another value."""
    if not isinstance(kind, str) or is_kind(kind) is None:
        raise ValueError(
            f"{shown(kind)} is not a kind: write at most {KIND_CHARS_MAX} letters, digits and"
            " _.:/-, beginning with a letter or digit"
        )
    if kind in (HOLDING_KIND, LINKED_KIND):
        raise ValueError(f"{shown(kind)} is a kind of Hourhand's own: choose another")
    return kind


def with_kind(data: bytes, kind: str) -> bytes:
    """Return a JSON object that carries no trace or expiry, with the kind as its last member."""
    assert is_kind(kind), "a kind is checked before a row carries it"
    return appended(without_kind(data), b"".join((_OPENS, kind.encode(), _CLOSES)))


def split_kind(data: bytes) -> tuple[str | None, bytes]:
    """Return the kind in a row's data, and the data without kind, expiry and trace."""
    # Most rows have none of them.
    if data.find(RESERVED, -TAIL_BYTES_MAX) < 0:
        return None, data
    _, data = split_expiry(without_context(data))
    if data.endswith(MARK):
        _, data = split_mark(data)
    start = data.rfind(_OPENS, max(0, len(data) - _MEMBER_BYTES_MAX))
    if start < 0 or not data.endswith(_CLOSES):
        return None, data
    try:
        kind = data[start + len(_OPENS) : -len(_CLOSES)].decode("ascii")
    except UnicodeDecodeError:
        return None, data
    if is_kind(kind) is None:
        return None, data
    return kind, data[:start].removesuffix(b",") + b"}"


def carried_kind(data: bytes) -> str | None:
    """Return the kind in a row's data."""
    # Called several times for each row.
    return split_kind(data)[0] if data.find(_OPENS, -TAIL_BYTES_MAX) >= 0 else None


def carried_kind_and_expiry(data: bytes) -> tuple[str | None, Expiry | None]:
    """Return both in one look at a row's data; a row with an expiry always has a kind as well."""
    if data.find(_OPENS, -TAIL_BYTES_MAX) < 0:
        return _NEITHER
    expiry, data = split_expiry(without_context(data))
    return split_kind(data)[0], expiry


def is_linked(data: bytes) -> bool:
    """True if a row's data has links in front."""
    return split_mark(split_expiry(without_context(data))[1])[0]


def without_kind(data: bytes) -> bytes:
    """Return a row's data without kind, expiry and trace."""
    return split_kind(data)[1]
