"""Counts of a partition's tasks by due time, and of their ends.

Counting goes by hours, and by minutes inside of them. Counts are added to the store's, so a node
keeps only changes since its last write. It decides how an event counts, and never reads a row.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Self

import msgspec

from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of

SECOND_MS = 1_000
MINUTE_MS = 60_000
MINUTES = 60
SECONDS = 60


class HourTally(msgspec.Struct, array_like=True, gc=False):
    """The counts of one hour of one partition, or a change of them."""

    open: dict[int, int] = {}
    """By minute of the hour: the number of its tasks that are not closed."""
    stored: int = 0
    """Rows written, including those that replaced an earlier record of their key."""
    closed: dict[str, int] = {}
    """By result: the number of keys closed with it."""
    seconds: dict[int, int] = {}
    """By second of the minute: the number of the hour's tasks that are not closed, which shows
    herds."""

    def add(self, other: Self) -> None:
        """Add a change."""
        for minute, count in other.open.items():
            self.open[minute] = self.open.get(minute, 0) + count
        self.stored += other.stored
        for result, count in other.closed.items():
            self.closed[result] = self.closed.get(result, 0) + count
        for second, count in other.seconds.items():
            self.seconds[second] = self.seconds.get(second, 0) + count


class TallyChange:
    """The changes of one partition since the last write."""

    def __init__(self) -> None:
        self.hours: dict[int, HourTally] = {}
        self.counted_offset = 0
        """Every record below this is counted, here or in the store."""

    def store(self, scheduled_ms: Iterable[int]) -> None:
        """Count rows that were written."""
        # Those of one second at once: most rows of a batch are due close together.
        seconds = Counter([time_ms // SECOND_MS for time_ms in scheduled_ms])
        for second, rows in seconds.items():
            hour = self._hour(second * SECOND_MS)
            hour.stored += rows
            _count(hour, second * SECOND_MS, rows)

    def close(self, scheduled_ms: int, result: CompletionResult, keys: int = 1) -> None:
        """Count keys of one second that were closed, or opened again."""
        hour = self.hours.get(scheduled_ms - scheduled_ms % HOUR_MS) or self._hour(scheduled_ms)
        _count(hour, scheduled_ms, keys if result is CompletionResult.REOPENED else -keys)
        name = result._value_
        hour.closed[name] = hour.closed.get(name, 0) + keys

    def _hour(self, time_ms: int) -> HourTally:
        hour_ms = hour_of(time_ms)
        tally = self.hours.get(hour_ms)
        if tally is None:
            tally = self.hours[hour_ms] = HourTally()
        return tally


def _count(hour: HourTally, time_ms: int, step: int) -> None:
    minute, second = time_ms // MINUTE_MS % MINUTES, time_ms // SECOND_MS % SECONDS
    hour.open[minute] = hour.open.get(minute, 0) + step
    hour.seconds[second] = hour.seconds.get(second, 0) + step


_decoder = msgspec.msgpack.Decoder(HourTally)


def encode_tally(tally: HourTally) -> bytes:
    """Return a tally in the store's form."""
    return msgspec.msgpack.encode(tally)


def decode_tally(body: bytes) -> HourTally:
    """Read the output of ``encode_tally``; raises msgspec.DecodeError for anything else."""
    return _decoder.decode(body)
