"""Which adapter fills which port, and in which order a node or a client is put together.

The one module that knows, from the settings alone.  ``build_node`` and ``build_client`` open,
observe and wrap; what they return needs nothing but to be run and closed.  Drivers are imported
inside the functions, so an embedded installation never loads Kafka's or Cassandra's, and
``import scheduler`` loads none.  Nothing here keeps what it opened: whoever asks for it closes it.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from actors.kernel.supervision import FailureListener
from actors.kernel.system import ThreadedSystem
from actors.model.errors import PartitionCountChanged, SettingsInvalid
from actors.ports.clock import Clock
from actors.ports.effects import Effects
from actors.ports.log import GroupOffsets, LogWriter, TaskLog
from actors.ports.runner import Runner
from actors.ports.store import OwnershipStore, Stores
from actors.ports.telemetry import Telemetry
from scheduler.adapters.clock import thread_ms
from scheduler.configuration.memory_limit import measures_of, tree_within_memory
from scheduler.configuration.optional_dependencies import opens_drivers, required_by
from scheduler.configuration.settings import Settings
from scheduler.executors.middleware import ExhaustedNews, MiddlewareStack
from scheduler.executors.user_executors import UserExecutors
from scheduler.futures.answers import answered
from scheduler.futures.sleeping import Sleeper
from scheduler.kafka_only.ports import BucketStorage
from scheduler.kafka_only.sending import BucketSender
from scheduler.node.fast_path import NodeRunner
from scheduler.node.lease import Lease
from scheduler.node.node import Node
from scheduler.node.node_limits import NodeLimits
from scheduler.node.watching import NodeWatch
from scheduler.observe.health import Dispatching, NodeProbes
from scheduler.observe.node_telemetry import NodeTelemetry
from scheduler.observe.observation import Observation
from scheduler.observe.processes import ChildState
from scheduler.observe.reporting import Reported, Reporter, hourhand_version
from scheduler.ports.bulk import BulkStore
from scheduler.ports.dead_letters import LogView
from scheduler.ports.lifecycle import LifecyclePublisher
from scheduler.ports.messages import MessageWriter, TopicReader
from scheduler.ports.transfer import UNFINISHED, LogTail, TransferStore
from scheduler.services.relay.sending import MessageSender
from scheduler.services.system_registry import SystemTaskRegistry, open_caller

if TYPE_CHECKING:
    from scheduler.adapters.telemetry import LoggingTelemetry

logger = logging.getLogger("hourhand.wiring")


@dataclass(frozen=True, slots=True)
class ClientPorts:
    """What a client works with; it closes them all."""

    writer: LogWriter | None
    """None where the storage keeps messages and no tasks."""
    open_stores: Callable[[], Stores]
    """Called at most once, when an outcome is first asked for."""
    clock: Clock
    telemetry: Telemetry
    sender: MessageSender | None = None
    """How messages of ``send_later`` wait; None for in tasks."""
    sleeper: Sleeper = field(default_factory=Sleeper)
    """How time passes for who waits for a task."""
    partition_count: int = 0
    """By which number records are placed; 0: as many as the topic has."""


@dataclass(frozen=True, slots=True)
class NodeParts:
    """A node that has joined its group and was not started, and what it works with."""

    client: ClientPorts
    """The node's own connections, which whoever uses them closes last."""
    node: Node
    observation: Observation
    probes: NodeProbes
    """What ``observation`` asks once it has begun."""
    reporter: Reporter
    system_tasks: SystemTaskRegistry
    watch: NodeWatch
    close: Callable[[], None]
    """Lets go of everything but the node's connections, what was made last first."""


def build_client(settings: Settings) -> ClientPorts:
    """Open what a client works with; LogUnavailable, TopicMissing."""
    clock = open_clock()
    telemetry = build_telemetry(settings)
    stores = partial(open_stores, settings)
    if settings.store == "kafka":
        sender = BucketSender(open_buckets(settings, clock), settings, clock)
        return ClientPorts(None, stores, clock, telemetry, sender)
    writer = observe(settings, clock, telemetry).writer(open_writer(settings))
    return ClientPorts(writer, stores, clock, telemetry)


def build_node(
    settings: Settings, executors: UserExecutors, telemetry: Telemetry | None = None
) -> NodeParts:
    """Open, observe and wrap what a node works with; where one part cannot be, none stays open.

    ``executors`` are the user's, ``telemetry`` is told of events in place of the
    program's log.  Raises OperatorError where something is wrong with the installation.
    """
    with ExitStack() as undo:
        told, tell_rest = _told(settings, telemetry)
        opened = _open_connections(settings, told, undo)
        clock, stores, observation = opened.clock, opened.stores, opened.observation
        counting = observation.telemetry
        closing = undo.enter_context(ExitStack())
        closing.callback(tell_rest)
        system_tasks = _system_tasks(settings, opened)
        closing.callback(system_tasks.close)
        systems = _Systems(clock)
        closing.callback(systems.close)
        lease = Lease(clock, opened.log.lease_ends_ms)
        _let_hear(executors.middleware, counting, closing)
        runner = NodeRunner(
            clock=clock,
            gate=lease.allows,
            telemetry=counting,
            settings=settings.tree.execution,
            limits=NodeLimits(
                *(executors.flow_rules, executors.limits, opened.partition_count, lease),
                lend=settings.lends_limits,
            ),
            require_codecs=executors.require_codecs,
        )
        lease.also_tell(runner.heed)
        closing.callback(runner.close)
        closing.callback(observation.close)
        effects = _effects(settings, opened, runner, system_tasks, executors)
        node = _joined_node(settings, opened, lease, effects, systems)
        reporter = _reporter(settings, opened, node, runner, executors)
        closing.callback(reporter.close)
        undo.pop_all()
    client = ClientPorts(opened.writer, lambda: stores, clock, counting)
    closing.callback((watch := NodeWatch(runner, clock, counting, thread_ms)).close)
    close, probes = closing.close, _probes(node, opened, systems)
    return NodeParts(client, node, observation, probes, reporter, system_tasks, watch, close)


def _told(settings: Settings, telemetry: Telemetry | None) -> tuple[Telemetry, Callable[[], None]]:
    """Return what is told of events, by default the log, and what has it tell its last numbers.

    That is called behind all that is closed: what is told meanwhile is counted, too.
    """
    if telemetry is not None:
        return telemetry, lambda: None
    log = build_telemetry(settings)
    return log, log.close


@dataclass(frozen=True, slots=True)
class _Connections:
    """What a node has open, each part wrapped by whoever observes it."""

    clock: Clock
    observation: Observation
    writer: LogWriter
    stores: Stores
    log: TaskLog
    partition_count: int


def _open_connections(settings: Settings, telemetry: Telemetry, undo: ExitStack) -> _Connections:
    """Open log and stores, which must agree on the number of partitions."""
    clock = open_clock()
    observation = observe(settings, clock, telemetry)
    feed = open_feed(settings, clock)
    if feed is not None:
        undo.callback(feed.close)
    writer = open_writer(settings)
    undo.callback(writer.close)
    stores = observation.stores(open_stores(settings))
    undo.callback(stores.close)
    partitions = agreed_partition_count(writer, stores.ownership, settings)
    log = observation.log(open_log(settings, clock, stores.installation_id))
    undo.callback(log.close)
    if feed is not None:
        stores = feed.publishing(stores)
        observation.telemetry.also_tell(feed)
    return _Connections(clock, observation, observation.writer(writer), stores, log, partitions)


def _effects(
    settings: Settings,
    opened: _Connections,
    runner: Runner,
    system_tasks: SystemTaskRegistry,
    executors: UserExecutors,
) -> Effects:
    observation = opened.observation
    observation.leave_out(executors.concurrency_per_id)
    return Effects(
        settings=tree_within_memory(settings),
        partition_count=opened.partition_count,
        stores=opened.stores,
        writer=opened.writer,
        runner=observation.runner(runner),
        telemetry=observation.telemetry,
        make_executor=system_tasks.factory_with(executors.make),
        concurrency_per_id=executors.concurrency_per_id,
        run_tasks_max=executors.run_tasks_max,
        flow_rules=executors.flow_rules,
    )


def _system_tasks(settings: Settings, opened: _Connections) -> SystemTaskRegistry:
    observation = opened.observation
    return SystemTaskRegistry(
        settings=settings,
        stores=opened.stores,
        writer=opened.writer,
        partition_count=opened.partition_count,
        clock=opened.clock,
        telemetry=observation.telemetry,
        open_messages=lambda: observation.messages(open_messages(settings)),
        open_caller=partial(open_caller, settings.timers, opened.clock, observation.headers),
        lease_ends_ms=opened.log.lease_ends_ms,
    )


def _joined_node(
    settings: Settings, opened: _Connections, lease: Lease, effects: Effects, systems: "_Systems"
) -> Node:
    """Return a node that joins its group, which may be refused, as by an embedded folder's lock."""
    return Node(
        log=opened.log,
        lease=lease,
        clock=opened.clock,
        effects=effects,
        make_system=systems.make,
        commit_interval_ms=settings.group.commit_interval_ms,
        lease_ms=settings.group.session_timeout_ms - settings.group.lease_margin_ms,
    )


def _let_hear(middleware: MiddlewareStack, counting: NodeTelemetry, closing: ExitStack) -> None:
    """Let middleware that wants to know hear of tasks which used up their attempts."""
    if middleware.hears_of_exhausted:
        news = ExhaustedNews(middleware)
        closing.callback(news.close)
        counting.also_tell(news)


def _reporter(
    settings: Settings,
    opened: _Connections,
    node: Node,
    runner: NodeRunner,
    executors: UserExecutors,
) -> Reporter:
    ends_ms, watch = opened.log.lease_ends_ms, node.sheet_watch
    limits = runner.limited, runner.declared_limits, runner.loans, runner.rates
    return Reporter(
        Reported(
            *(node.describe, ends_ms, lambda: watch.sheet, hourhand_version(), *limits),
            kinds_without_order=executors.concurrency_per_id,
        ),
        stores=opened.stores,
        runner=runner,
        telemetry=opened.observation.telemetry,
        clock=opened.clock,
        interval_ms=settings.admin.report_interval_ms,
    )


def _probes(node: Node, opened: _Connections, systems: "_Systems") -> NodeProbes:
    ownership = opened.stores.ownership
    return NodeProbes(
        dispatching=systems.dispatching,
        partitions=lambda: node.partitions,
        works=lambda: node.is_ready,
        lease_ends_ms=opened.log.lease_ends_ms,
        ask_store=lambda: ownership.read_watermark(min(node.partitions, default=0)),
        measures=measures_of(node.memory),
    )


class _Systems:
    """The actor systems that a node has made, the one at work last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: list[ThreadedSystem] = []

    def make(self, on_failure: FailureListener) -> ThreadedSystem:
        self._made.append(ThreadedSystem(self._clock, on_failure))
        return self._made[-1]

    def dispatching(self) -> Dispatching:
        return Dispatching(self._made[-1].rounds, self._made[-1].waiting_messages)

    def close(self) -> None:
        for each in self._made:
            each.close()


def agreed_partition_count(writer: LogWriter, ownership: OwnershipStore, settings: Settings) -> int:
    """Return the topic's number of partitions, which the store was begun with too.

    Raises PartitionCountChanged where they differ: tasks would be looked for, and their
    ordering ids run, in the wrong partitions.
    """
    count = writer.partition_count()
    stored = answered(ownership.agree_partition_count(count))
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


def observe(settings: Settings, clock: Clock, telemetry: Telemetry) -> Observation:
    """Return what observes a node as ``settings.observe`` says, besides ``telemetry``.

    Raises SettingsInvalid for what is not installed.
    """
    counting = NodeTelemetry(clock, telemetry)
    observation = Observation(counting)
    if settings.observe.counts:
        from scheduler.adapters.observing.counted import Counted

        observation = Counted(settings.observe, clock, counting)
    if settings.observe.traces:
        with required_by("the setting observe.traces"):
            from scheduler.adapters.observing.tracing import Traced
        observation = Traced(observation)
    return observation


def serve_processes(
    settings: Settings, children: Callable[[], Sequence[ChildState]]
) -> tuple[int, Callable[[], None]] | None:
    """Serve metrics and health of several node processes where ``observe.port`` says so.

    Returns the port and what closes it, and None where nothing is served.  Raises SettingsInvalid
    where the port is taken.
    """
    host, port = settings.observe.host, settings.observe.port
    if port is None:
        return None
    from scheduler.adapters.observing.probe_server import served
    from scheduler.adapters.observing.process_answers import ProcessAnswers

    server = served(host, port, ProcessAnswers(children), open_clock())
    return server.port, server.close


def build_telemetry(settings: Settings) -> "LoggingTelemetry":
    """Build what takes note of events where nobody asked for metrics: the program's log."""
    del settings
    from scheduler.adapters.telemetry import LoggingTelemetry

    return LoggingTelemetry(open_clock())


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
def open_log(settings: Settings, clock: Clock, installation_id: Callable[[], str]) -> TaskLog:
    """Open the reading side of the log that ``settings.log`` names; subscribes to nothing.

    What the log's operator should change is logged as a warning.  Raises LogUnavailable,
    TopicMissing, and for an embedded folder in use FolderLocked.
    """
    if settings.log == "kafka":
        from scheduler.adapters.kafka.log import KafkaLog
        from scheduler.adapters.kafka.topics import topic_warnings

        for warning in topic_warnings(settings):
            logger.warning("%s", warning)
        return KafkaLog(settings, clock, installation_id())
    from scheduler.adapters.embedded.log import EmbeddedLog

    return EmbeddedLog(settings, clock)


@opens_drivers
def open_writer(settings: Settings) -> LogWriter:
    """Open the appending side of the log that ``settings.log`` names."""
    if settings.log == "kafka":
        from scheduler.adapters.kafka.writer import KafkaWriter

        return KafkaWriter(settings, open_clock())
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

    return KafkaMessages(settings, open_clock())


@opens_drivers
def open_feed(settings: Settings, clock: Clock) -> LifecyclePublisher | None:
    """Open what tells of tasks' lives, where ``events.topic`` names a topic; TopicMissing."""
    topic = settings.events.topic
    if topic is None:
        return None
    from scheduler.adapters.kafka.topics import require_topic
    from scheduler.adapters.lifecycle import LifecycleFeed

    require_topic(settings, topic)
    return LifecycleFeed(open_messages(settings), topic, clock)


def open_published_stores(settings: Settings, clock: Clock) -> Stores:
    """Open the stores for a writer outside a node, who publishes what it writes if asked to."""
    feed = open_feed(settings, clock)
    if feed is None:
        return open_stores(settings)
    try:
        stores = open_stores(settings)
    except BaseException:
        feed.close()
        raise
    return feed.publishing(stores)


@opens_drivers
def open_topic_reader(settings: Settings, topic: str) -> TopicReader:
    """Open a reader of any topic's records, by offset, outside every group."""
    from scheduler.adapters.kafka.reading import KafkaTopicReader

    return KafkaTopicReader(settings, topic)


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
    if settings.store == "kafka":
        return create_bucket_topics(settings)
    done: list[str] = []
    if settings.store == "cassandra":
        from scheduler.adapters.cassandra.stores import bring_up_to_date

        done += bring_up_to_date(settings)
    elif not settings.embedded.completion_segments:
        open_stores(settings).close()
        done.append("the embedded store holds no completion segments: their entries are rows")
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
