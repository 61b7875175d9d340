"""What waits in the pending topic, read from outside: every partition from its marker to its end.

A picture of a moment for people; decides nothing, and changes nothing.
"""

import heapq
from collections.abc import Iterator

import msgspec

from scheduler import wiring
from scheduler.configuration.settings import Settings
from scheduler.kafka_only.bucket_wiring import open_marks
from scheduler.kafka_only.mark import Mark, decode_mark
from scheduler.kafka_only.slip import NoSlip, Slip, read_slip


class WaitingMessage(msgspec.Struct, frozen=True):
    """A message that was not passed on yet, and where it waits."""

    slip: Slip
    partition: int
    offset: int


def list_waiting(settings: Settings, limit: int) -> list[WaitingMessage]:
    """Return the first messages by the time they are due; TopicMissing, LogUnavailable."""
    return heapq.nsmallest(limit, _waiting(settings), key=lambda each: each.slip.due_ms)


def _waiting(settings: Settings) -> Iterator[WaitingMessage]:
    reader = wiring.open_topic_reader(settings, settings.buckets.topic)
    try:
        with open_marks(settings) as last_marker:
            bounds = reader.bounds()
            for partition, (first, end) in bounds.items():
                marker = last_marker(partition)
                mark = Mark(first) if marker is None else decode_mark(marker)
                for records in reader.read(partition, max(first, mark.next_offset), end):
                    for record in records:
                        if mark.is_done(record.offset):
                            continue
                        try:
                            slip, _ = read_slip(record)
                        except NoSlip:
                            continue
                        yield WaitingMessage(slip, partition, record.offset)
    finally:
        reader.close()
