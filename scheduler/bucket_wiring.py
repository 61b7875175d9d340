"""Opens storage with Kafka alone, and refuses what it cannot keep; the wiring's other part.

Kafka's driver is imported inside the functions, and no store's ever.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actors.model.errors import SettingsInvalid
from actors.ports.clock import Clock
from actors.ports.transactions import BucketStorage
from scheduler.extras import opens_drivers
from scheduler.settings import Settings


@opens_drivers
def open_buckets(settings: Settings, clock: Clock) -> BucketStorage:
    """Open storage with Kafka alone; nothing is asked of the broker yet."""
    from scheduler.adapters.kafka.pending import KafkaBuckets

    return KafkaBuckets(settings, clock)


@opens_drivers
def create_bucket_topics(settings: Settings) -> list[str]:
    """Create the topics that are missing, and return their names; LogUnavailable."""
    from scheduler.adapters.kafka.pending_topics import create_pending_topics

    return create_pending_topics(settings)


def refuse_tasks(settings: Settings) -> None:
    """Raise SettingsInvalid where Kafka alone is the storage: it keeps messages only."""
    if settings.store == "kafka":
        raise SettingsInvalid(
            "store is 'kafka', which keeps messages of send_later and the relay only and no tasks:"
            " run hourhand relay --storage kafka, or set store to 'cassandra' or 'embedded'"
        )


@contextmanager
def open_marks(settings: Settings) -> Iterator[Callable[[int], bytes | None]]:
    """Yield what reads the last marker of a partition; it raises LogUnavailable."""
    from scheduler.adapters.kafka.tails import TailReader

    reader = TailReader(settings, settings.buckets.marker_topic)
    try:
        yield reader.last
    finally:
        reader.close()
