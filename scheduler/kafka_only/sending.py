"""``send_later`` with storage in Kafka alone: the message goes straight to its bucket.

Decides the bucket, and refuses delays beyond retention.
"""

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.kafka_only.envelope import Envelope, pending
from hourhand.scheduler.kafka_only.layouts import LayoutBook
from hourhand.scheduler.kafka_only.ports import BucketStorage
from hourhand.scheduler.runtime.light_future import LightFuture, failed, then
from hourhand.scheduler.services.relay.message import Message, ordering_id_of
from hourhand.scheduler.services.system.system_tasks import unique_in_order
from hourhand.scheduler.tasks.receipt import Receipt


class BucketSender:
    """Implements ``MessageSender``: appends messages to the pending topic.

    Raises SettingsInvalid if retention is too short, TopicMissing and LogUnavailable.
    """

    def __init__(self, storage: BucketStorage, settings: Settings, clock: Clock) -> None:
        self._topic = settings.buckets.topic
        self._clock = clock
        self._admin = storage.admin()
        self._writer = None
        try:
            self._delay_ms_max = self._admin.delay_ms_max()
            self._writer = storage.writer()
            self._book = LayoutBook(self._admin, settings.buckets.layout_topic, self._writer.knows)
        except BaseException:
            if self._writer is not None:
                self._writer.close()
            self._admin.close()
            raise

    def send(self, message: Message, due_ms: int, now_ms: int) -> "LightFuture[Receipt]":
        """Append a message that is due at a time; InvalidTask if that is too far ahead."""
        if due_ms - now_ms > self._delay_ms_max:
            return failed(
                InvalidTask(
                    f"cannot send in {due_ms - now_ms} ms: buckets.longest_delay_ms and the pending"
                    f" topic's retention cover {self._delay_ms_max} ms"
                )
            )
        origin = unique_in_order(now_ms)
        record = pending(
            self._topic,
            self._book.current,
            Envelope(due_ms, 0, message.topic, origin),
            message,
            now_ms,
        )
        key = TaskKey(due_ms, ordering_id_of(message.key, origin), origin)
        assert record.partition is not None, "a bucket is a partition"
        assert self._writer is not None, "it was opened with this"
        appended = self._writer.append_message(
            record.partition, record.key, record.value, record.headers
        )
        return then(appended, lambda position: Receipt(key, *position))

    def close(self) -> None:
        """Wait for unacknowledged messages, for a bounded time, then close connections."""
        self._book.close()
        if self._writer is not None:
            self._writer.close()
        self._admin.close()
