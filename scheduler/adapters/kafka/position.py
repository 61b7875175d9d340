"""Where reading of a partition begins, from what group, store and broker know of it."""

import logging
import threading
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from actors.ports.log import StartPosition
from scheduler.adapters.kafka.connection import LastError, translated
from scheduler.settings import Settings

logger = logging.getLogger(__name__)

_ANSWER_S_MAX = 1.0
"""Longest wait for one answer: the polling thread waits too, and is needed for the lease of what
is read already.  Who gets none asks again."""
_SECOND_LOOKS = 3
_SECOND_LOOK_PAUSE_S = 0.2


def starting_position(
    consumer: Any,
    settings: Settings,
    last_error: LastError,
    partition: int,
    stored: int | None,
) -> StartPosition:
    """Ask the broker and choose; LogUnavailable where it does not answer."""
    timeout_s = min(_ANSWER_S_MAX, settings.kafka.connect_timeout_ms / 1000)
    asked = TopicPartition(settings.topic.name, partition)
    try:
        # The driver asks the leader it remembers, and a client that reads nothing remembers
        # one that is gone for five minutes: it is told to look first.
        consumer.list_topics(settings.topic.name, timeout=timeout_s)
        answer = consumer.committed([asked], timeout=timeout_s)[0]
        if answer.error is not None:
            raise KafkaException(answer.error)
        committed = answer.offset if answer.offset >= 0 else None
        first, end = consumer.get_watermark_offsets(asked, timeout=timeout_s)
        # Just after a change of leader a partition may look shorter than it is; believing
        # that would mean to read all of it again.
        for _ in range(_SECOND_LOOKS):
            if max(committed or 0, stored or 0) <= end:
                break
            threading.Event().wait(_SECOND_LOOK_PAUSE_S)
            first, end = consumer.get_watermark_offsets(asked, timeout=timeout_s)
    except KafkaException as error:
        what = f"asking where partition {partition} begins"
        raise translated(error.args[0], settings, last_error, what) from error
    return StartPosition(chosen_position(partition, committed, stored, first, end), end)


def chosen_position(
    partition: int, committed: int | None, stored: int | None, first: int, end: int
) -> int:
    """Return the next offset to read: the highest known one that the log can hold.

    ``first`` and ``end`` are the log's own bounds.  An offset beyond the end was noted for
    another topic of this name; one before the first means that records expired unread.
    """
    known = [each for each in (committed, stored) if each is not None]
    for each in known:
        if each > end:
            logger.warning(
                "partition %s ends at %s, but %s was noted as next: was the topic made anew?",
                partition,
                end,
                each,
            )
    position = max((each for each in known if each <= end), default=None)
    if position is None:
        return first
    if position < first:
        logger.warning(
            "partition %s begins at %s, but %s was to be read next: records expired unread,"
            " the topic's retention is too short",
            partition,
            first,
            position,
        )
        return first
    return position
