"""``send_later`` where Kafka alone stores what waits: the message goes straight to its bucket.

Decides what is refused: delays beyond what retention covers, and everything that is no message.
It stands in the place of the task log's writer, so that a client of this storage says clearly what
it cannot do.
"""

from concurrent.futures import Future

from actors.model.codec import Headers, LogRecord
from actors.model.errors import InvalidTask
from actors.model.key import TaskKey
from actors.ports.clock import Clock
from actors.ports.log import Position
from scheduler.configuration.settings import Settings
from scheduler.futures.future_group import FutureGroup
from scheduler.futures.light_future import LightFuture
from scheduler.kafka_only.layouts import LayoutBook
from scheduler.kafka_only.ports import BucketStorage
from scheduler.kafka_only.slip import Slip, pending
from scheduler.records.receipt import Receipt
from scheduler.services.own_tasks import unique_in_order
from scheduler.services.relay.delivery import Message, ordering_id_of


class MessageSender:
    """Appends messages to the pending topic; implements ``LogWriter`` by refusing tasks.

    Raises SettingsInvalid where retention is too short, TopicMissing and LogUnavailable.
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

    def send(self, message: Message, due_ms: int, now_ms: int) -> "Future[Receipt]":
        """Append a message that is due at a time; InvalidTask where that is too far ahead."""
        receipt = LightFuture[Receipt]()
        if due_ms - now_ms > self._delay_ms_max:
            receipt.set_exception(
                InvalidTask(
                    f"cannot send in {due_ms - now_ms} ms: buckets.longest_delay_ms and the pending"
                    f" topic's retention cover {self._delay_ms_max} ms"
                )
            )
            return receipt
        origin = unique_in_order(now_ms)
        record = pending(
            self._topic, self._book.current, Slip(due_ms, 0, message.topic, origin), message, now_ms
        )
        key = TaskKey(due_ms, ordering_id_of(message.key, origin), origin)

        def appended(done: "Future[Position]") -> None:
            error = done.exception()
            if error is not None:
                receipt.set_exception(error)
            else:
                receipt.set_result(Receipt(key, *done.result()))

        assert record.partition is not None
        assert self._writer is not None
        self._writer.append_message(
            record.partition, record.key, record.value, record.headers
        ).add_done_callback(appended)
        return receipt

    def partition_count(self) -> int:
        """Return 1: there are no tasks to spread."""
        return 1

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        """Refuse a task or a command."""
        del partition, key, value, headers
        return _refused()

    def begin_group(self) -> FutureGroup:
        """Return a group that refuses every task."""
        return FutureGroup(self.append, self.partition_count())

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Refuse: nodes put aside what cannot be passed on."""
        del record, reason
        return _refused()

    def flush(self, timeout_ms: int) -> int:
        """Return 0: ``close`` waits for what is unacknowledged."""
        del timeout_ms
        return 0

    def close(self) -> None:
        """Wait (bounded) for what was sent, then let go of connections."""
        self._book.close()
        if self._writer is not None:
            self._writer.close()
        self._admin.close()


def _refused() -> "Future[Position]":
    refused = LightFuture[Position]()
    refused.set_exception(
        InvalidTask(
            "store 'kafka' keeps messages of send_later and the relay only: it has no index, so"
            " tasks, commands (cancel, reschedule, run-now) and schedules need store 'cassandra'"
            " or 'embedded'"
        )
    )
    return refused
