"""The log as an operator sees it: its bounds, and the records that were put aside."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.log_offset import broker_offset
from hourhand.actors.ports.log import Position

REASON_HEADER = "hourhandReason"
ORIGIN_HEADERS = ("hourhandTopic", "hourhandPartition", "hourhandOffset")
"""Headers with the original place of a letter's record."""
LEFT_OUT: Headers = (("hourhandLeftOut", b"key, value and headers: too large"),)
"""Marks a short letter: its record could not be stored whole."""


def letter_headers(topic: str, record: LogRecord, reason: str) -> Headers:
    """Return a letter's headers: the reason, and the record's original place."""
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
    """The value of ``before`` for the next page; None if there is none."""


class LogEnd(NamedTuple):
    """The bounds of a partition of the task topic."""

    first_offset: int
    end_offset: int
    """Offset of the next record."""


class LogView(Protocol):
    """Only reads; used from any thread, each call blocks.

    Every method raises LogUnavailable if the log does not answer within a bounded time.
    """

    def ends(self) -> Mapping[int, LogEnd]:
        """Return the bounds of every partition of the task topic."""

    def letters(self, before: str | None, limit: int) -> LetterPage:
        """Read dead letters; ValueError if ``before`` is not a place of this log."""

    def find_letters(self, places: Sequence[Position]) -> Mapping[Position, LogRecord]:
        """Read single dead letters; a missing one is absent from the answer."""

    def close(self) -> None:
        """Close connections or files."""
