"""The log as an operator looks at it: how far it reaches, and what was put aside."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from actors.model.codec import Headers, LogRecord
from actors.model.log_offset import broker_offset
from actors.ports.log import Position

REASON_HEADER = "hourhandReason"
ORIGIN_HEADERS = ("hourhandTopic", "hourhandPartition", "hourhandOffset")
"""Where a letter stood before."""
LEFT_OUT: Headers = (("hourhandLeftOut", b"key, value and headers: too large"),)
"""Says that a letter is short: what it tells of could not be kept whole."""


def letter_headers(topic: str, record: LogRecord, reason: str) -> Headers:
    """Return what a letter says beside its record: why it was put aside, and where it stood."""
    place = (topic.encode(), b"%d" % record.partition, b"%d" % broker_offset(record.offset))
    return (
        (REASON_HEADER, reason.encode("utf-8", "replace")),
        *zip(ORIGIN_HEADERS, place, strict=True),
    )


class LetterPage(msgspec.Struct, frozen=True):
    """Dead letters, newest first as far as their dates agree."""

    letters: Sequence[LogRecord]
    """Each with its place in the dead-letter topic."""
    next_before: str | None
    """Pass it as ``before`` for the next page; None where there is none."""


class LogEnd(NamedTuple):
    """What a partition of the task topic holds."""

    first_offset: int
    end_offset: int
    """Of the next record."""


class LogView(Protocol):
    """Looks and never changes anything; used from any thread, one call at a time waits.

    Every method raises LogUnavailable where the log does not answer within a bounded time.
    """

    def ends(self) -> Mapping[int, LogEnd]:
        """Return the bounds of every partition of the task topic."""

    def letters(self, before: str | None, limit: int) -> LetterPage:
        """Read dead letters; ValueError where ``before`` is none of this log's."""

    def find_letters(self, places: Sequence[Position]) -> Mapping[Position, LogRecord]:
        """Read single dead letters; one that is not there is absent from the answer."""

    def close(self) -> None:
        """Let go of connections or files."""
