"""The places where outcomes are told: a Kafka topic, or the store, for readers on this machine.

Decides the topic and the retention, and never when an outcome is told.
"""

from collections.abc import Sequence
from concurrent.futures import Future

from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import KeptOutcomes
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.ports.outcomes import OutcomeRecord
from hourhand.scheduler.runtime.light_future import failed


class TopicSink:
    """``OutcomeSink``: records of a topic, keyed by the ordering id."""

    in_order = False

    def __init__(self, messages: MessageWriter, topic: str) -> None:
        self._messages, self._topic = messages, topic
        self.close = messages.close

    def put(self, records: Sequence[OutcomeRecord]) -> "Sequence[Future[None]]":
        """Produce each record."""
        return [self._produce(each) for each in records]

    def _produce(self, record: OutcomeRecord) -> "Future[None]":
        key = record.ordering_id.encode()
        try:
            return self._messages.produce(self._topic, key, record.value, record.headers)
        except Exception as error:  # noqa: BLE001 - it is that of one record
            return failed(error)


class KeptSink:
    """``OutcomeSink``: rows of the store, which ``client.outcomes`` reads."""

    in_order = True

    def __init__(self, kept: KeptOutcomes, clock: Clock, retention_ms: int) -> None:
        self._kept, self._clock, self._retention_ms = kept, clock, retention_ms

    def put(self, records: Sequence[OutcomeRecord]) -> "Sequence[Future[None]]":
        """Append all in one write."""
        values = [each.value for each in records]
        written = self._kept.keep_outcomes(values, self._clock.now_ms(), self._retention_ms)
        return [written] * len(records)

    def close(self) -> None:
        """Do nothing: the stores are closed by who opened them."""
