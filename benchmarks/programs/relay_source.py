"""Produces messages to the relay's in-topic at a steady rate, when told to go."""

import random
import time

from confluent_kafka import Producer

from benchmarks.messages import KEYS, value_of
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import wall_s
from hourhand import Settings
from hourhand.actors.model.values.instant import format_instant

_DELAYS_MS = (3_000, 10_000)
_STEP_S = 0.005
_ACKNOWLEDGED_S = 120.0


def main() -> None:
    """Get ready, wait for the word, and produce."""
    spec = told()
    settings = Settings(**spec["settings"])
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "acks": "all",
            "linger.ms": 2,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(settings.relay.in_topic, timeout=10)
    tell("ready")
    if wait_for_command("go"):
        began_s = wall_s()
        _produce(producer, settings, spec["count"], spec["rate"])
        if producer.flush(_ACKNOWLEDGED_S):
            raise RuntimeError("the broker did not acknowledge every message")
        tell("done", began_s=began_s, ended_s=wall_s())


def _produce(producer: Producer, settings: Settings, count: int, rate: float) -> None:
    topic, relay = settings.relay.in_topic, settings.relay
    rng = random.Random(17)
    began_s = time.monotonic()
    number = 0
    while number < count:
        upto = min(count, int((time.monotonic() - began_s) * rate) + 1)
        now_ms = int(wall_s() * 1000)
        while number < upto:
            due_ms = now_ms + rng.randrange(*_DELAYS_MS)
            headers: list[tuple[str, str | bytes | None]] = [
                (relay.id_header, b"message-%d" % number),
                (relay.deadline_header, format_instant(due_ms).encode()),
            ]
            value = value_of(number, due_ms)
            producer.produce(topic, value, b"key-%d" % rng.randrange(KEYS), headers=headers)
            number += 1
        producer.poll(0)
        time.sleep(_STEP_S)


if __name__ == "__main__":
    main()
