"""Which adapter fills which port: the one module that knows, from the settings alone.

Drivers are imported inside the functions, so an embedded installation never loads Kafka's or
Cassandra's, and ``import scheduler`` loads none.  Nothing here keeps what it opened: whoever
asks for a port closes it.
"""

import logging
from collections.abc import Callable

from actors.model.errors import SettingsInvalid
from actors.ports.clock import Clock
from actors.ports.log import GroupOffsets, LogWriter, TaskLog
from actors.ports.store import Stores
from actors.ports.telemetry import Feed, Telemetry
from scheduler.configuration.optional_dependencies import opens_drivers
from scheduler.configuration.settings import Settings
from scheduler.observe.observation import Observation
from scheduler.ports.bulk import BulkStore
from scheduler.ports.dead_letters import LogView
from scheduler.ports.messages import MessageWriter, TopicReader
from scheduler.ports.transfer import LogTail, TransferStore

logger = logging.getLogger("hourhand.wiring")

_GATHERED = {"fetch.min.bytes": "1000000", "fetch.wait.max.ms": "50"}
"""Messages of the in-topic are fetched together: they wait for seconds, as a rule, and a fetch for
each costs the broker as much as the message does."""


def refuse_tasks(settings: Settings) -> None:
    """Raise SettingsInvalid where Kafka alone is the storage: it keeps messages only."""
    if settings.store == "kafka":
        raise SettingsInvalid(
            "store is 'kafka', which keeps messages of send_later and the relay only and no tasks:"
            " run hourhand relay --storage kafka, or set store to 'cassandra' or 'embedded'"
        )


def open_clock() -> Clock:
    """Return the machine's clocks."""
    from scheduler.adapters.clock import SystemClock

    return SystemClock()


@opens_drivers
def open_log(settings: Settings, clock: Clock) -> TaskLog:
    """Open the reading side of the log that ``settings.log`` names; subscribes to nothing.

    What the log's operator should change is logged as a warning.  Raises LogUnavailable,
    TopicMissing, and for an embedded folder in use FolderLocked.
    """
    if settings.log == "kafka":
        from scheduler.adapters.kafka.log import KafkaLog
        from scheduler.adapters.kafka.topics import topic_warnings

        for warning in topic_warnings(settings):
            logger.warning("%s", warning)
        return KafkaLog(settings, clock)
    from scheduler.adapters.embedded.log import EmbeddedLog

    return EmbeddedLog(settings, clock)


@opens_drivers
def open_writer(settings: Settings) -> LogWriter:
    """Open the appending side of the log that ``settings.log`` names."""
    if settings.log == "kafka":
        from scheduler.adapters.kafka.writer import KafkaWriter

        return KafkaWriter(settings)
    from scheduler.adapters.embedded.writer import EmbeddedWriter

    return EmbeddedWriter(settings)


@opens_drivers
def open_stores(settings: Settings) -> Stores:
    """Open the stores that ``settings.store`` names; StoreUnavailable, SchemaMissing."""
    refuse_tasks(settings)
    if settings.store == "cassandra":
        from scheduler.adapters.cassandra.stores import open_stores as open_cassandra

        return open_cassandra(settings)
    from scheduler.adapters.embedded.stores import open_stores as open_embedded

    return open_embedded(settings)


@opens_drivers
def open_log_view(settings: Settings) -> LogView:
    """Open the log for looking at its ends and its dead letters."""
    if settings.log == "kafka":
        from scheduler.adapters.kafka.dead_letters import KafkaLogView

        return KafkaLogView(settings)
    from scheduler.adapters.embedded.dead_letters import EmbeddedLogView

    return EmbeddedLogView(settings)


@opens_drivers
def open_group_offsets(settings: Settings) -> GroupOffsets:
    """Open the group's offsets, which only a log of servers has; TopicMissing."""
    from scheduler.adapters.kafka.group_offsets import KafkaGroupOffsets

    return KafkaGroupOffsets(settings)


@opens_drivers
def open_messages(settings: Settings) -> MessageWriter:
    """Open a producer for topics of others; nothing is asked of the broker yet."""
    from scheduler.adapters.kafka.writer import KafkaMessages

    return KafkaMessages(settings)


@opens_drivers
def open_feed(settings: Settings, clock: Clock) -> Feed | None:
    """Open what tells of tasks' lives, where ``events.topic`` names a topic; TopicMissing."""
    topic = settings.events.topic
    if topic is None:
        return None
    from scheduler.adapters.kafka.topics import require_topic
    from scheduler.adapters.lifecycle import LifecycleFeed

    require_topic(settings, topic)
    return LifecycleFeed(open_messages(settings), topic, clock)


def open_told_stores(settings: Settings, clock: Clock) -> Stores:
    """Open the stores for a writer outside a node, who tells of what it writes if asked to."""
    feed = open_feed(settings, clock)
    if feed is None:
        return open_stores(settings)
    try:
        stores = open_stores(settings)
    except BaseException:
        feed.close()
        raise
    return feed.around(stores)


@opens_drivers
def open_topic_reader(settings: Settings, topic: str) -> TopicReader:
    """Open a reader of any topic's records, by offset, outside every group."""
    from scheduler.adapters.kafka.reading import KafkaTopicReader

    return KafkaTopicReader(settings, topic)


def relay_log_settings(settings: Settings) -> Settings:
    """Return the settings under which the relay's in-topic is read as a log of its own."""
    relay = settings.relay
    topic = settings.topic.model_copy(update={"name": relay.in_topic})
    group = settings.group.model_copy(update={"id": relay.group_id})
    chosen = {**_GATHERED, **settings.kafka.consumer_properties}
    kafka = settings.kafka.model_copy(update={"consumer_properties": chosen})
    return settings.model_copy(
        update={"log": "kafka", "topic": topic, "group": group, "kafka": kafka}
    )


@opens_drivers
def topic_identity(settings: Settings, topic: str) -> str:
    """Return what tells a topic from one of its name that was deleted; raises TopicMissing."""
    from scheduler.adapters.kafka.topics import topic_identity

    return topic_identity(settings, topic)


@opens_drivers
def create_relay_topics(settings: Settings) -> list[str]:
    """Create the relay's in-topic and out-topic where they are missing; return what was made."""
    from scheduler.adapters.kafka.topics import create_topics

    made: list[str] = []
    for name in (settings.relay.in_topic, settings.relay.out_topic):
        topic = settings.topic.model_copy(update={"name": name})
        made += create_topics(settings.model_copy(update={"topic": topic}))
    return made


@opens_drivers
def open_bulk(settings: Settings) -> BulkStore:
    """Open the stores for jobs over whole buckets; raises as ``open_stores``."""
    refuse_tasks(settings)
    if settings.store == "cassandra":
        from scheduler.adapters.cassandra.bulk import open_bulk as open_cassandra

        return open_cassandra(settings)
    from scheduler.adapters.embedded.bulk import open_bulk as open_embedded

    return open_embedded(settings)


@opens_drivers
def open_transfer(settings: Settings) -> TransferStore:
    """Open the store for a job that moves all of it; raises as ``open_stores``."""
    refuse_tasks(settings)
    if settings.store == "cassandra":
        from scheduler.adapters.cassandra.transfer import open_transfer as open_cassandra

        return open_cassandra(settings)
    from scheduler.adapters.embedded.transfer import EmbeddedTransfer

    return EmbeddedTransfer(settings)


@opens_drivers
def open_tail(settings: Settings) -> LogTail:
    """Open the log for reading outside its group; TopicMissing, InvalidInput without a folder."""
    if settings.log == "kafka":
        from scheduler.adapters.kafka.group_offsets import KafkaTail

        return KafkaTail(settings)
    from scheduler.adapters.embedded.transfer import EmbeddedTail

    return EmbeddedTail(settings)


def keep_nodes_out(settings: Settings) -> Callable[[], None]:
    """Hold the lock of an embedded folder, which has one writer at a time; return its release.

    Raises FolderLocked where a node works there.  A store on servers needs nobody to stop.
    """
    if settings.store == "cassandra":
        return lambda: None
    from scheduler.adapters.embedded.folder import FolderLock

    return FolderLock(settings.embedded.folder).release


@opens_drivers
def migrate(settings: Settings) -> list[str]:
    """Create what is missing of tables and topics; return what was done, one line each.

    Safe to run twice, and from two machines at once.
    """
    refuse_tasks(settings)
    done: list[str] = []
    if settings.store == "cassandra":
        from scheduler.adapters.cassandra.migrate import migrate as migrate_cassandra

        done += migrate_cassandra(settings)
    else:
        done.append("the embedded store makes its tables itself: nothing to do")
    if settings.log == "kafka":
        from scheduler.adapters.kafka.topics import create_topics

        done += create_topics(settings)
    else:
        done.append("the embedded log makes its folder itself: nothing to do")
    if settings.events.topic is not None:
        from scheduler.adapters.kafka.topics import create_events_topic

        done += create_events_topic(settings)
    return done


def build_telemetry(settings: Settings) -> Telemetry:
    """Build what takes note of events where nobody asked for metrics: the program's log."""
    del settings
    from scheduler.adapters.telemetry import LoggingTelemetry

    return LoggingTelemetry()


def observe(settings: Settings, clock: Clock, telemetry: Telemetry) -> Observation:
    """Return what observes a node as ``settings.observe`` says, besides ``telemetry``.

    Raises SettingsInvalid for what is not installed.
    """
    if not (settings.observe.counts or settings.observe.traces):
        return Observation(telemetry)
    from scheduler.adapters.observing.opening import open_observation

    return open_observation(settings.observe, clock, telemetry)
