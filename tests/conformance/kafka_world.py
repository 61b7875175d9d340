"""The log suite's world on a real broker, for this suite and for Kafka's own tests."""

import itertools
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any, Literal

import tenacity
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka.log import KafkaLog
from hourhand.scheduler.adapters.kafka.topics import create_topics, topic_identity
from hourhand.scheduler.adapters.kafka.writer import KafkaWriter
from hourhand.scheduler.configuration.settings import (
    ClientSettings,
    GroupSettings,
    KafkaSettings,
    Settings,
    TopicSettings,
)
from tests.conformance.log_bench import QUICK, WAIT_S

RECORD_BYTES_MAX = 1_000_000
RESTARTED_MS = 120_000
"""By then a broker that was killed runs again, on a busy machine too."""
GroupProtocol = Literal["classic", "consumer"]


class MachineClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Return the wall clock."""
        return time.time_ns() // 1_000_000  # noqa: TID251

    def monotonic_ms(self) -> float:
        """Return the clock that only measures."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000


class KafkaTopic:
    """A pair of topics of its own."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock

    def open_log(self, group: GroupSettings = QUICK) -> KafkaLog:
        """Open a member, not yet subscribed, under the protocol of this world."""
        kept = {"id": self.settings.group.id, "protocol": self.settings.group.protocol}
        group = group.model_copy(update=kept)
        return KafkaLog(self.settings.model_copy(update={"group": group}), self._clock)

    def open_writer(self) -> KafkaWriter:
        """Open a writer."""
        return KafkaWriter(self.settings, SystemClock())

    def dead_letters(self, count: int) -> Sequence[LogRecord]:
        """Read the dead-letter topic with a plain consumer, which is not ours."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.settings.kafka.bootstrap_servers,
                "group.id": "letters",
                "auto.offset.reset": "earliest",
            }
        )
        partitions = range(self.settings.topic.partitions)
        topic = self.settings.topic.dead_letter
        consumer.assign([TopicPartition(topic, each) for each in partitions])
        letters: list[LogRecord] = []
        deadline = time.monotonic() + WAIT_S
        while len(letters) < count and time.monotonic() < deadline:
            letters.extend(map(_letter, consumer.consume(count - len(letters), 0.2)))
        consumer.close()
        assert len(letters) == count
        return letters

    def append_foreign(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Append with a plain producer, which is not ours."""
        producer = Producer({"bootstrap.servers": self.settings.kafka.bootstrap_servers})
        producer.produce(
            self.settings.topic.name, value, key, partition=partition, headers=list(headers)
        )
        assert producer.flush(WAIT_S) == 0

    def trim(self, partition: int, before_offset: int) -> None:
        """Delete records by the broker's own request, which moves the start of the log."""
        admin = AdminClient({"bootstrap.servers": self.settings.kafka.bootstrap_servers})
        cut = TopicPartition(self.settings.topic.name, partition, before_offset)
        for deleted in admin.delete_records([cut]).values():
            assert deleted.result(WAIT_S).low_watermark == before_offset

    def make_anew(self) -> None:
        """Delete the topic and make it again; a broker forgets it a moment after it said so."""
        name = self.settings.topic.name
        before = topic_identity(self.settings, name)
        admin = AdminClient({"bootstrap.servers": self.settings.kafka.bootstrap_servers})
        admin.delete_topics([name])[name].result(WAIT_S)
        tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda made: name not in made),
            stop=tenacity.stop_after_delay(WAIT_S),
            wait=tenacity.wait_fixed(0.1),
            sleep=tenacity.sleep_using_event(threading.Event()),
        )(create_topics, self.settings)
        assert topic_identity(self.settings, name) != before

    def close(self) -> None:
        """The topics go with the broker."""


def _letter(message: Any) -> LogRecord:
    assert message.error() is None
    return LogRecord(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        message.headers() or (),
    )


class KafkaWorld:
    """Topics on one cluster."""

    members_max = 2
    has_lease_expiry = True
    record_bytes_max = RECORD_BYTES_MAX
    bounds_batches = True
    loses_last_records = True
    topics_have_ids = True

    def __init__(self, bootstrap_servers: str, protocol: GroupProtocol = "classic") -> None:
        """``protocol`` is that of every group."""
        self._protocol = protocol
        self.clock: Clock = MachineClock()
        self._bootstrap_servers = bootstrap_servers
        self._numbers = itertools.count()
        self._name = uuid.uuid4().hex[:8]
        self.group_id = self._name
        """Of every topic's group: others may test on the same broker meanwhile."""

    def create_topic(self, partitions: int) -> KafkaTopic:
        """Create a topic nobody has seen."""
        settings = self.settings(f"{self._name}-{next(self._numbers)}", partitions)
        create_topics(settings)
        return KafkaTopic(settings, self.clock)

    def settings(self, name: str, partitions: int = 1) -> Settings:
        """Return settings for a topic, which need not exist."""
        return Settings(
            log="kafka",
            topic=TopicSettings(name=name, dead_letter=f"{name}-dead", partitions=partitions),
            group=QUICK.model_copy(update={"id": self.group_id, "protocol": self._protocol}),
            kafka=KafkaSettings(
                bootstrap_servers=self._bootstrap_servers,
                connect_timeout_ms=30_000,
                delivery_timeout_ms=RESTARTED_MS,
            ),
            client=ClientSettings(record_bytes_max=RECORD_BYTES_MAX),
        )
