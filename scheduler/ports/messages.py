"""Writes to topics that are not Hourhand's own, and reads any topic by its offsets."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from hourhand.actors.model.task.codec import Headers, LogRecord


class MessageWriter(Protocol):
    """Produces messages to any topic, used from any thread.

    Partitions are chosen as Kafka's own producer does. The future resolves when all in-sync
    replicas hold the message. It fails with TopicMissing or TaskTooLarge if a retry cannot help,
    and with LogUnavailable within a bounded time, when the topic may have it or not. Messages of
    one topic and key keep the order in which they were produced.
    """

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Produce a message, byte for byte."""

    def close(self) -> None:
        """Wait for unacknowledged messages, for a bounded time, and close connections."""


class TopicReader(Protocol):
    """Reads records of one topic by offset, outside every group; used from one thread.

    Errors: LogUnavailable within a bounded time, and if the requested records are gone.
    """

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """Return, by partition, the first existing offset and the next one to be written."""

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        """Yield the records with ``start`` <= offset < ``end``, in order and in pieces."""

    def close(self) -> None:
        """Close the connections."""
