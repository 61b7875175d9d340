"""Reads committed messages of the out-topic, and counts.

A message has appeared when the broker appended it, by the broker's own stamp, or when it is read
here: a transaction's messages are appended long before anybody may read them.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.figures import quantile
from benchmarks.messages import SETTLE_S, SHARES, number_and_deadline
from benchmarks.program import tell, told
from benchmarks.records import wall_s
from hourhand import Settings

_CURVE = tuple(1 - 10 ** (-step / 20) for step in range(81))
_BATCH = 1_000
_READ_S = 0.2
"""As long as a batch of the broker's stamps may gather; what is timed here is read one by one."""
_ANSWER_S = 10.0
_FIRST_S = 300.0
_IDLE_S = 30.0
"""Seconds of silence after which no further message is waited for."""
_AFTER_S = 2.0
"""Seconds of reading after all messages are there, to find doubled ones."""


def main() -> None:
    """Read until all messages are there, or no more come."""
    spec = told()
    settings = Settings(**spec["settings"])
    topic = settings.relay.out_topic
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": f"{topic}-sink",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **_FETCHED[spec["clock"]],
        }
    )
    partitions = [TopicPartition(topic, each) for each in range(settings.topic.partitions)]
    for each in partitions:
        # Earlier messages of the topic were not passed on.
        each.offset = consumer.get_watermark_offsets(each, _ANSWER_S)[1]
    consumer.assign(partitions)
    tell("ready")
    batch, appeared_ms = _CLOCKS[spec["clock"]]
    seen: Counter[int] = Counter()
    late_ms: list[tuple[int, float]] = []
    first_judged = spec["rate"] * SETTLE_S
    ends_s = time.monotonic() + _FIRST_S
    while time.monotonic() < ends_s:
        for message in consumer.consume(batch, _READ_S):
            if message.error() is not None:
                raise RuntimeError(f"the out-topic cannot be read: {message.error()}")
            number, due_ms = number_and_deadline(message.value())
            seen[number] += 1
            late_ms.append((number, appeared_ms(message) - due_ms))
            ends_s = time.monotonic() + (_AFTER_S if len(seen) == spec["count"] else _IDLE_S)
    consumer.close()
    tell("done", **_counted(spec["count"], seen, late_ms, first_judged))


def _appended_ms(message: Any) -> float:
    stamp_ms: int = message.timestamp()[1]
    return stamp_ms


def _read_ms(_message: Any) -> float:
    return wall_s() * 1000


_CLOCKS: dict[str, tuple[int, Callable[[Any], float]]] = {
    "appended": (_BATCH, _appended_ms),
    "read": (1, _read_ms),
}
"""Messages in one read, and the function that tells when one appeared, in UTC milliseconds."""
_FETCHED: dict[str, dict[str, Any]] = {
    "appended": {"fetch.min.bytes": 1_000_000, "fetch.wait.max.ms": 200},
    "read": {},
}
"""If the broker's stamp counts, the sink leaves processor time to the measured processes."""


def _counted(
    count: int, seen: Counter[int], late_ms: Sequence[tuple[int, float]], first_judged: int
) -> dict[str, Any]:
    """Return what appeared, and how late the messages from ``first_judged`` on were."""
    judged_ms = sorted(late for number, late in late_ms if number >= first_judged)
    return {
        "sent": count,
        "missing": count - len(seen),
        "early": sum(late < 0 for _, late in late_ms),
        "doubled": seen.total() - len(seen),
        **{name: quantile(judged_ms, share) for name, share in SHARES.items()},
        "curve": [(share, quantile(judged_ms, share)) for share in _CURVE],
    }


if __name__ == "__main__":
    main()
