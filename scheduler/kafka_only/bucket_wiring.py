"""Opens storage with Kafka alone: which adapter fills which of its ports.

Kafka's driver is imported inside the functions, and no store's ever.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actors.ports.clock import Clock
from scheduler.configuration.optional_dependencies import opens_drivers
from scheduler.configuration.settings import Settings
from scheduler.kafka_only.ports import BucketStorage


@opens_drivers
def open_buckets(settings: Settings, clock: Clock) -> BucketStorage:
    """Open storage with Kafka alone; nothing is asked of the broker yet."""
    from scheduler.kafka_only.kafka.pending import KafkaBuckets

    return KafkaBuckets(settings, clock)


@opens_drivers
def create_bucket_topics(settings: Settings) -> list[str]:
    """Create the topics that are missing, and return their names; LogUnavailable."""
    from scheduler.kafka_only.kafka.pending_topics import create_pending_topics

    return create_pending_topics(settings)


@contextmanager
def open_marks(settings: Settings) -> Iterator[Callable[[int], bytes | None]]:
    """Yield what reads the last marker of a partition; it raises LogUnavailable."""
    from scheduler.kafka_only.kafka.tails import TailReader

    reader = TailReader(settings, settings.buckets.marker_topic)
    try:
        yield reader.last
    finally:
        reader.close()
