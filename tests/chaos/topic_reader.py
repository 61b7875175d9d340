"""Reads a topic from its begin, on a thread of its own, and hands each record on.

Decides nothing about what records say.  Nothing of the engine is used: a Kafka consumer.
"""

import threading
from collections.abc import Callable

from confluent_kafka import Consumer, Message

_POLL_S = 0.2


class TopicReader:
    """Hands records to a function, one at a time, from ``start`` until ``close``."""

    def __init__(self, bootstrap_servers: str, topic: str, take: Callable[[Message], None]) -> None:
        self._take = take
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"{topic}-reader",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([topic])
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True, name="chaos-reader")

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._closed.is_set():
            message = self._consumer.poll(_POLL_S)
            if message is not None and not message.error():
                self._take(message)
