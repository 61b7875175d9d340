"""Writing to topics that are not Hourhand's own."""

from concurrent.futures import Future
from typing import Protocol

from actors.model.codec import Headers


class MessageWriter(Protocol):
    """Produces messages to any topic, used from any thread.

    Partitions are chosen as Kafka's own producer does.  The future resolves when all in-sync
    replicas hold the message.  It fails with TopicMissing or TaskTooLarge where trying again
    cannot help, and with LogUnavailable within a bounded time, when the topic may have it or
    not.  Messages of one topic and key keep the order in which they were produced.
    """

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Produce a message, byte for byte."""

    def close(self) -> None:
        """Wait (bounded) for what is unacknowledged and let go of connections."""
