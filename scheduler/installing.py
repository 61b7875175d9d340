"""What a node opens before it is one: log, stores, and the number of partitions they agree on.

Decides the order in which things are opened, and that where one of them cannot be, none stays open.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from actors.model.errors import PartitionCountChanged
from actors.ports.clock import Clock
from actors.ports.log import LogWriter, TaskLog
from actors.ports.store import OwnershipStore, Stores
from actors.ports.telemetry import Telemetry
from scheduler import wiring
from scheduler.client.client import ClientPorts
from scheduler.configuration.settings import Settings
from scheduler.observe.composite_telemetry import CompositeTelemetry
from scheduler.observe.observation import Observation
from scheduler.ports.transfer import UNFINISHED
from scheduler.services.system_registry import SystemTaskRegistry, open_caller

AGREE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Installation:
    """What a node works with, each part wrapped by whoever is to be told of it."""

    clock: Clock
    observation: Observation
    telemetry: Telemetry
    writer: LogWriter
    stores: Stores
    log: TaskLog
    partition_count: int


def open_installation(settings: Settings, telemetry: Telemetry | None) -> Installation:
    """Open log and stores, and agree on the number of partitions; all of it or nothing."""
    clock = wiring.open_clock()
    observation = wiring.observe(settings, clock, telemetry or wiring.build_telemetry(settings))
    telemetry = observation.telemetry
    opened: list[Callable[[], None]] = []
    try:
        feed = wiring.open_feed(settings, clock)
        if feed is not None:
            opened.append(feed.close)
        writer = wiring.open_writer(settings)
        opened.append(writer.close)
        stores = observation.stores(wiring.open_stores(settings))
        opened.append(stores.close)
        count = agreed_partition_count(writer, stores.ownership, settings)
        log = observation.log(wiring.open_log(settings, clock))
        if feed is not None:
            stores, telemetry = feed.around(stores), CompositeTelemetry(telemetry, feed)
        writer = observation.writer(writer)
        return Installation(clock, observation, telemetry, writer, stores, log, count)
    except BaseException:
        for close in reversed(opened):
            close()
        raise


def system_tasks_of(
    settings: Settings, ports: ClientPorts, opened: Installation
) -> SystemTaskRegistry:
    """Return what runs system tasks."""
    observation = opened.observation
    return SystemTaskRegistry(
        settings=settings,
        stores=opened.stores,
        writer=opened.writer,
        partition_count=opened.partition_count,
        clock=ports.clock,
        telemetry=ports.telemetry,
        open_messages=lambda: observation.messages(wiring.open_messages(settings)),
        open_caller=partial(open_caller, settings.timers, ports.clock, observation.headers),
    )


def agreed_partition_count(writer: LogWriter, ownership: OwnershipStore, settings: Settings) -> int:
    """Return the topic's number of partitions, which the store was begun with too.

    Raises PartitionCountChanged where they differ: tasks would be looked for, and their
    ordering ids run, in the wrong partitions.
    """
    count = writer.partition_count()
    stored = ownership.agree_partition_count(count).result(timeout=AGREE_TIMEOUT_S)
    if stored == UNFINISHED:
        raise PartitionCountChanged(
            "the store is still being filled by `hourhand pipeline repartition` or `import`: run"
            " that job once more, to its end, before nodes start"
        )
    if stored != count:
        raise PartitionCountChanged(
            f"topic {settings.topic.name!r} has {count} partitions, but the store was begun"
            f" with {stored}, and the number is fixed for the life of a topic: use a topic with"
            f" {stored} partitions, or move to a new topic and keyspace with"
            " `hourhand pipeline repartition`"
        )
    return stored
