"""``MessageWriter`` on Kafka: the producer of the task log, writing to topics of others."""

from concurrent.futures import Future

from actors.model.codec import Headers
from actors.ports.log import Position
from scheduler.adapters.kafka.writer import KafkaWriter
from scheduler.futures.light_future import LightFuture


class KafkaMessages(KafkaWriter):
    """An idempotent producer for any topic; nothing is asked of the broker before a message."""

    linger_ms = 5

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Produce a message; an empty list of headers is the same as none to Kafka."""
        produced = LightFuture[None]()

        def acknowledged(done: "Future[Position]") -> None:
            error = done.exception()
            if error is None:
                produced.set_result(None)
            else:
                produced.set_exception(error)

        self._produce(topic, value, key, headers=headers).add_done_callback(acknowledged)
        return produced
