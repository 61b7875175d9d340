"""kafka_only, kafka_relay: how late messages appear that wait in Kafka alone.

They come at a steady rate; one node passes them on: 1,000 a second by ``send_later``, each due
0.05 to 1 s later, and 4,000 a second through the relay's in-topic, each due 3 to 10 s later and
moved from bucket to bucket until then, 16 partitions of either kind.  Lateness is the time at which
a reader of committed records has a message less the time it was due, on one clock.  Missing,
early and doubled messages are counted and shown.

The node runs on one core, as that of ``relay_1k`` does.  The broker is the family's own.  It is
warmed with the larger load for a minute or two.  Its collector has short pauses: the one that Java
chooses on two cores stops it for tens of milliseconds every few seconds, which is the last
thousandth.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient

from benchmarks.bench import Bench
from benchmarks.figures import Line
from benchmarks.messages import lines_of, passed_on, summary_of, touch
from benchmarks.servers import KAFKA_OF_SHORT_PAUSES
from hourhand import Settings
from hourhand.scheduler import wiring
from hourhand.scheduler.wiring import create_bucket_topics
from tests.servers.kafka import KafkaServer

MEASURES = ("kafka_only", "kafka_relay")


class _Load(NamedTuple):
    """The load of one measure."""

    rate: int
    partitions: int
    source: str


_LOADS = {
    "kafka_only": _Load(1_000, 4, "bucket_source"),
    "kafka_relay": _Load(4_000, 16, "relay_source"),
}


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    wanted = {name: _load(bench, name) for name in MEASURES if name in bench.wanted}
    folder = bench.servers.folder / bench.servers.name("kafka-only")
    with KafkaServer(folder, java_options=KAFKA_OF_SHORT_PAUSES) as kafka:
        largest = max(wanted.values(), key=lambda load: load.rate)
        warmed = _passed_on(bench.warming(), kafka, largest)
        bench.say(f"kafka_only, not counted: {summary_of(warmed)}")
        return [
            line for name, load in wanted.items() for line in _measured(bench, kafka, name, load)
        ]


def _load(bench: Bench, name: str) -> _Load:
    load = _LOADS[name]
    return load._replace(rate=min(load.rate, max(bench.sizes.relay_rates)))


def _measured(bench: Bench, kafka: KafkaServer, name: str, load: _Load) -> list[Line]:
    """Have one node pass messages on, and look at what appears."""
    rounds = []
    for number in range(1, bench.sizes.relay_rounds + 1):
        rounds.append(_passed_on(bench, kafka, load))
        bench.say(f"round {number}: {name}: {summary_of(rounds[-1])}")
    return lines_of(name, rounds)


def _passed_on(bench: Bench, kafka: KafkaServer, load: _Load) -> dict[str, Any]:
    with _topics(bench, kafka.bootstrap_servers, load) as settings:
        programs = ("bucket_node", load.source)
        return passed_on(bench, settings, load.rate, programs=programs, clock="read")


@contextlib.contextmanager
def _topics(bench: Bench, bootstrap_servers: str, load: _Load) -> Iterator[Settings]:
    """Make the topics, and remove them; no store is opened."""
    name = bench.servers.name("buckets")
    settings = Settings(
        log="kafka",
        store="kafka",
        kafka={"bootstrap_servers": bootstrap_servers},
        topic={"name": name, "dead_letter": f"{name}-letters", "partitions": load.partitions},
        group={"id": name},
        relay={"in_topic": f"{name}-in", "out_topic": f"{name}-out"},
        buckets={"topic": name, "group_id": name},
    )
    made = [*create_bucket_topics(settings), *wiring.create_relay_topics(settings)]
    touch(settings, settings.relay.out_topic)
    try:
        yield settings
    finally:
        admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
        for removed in admin.delete_topics(made).values():
            removed.result(30)
