"""kafka_only: how late messages appear that wait in Kafka alone.

They come at a steady rate by ``send_later``, each due 0.05 to 1 s later; one node passes them on.
Lateness is the time at which a reader of committed records has a message less the time it was due,
on one clock.  What is missing, early or there twice is counted and told.

The broker is the measure's own.  It has done the same for two minutes before, as its compiler
takes about that, and its collector is one of short pauses: with the one that Java chooses on two
cores it stands still for tens of milliseconds every few seconds, which is the last thousandth.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from confluent_kafka.admin import AdminClient

from benchmarks.bench import Bench
from benchmarks.figures import Line
from benchmarks.messages import lines_of, passed_on, summary_of
from scheduler import Settings, wiring
from tests.servers.kafka import KafkaServer

MEASURES = ("kafka_only",)
RATE = 1_000
_PARTITIONS = 4
_SHORT_PAUSES = ("-XX:+UseSerialGC", "-Xmn24m")


def run(bench: Bench) -> list[Line]:
    """Have one node pass messages on, and look at what appears."""
    rate = min(RATE, max(bench.sizes.relay_rates))
    folder = bench.servers.folder / bench.servers.name("kafka-only")
    with KafkaServer(folder, java_options=_SHORT_PAUSES) as kafka:
        warming = replace(bench.uncounted(), sizes=bench.sizes.warming())
        found = _passed_on_at(warming, kafka, rate)
        bench.say(f"kafka_only, not counted: {summary_of(found)}")
        found = _passed_on_at(bench, kafka, rate)
    bench.say(f"kafka_only: {summary_of(found)}")
    return lines_of("kafka_only", found, judged=True)


def _passed_on_at(bench: Bench, kafka: KafkaServer, rate: int) -> dict[str, Any]:
    with _topics(bench, kafka.bootstrap_servers) as settings:
        programs = ("bucket_node", "bucket_source")
        return passed_on(bench, settings, rate, programs=programs, clock="read")


@contextlib.contextmanager
def _topics(bench: Bench, bootstrap_servers: str) -> Iterator[Settings]:
    """Make the topics, and remove them; no store is opened."""
    name = bench.servers.name("buckets")
    settings = Settings(
        log="kafka",
        store="kafka",
        kafka={"bootstrap_servers": bootstrap_servers},
        topic={"name": name, "dead_letter": f"{name}-letters", "partitions": _PARTITIONS},
        group={"id": name},
        relay={"in_topic": f"{name}-in", "out_topic": f"{name}-out"},
        buckets={"topic": name, "group_id": name},
    )
    made = [*wiring.migrate(settings), *wiring.create_relay_topics(settings)]
    try:
        yield settings
    finally:
        admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
        for removed in admin.delete_topics(made).values():
            removed.result(30)
