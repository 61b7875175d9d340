"""``AppendGroup`` on a Kafka producer: all records share one callback, which counts.

Nothing is made for a record but its bytes.  Which of them failed is found by these, when one
does; of several with the same bytes it does not matter which one is told.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from actors.model.errors import HourhandError
from scheduler.adapters.kafka.serving import ANY_PARTITION, ServedProducer


class KafkaGroup:
    """Records of one thread, in one topic; the driver finds each one's partition."""

    def __init__(
        self,
        producer: ServedProducer,
        topic: str,
        refuse_large: Callable[[bytes, bytes], None],
        failure: Callable[[KafkaError, str], HourhandError],
    ) -> None:
        """``refuse_large`` raises TaskTooLarge for a key and value that are."""
        self._producer = producer
        self._topic = topic
        self._refuse_large = refuse_large
        self._failure = failure
        self._values: list[bytes] = []
        self._reported = 0
        self._failed: list[tuple[bytes, HourhandError]] = []

    def append(self, ordering_id: str, value: bytes) -> None:
        """Append a record to the partition of its ordering id."""
        key = ordering_id.encode()
        self._refuse_large(key, value)
        self._producer.produce(self._topic, value, key, ANY_PARTITION, self._delivered)
        self._values.append(value)

    def settle(self) -> Mapping[int, HourhandError]:
        """Wait for the reports of all records, which the driver's own timeout bounds."""
        self._producer.serve_until(lambda: self._reported >= len(self._values))
        if not self._failed:
            return {}
        places: defaultdict[bytes, deque[int]] = defaultdict(deque)
        for number, value in enumerate(self._values):
            places[value].append(number)
        return {places[value].popleft(): error for value, error in self._failed}

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        """Count a report; called by the driver, once a record, never by two threads at a time."""
        self._reported += 1
        if error is not None:
            self._failed.append((message.value(), self._failure(error, self._topic)))
