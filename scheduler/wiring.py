"""Chooses the adapter of each port, and the order in which a node or a client is put together.

It is the only module that knows this, from the settings alone. ``ADAPTERS`` names the opener of
each port by technology. A port imports its adapter when it is opened, so an embedded installation
never loads the driver of Kafka or Cassandra, and ``import hourhand`` loads none. ``build_node``
and ``build_client`` open, observe and wrap; their results only need to be run and closed. The
caller closes everything that it opened here.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from hourhand.actors.kernel.supervision import FailureListener
from hourhand.actors.kernel.system import ThreadedSystem
from hourhand.actors.model.operations.oversight import all_judge_occurrences
from hourhand.actors.model.values.errors import PartitionCountChanged, SettingsInvalid
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.log import GroupOffsets, LogWriter, TaskLog
from hourhand.actors.ports.runner import Executable, Runner
from hourhand.actors.ports.store import OwnershipStore, Stores
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.adapters.clock import thread_ms
from hourhand.scheduler.configuration.cgroup import process_count
from hourhand.scheduler.configuration.memory_limit import measures_of, tree_within_memory
from hourhand.scheduler.configuration.optional_dependencies import opens_drivers
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.middleware import ExhaustedNews
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.kafka_only.ports import BucketStorage
from hourhand.scheduler.kafka_only.sending import BucketSender
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.lease import Lease
from hourhand.scheduler.node.limits.node_limits import NodeLimits
from hourhand.scheduler.node.node import Node
from hourhand.scheduler.node.processes.process_log import log_line
from hourhand.scheduler.node.processes.process_pool import PoolFigures
from hourhand.scheduler.node.runner import NodeRunner
from hourhand.scheduler.node.silence import SilenceLimits
from hourhand.scheduler.node.watching import NodeWatch
from hourhand.scheduler.node.workers.process_thread import ProcessThread
from hourhand.scheduler.node.workers.workers import NodeWorkers
from hourhand.scheduler.observe.health import Dispatching, NodeProbes
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.observe.observation import Observation
from hourhand.scheduler.observe.process_figures import pool_measures
from hourhand.scheduler.observe.processes import ChildState
from hourhand.scheduler.observe.reporting import Reported, Reporter, hourhand_version
from hourhand.scheduler.ports.bulk import BulkStore
from hourhand.scheduler.ports.dead_letters import LogView
from hourhand.scheduler.ports.lifecycle import LifecyclePublisher
from hourhand.scheduler.ports.messages import MessageWriter, TopicReader
from hourhand.scheduler.ports.outcomes import OutcomeSink
from hourhand.scheduler.ports.transfer import UNFINISHED, LogTail, TransferStore
from hourhand.scheduler.ports.user_places import ProcessPlan
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.runtime.every_node import EveryNode
from hourhand.scheduler.runtime.light_future import then
from hourhand.scheduler.runtime.sleeping import Sleeper
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.services.outcomes.outcome_feed import OutcomeFeed
from hourhand.scheduler.services.outcomes.outcome_sinks import KeptSink, TopicSink
from hourhand.scheduler.services.relay.sending import MessageSender
from hourhand.scheduler.services.system_registry import SystemTaskRegistry, open_caller
from hourhand.scheduler.tasks.placing import placing_count

if TYPE_CHECKING:
    from hourhand.scheduler.adapters.telemetry import LoggingTelemetry

_P = ParamSpec("_P")
_T = TypeVar("_T")


ADAPTERS: Mapping[tuple[str, str], str] = {
    ("log", "kafka"): "hourhand.scheduler.adapters.kafka.log:open_log",
    ("log", "embedded"): "hourhand.scheduler.adapters.embedded.log:open_log",
    ("writer", "kafka"): "hourhand.scheduler.adapters.kafka.writer:open_writer",
    ("writer", "embedded"): "hourhand.scheduler.adapters.embedded.writer:EmbeddedWriter",
    ("log view", "kafka"): "hourhand.scheduler.adapters.kafka.dead_letters:KafkaLogView",
    ("log view", "embedded"): "hourhand.scheduler.adapters.embedded.dead_letters:EmbeddedLogView",
    ("log tail", "kafka"): "hourhand.scheduler.adapters.kafka.group_offsets:KafkaTail",
    ("log tail", "embedded"): "hourhand.scheduler.adapters.embedded.transfer:EmbeddedTail",
    ("log migration", "kafka"): "hourhand.scheduler.adapters.kafka.topics:create_topics",
    ("log migration", "embedded"): "hourhand.scheduler.adapters.embedded.log:bring_up_to_date",
    ("stores", "cassandra"): "hourhand.scheduler.adapters.cassandra.stores:open_stores",
    ("stores", "embedded"): "hourhand.scheduler.adapters.embedded.stores:open_stores",
    ("bulk store", "cassandra"): "hourhand.scheduler.adapters.cassandra.bulk:open_bulk",
    ("bulk store", "embedded"): "hourhand.scheduler.adapters.embedded.bulk:open_bulk",
    ("transfer store", "cassandra"): "hourhand.scheduler.adapters.cassandra.transfer:open_transfer",
    (
        "transfer store",
        "embedded",
    ): "hourhand.scheduler.adapters.embedded.transfer:EmbeddedTransfer",
    (
        "store migration",
        "cassandra",
    ): "hourhand.scheduler.adapters.cassandra.stores:bring_up_to_date",
    ("store migration", "embedded"): "hourhand.scheduler.adapters.embedded.stores:bring_up_to_date",
    ("folder lock", "embedded"): "hourhand.scheduler.adapters.embedded.folder:lock_folder",
    ("group offsets", "kafka"): "hourhand.scheduler.adapters.kafka.group_offsets:KafkaGroupOffsets",
    ("messages", "kafka"): "hourhand.scheduler.adapters.kafka.writer:open_messages",
    ("topic reader", "kafka"): "hourhand.scheduler.adapters.kafka.reading:KafkaTopicReader",
    ("topic identity", "kafka"): "hourhand.scheduler.adapters.kafka.topics:topic_identity",
    ("topic there", "kafka"): "hourhand.scheduler.adapters.kafka.topics:require_topic",
    ("topics", "kafka"): "hourhand.scheduler.adapters.kafka.topics:create_topics",
    ("told topics", "kafka"): "hourhand.scheduler.adapters.kafka.topics:create_told_topics",
    ("lifecycle feed", "topic"): "hourhand.scheduler.adapters.lifecycle:publish_lives",
    ("buckets", "kafka"): "hourhand.scheduler.kafka_only.kafka.pending:KafkaBuckets",
    (
        "bucket topics",
        "kafka",
    ): "hourhand.scheduler.kafka_only.kafka.pending_topics:create_pending_topics",
    ("bucket marks", "kafka"): "hourhand.scheduler.kafka_only.kafka.tails:open_marks",
    ("metrics", "prometheus"): "hourhand.scheduler.adapters.observing.counted:Counted",
    ("traces", "opentelemetry"): "hourhand.scheduler.adapters.observing.tracing:traced",
}
"""The opener of each port, by port and technology: a module and its function or class, which takes
the settings first."""


class Port(Generic[_P, _T]):
    """A port that is opened by a call with the settings, which name the technology.

    Raises the adapter's errors, and DependencyMissing if its driver is not installed.
    """

    def __init__(self, name: str, technology_of: Callable[[Settings], str]) -> None:
        self.name = name
        self.technology_of = technology_of

    def __call__(self, settings: Settings, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        place = ADAPTERS[self.name, self.technology_of(settings)]
        opened: _T = _opened(settings, place, *args, **kwargs)
        return opened


@opens_drivers
def _opened(settings: Settings, place: str, *args: Any, **kwargs: Any) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)(settings, *args, **kwargs)


def refuse_tasks(settings: Settings) -> None:
    """Raise SettingsInvalid if Kafka alone is the storage: it keeps messages only."""
    if settings.store == "kafka":
        raise SettingsInvalid(
            "store is 'kafka', which keeps messages of send_later and the relay only and no tasks:"
            " run hourhand relay --storage kafka, or set store to 'cassandra' or 'embedded'"
        )


def _store_of(settings: Settings) -> str:
    refuse_tasks(settings)
    return settings.store


def _log_of(settings: Settings) -> str:
    return settings.log


def _always(technology: str) -> Callable[[Settings], str]:
    """Return the choice of a port that only one technology implements."""
    return lambda _settings: technology


open_log = Port[[Clock, Callable[[], str]], TaskLog]("log", _log_of)
"""Opens the reading side of the log; subscribes to nothing. Takes the clock, and a function that
returns the store's installation id. Settings that the log's operator should change are logged as
warnings. Raises LogUnavailable, TopicMissing, and for an embedded folder in use FolderLocked."""
open_writer = Port[[], LogWriter]("writer", _log_of)
"""Opens the appending side of the log."""
open_log_view = Port[[], LogView]("log view", _log_of)
"""Opens the log for reading its ends and its dead letters."""
open_tail = Port[[], LogTail]("log tail", _log_of)
"""Opens the log for reading outside its group; TopicMissing, InvalidInput without a folder."""
migrate_log = Port[[], list[str]]("log migration", _log_of)
"""Creates missing parts of the log; returns the changes, one line each."""
open_stores = Port[[], Stores]("stores", _store_of)
"""Opens the stores; StoreUnavailable, SchemaMissing."""
open_bulk = Port[[], BulkStore]("bulk store", _store_of)
"""Opens the stores for jobs over whole buckets; raises as ``open_stores``."""
open_transfer = Port[[], TransferStore]("transfer store", _store_of)
"""Opens the store for a job that moves all of it; raises as ``open_stores``."""
migrate_store = Port[[], list[str]]("store migration", _store_of)
"""Creates missing parts of the store; returns the changes, one line each."""
lock_folder = Port[[], Callable[[], None]]("folder lock", _always("embedded"))
"""Locks the folder for its only writer and returns a function that unlocks it; FolderLocked."""
open_group_offsets = Port[[], GroupOffsets]("group offsets", _always("kafka"))
"""Opens the group's offsets, which only a log on servers has; TopicMissing."""
open_messages = Port[[], MessageWriter]("messages", _always("kafka"))
"""Opens a producer for topics of others; no request is sent yet."""
open_topic_reader = Port[[str], TopicReader]("topic reader", _always("kafka"))
"""Opens a reader of any topic's records, by offset, outside every group."""
topic_identity = Port[[str], str]("topic identity", _always("kafka"))
"""Returns the topic's id, which a new topic of its name does not share; raises TopicMissing."""
require_topic = Port[[str], None]("topic there", _always("kafka"))
"""Raises TopicMissing if a topic does not exist."""
create_topics = Port[[], list[str]]("topics", _always("kafka"))
"""Creates the task topic and its dead-letter topic if they are missing; returns their names."""
create_told_topics = Port[[], list[str]]("told topics", _always("kafka"))
"""Creates missing topics of events and outcomes, and returns their names; LogUnavailable."""
publish_lives = Port[[MessageWriter, Clock], LifecyclePublisher]("lifecycle feed", _always("topic"))
"""Returns a publisher of lifecycle events."""
open_buckets = Port[[Clock], BucketStorage]("buckets", _always("kafka"))
"""Opens storage with Kafka alone; no request is sent yet."""
create_bucket_topics = Port[[], list[str]]("bucket topics", _always("kafka"))
"""Creates missing topics, and returns their names; LogUnavailable."""
open_marks = Port[[], AbstractContextManager[Callable[[int], bytes | None]]](
    "bucket marks", _always("kafka")
)
"""Returns a context with a function that reads a partition's last marker; it raises
LogUnavailable."""
counted = Port[[Clock, NodeTelemetry], Observation]("metrics", _always("prometheus"))
"""Returns an observation that counts the events of a node."""
traced = Port[[Clock, Observation], Observation]("traces", _always("opentelemetry"))
"""Returns an observation that traces tasks, and passes everything on to the one behind it."""


@dataclass(frozen=True, slots=True)
class ClientPorts:
    """The ports of a client; it closes them all."""

    writer: LogWriter | None
    """None if the storage keeps messages and no tasks."""
    open_stores: Callable[[], Stores]
    """Called at most once, for the first read of an outcome."""
    clock: Clock
    telemetry: Telemetry
    sender: MessageSender | None = None
    """Stores messages of ``send_later``; None to store them in tasks."""
    sleeper: Sleeper = field(default_factory=Sleeper)
    """Lets time pass in calls that wait."""
    partition_count: int = 0
    """The number of partitions by which records are placed; 0 for the topic's number."""


@dataclass(frozen=True, slots=True)
class NodeParts:
    """A node that has joined its group and was not started, and its parts."""

    client: ClientPorts
    """The node's own connections, which their user closes last."""
    node: Node
    observation: Observation
    probes: NodeProbes
    """The probes for ``observation`` once it has begun."""
    reporter: Reporter
    system_tasks: SystemTaskRegistry
    watch: NodeWatch
    start_processes: Callable[[], None]
    """Starts the processes for user code, if there are any; InvalidExecutor where they cannot load
    it."""
    close: Callable[[], None]
    """Closes everything except the node's connections, in reverse order."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The ports of an installation for operators, opened together and closed together."""

    settings: Settings
    writer: LogWriter
    stores: Stores
    log_view: LogView
    clock: Clock
    partition_count: int
    """The number of partitions by which the rows of the store are placed."""
    close: Callable[[], None] = lambda: None
    """Closes all of it; repeatable."""


def open_installation(settings: Settings) -> Installation:
    """Open an installation for operators.

    Raises LogUnavailable, TopicMissing, StoreUnavailable, SchemaMissing and FolderDamaged.
    """
    with ExitStack() as undo:
        writer = open_writer(settings)
        undo.callback(writer.close)
        stores = open_stores(settings)
        undo.callback(stores.close)
        log_view = open_log_view(settings)
        undo.callback(log_view.close)
        counting = placing_count(stores.ownership, writer.partition_count())
        return Installation(
            settings=settings,
            writer=writer,
            stores=stores,
            log_view=log_view,
            clock=open_clock(),
            partition_count=answered(begun(counting)),
            close=undo.pop_all().close,
        )


def build_client(settings: Settings) -> ClientPorts:
    """Open the ports of a client; LogUnavailable, TopicMissing."""
    clock = open_clock()
    telemetry = build_telemetry(settings)
    stores = partial(open_stores, settings)
    if settings.store == "kafka":
        sender = BucketSender(open_buckets(settings, clock), settings, clock)
        return ClientPorts(None, stores, clock, telemetry, sender)
    writer = observe(settings, clock, telemetry).writer(open_writer(settings))
    return ClientPorts(writer, stores, clock, telemetry)


def build_node(
    settings: Settings,
    executors: UserExecutors,
    telemetry: Telemetry | None = None,
    plan: ProcessPlan | None = None,
) -> NodeParts:
    """Open, observe and wrap the parts of a node; if one fails, all are closed again.

    ``executors`` are the user's, ``telemetry`` gets events instead of the program's log, ``plan``
    says where processes find user code (None without processes). Raises OperatorError if the
    installation is not usable.
    """
    log = build_telemetry(settings)
    with ExitStack() as undo:
        opened = _open_connections(settings, telemetry or log, undo)
        closing = undo.enter_context(ExitStack())
        # Closed after all others: events during closing are counted, too.
        closing.callback(log.close)
        made = opened.make_node(executors, closing, plan)
        undo.pop_all()
    return made


def _open_connections(
    settings: Settings, telemetry: Telemetry, undo: ExitStack
) -> "_NodeConnections":
    """Open log and stores, which must agree on the number of partitions."""
    clock = open_clock()
    feed = open_feed(settings, clock)
    if feed is not None:
        undo.callback(feed.close)
    observation = observe(settings, clock, telemetry)
    writer = open_writer(settings)
    undo.callback(writer.close)
    stores = observation.stores(open_stores(settings))
    undo.callback(stores.close)
    partitions = agreed_partition_count(writer, stores.ownership, settings)
    log = observation.log(open_log(settings, clock, stores.installation_id))
    undo.callback(log.close)
    outcomes = open_outcome_feed(settings, stores, clock, observation.telemetry)
    if outcomes is not None:
        undo.callback(outcomes.close)
        stores = outcomes.publishing(stores)
    if feed is not None:
        stores = feed.publishing(stores)
        observation.telemetry.add_listener(feed)
    return _NodeConnections(
        settings=settings,
        clock=clock,
        observation=observation,
        writer=observation.writer(writer),
        stores=stores,
        log=log,
        partition_count=partitions,
        outcomes=outcomes,
    )


@dataclass(frozen=True, slots=True)
class _NodeConnections:
    """The open ports of a node, each wrapped for observation, and the parts made of them."""

    settings: Settings
    clock: Clock
    observation: Observation
    writer: LogWriter
    stores: Stores
    log: TaskLog
    partition_count: int
    outcomes: OutcomeFeed | None

    def make_node(
        self, executors: UserExecutors, closing: ExitStack, plan: ProcessPlan | None
    ) -> NodeParts:
        counting, systems = self.observation.telemetry, _ActorSystems(self.clock)
        system_tasks = self._make_system_tasks()
        closing.callback(system_tasks.close)
        closing.callback(systems.close)
        lease = Lease(self.clock, self.log.lease_ends_ms)
        runner, workers = self._make_runner(executors, lease, closing, plan)
        runner.made_ahead.judge = system_tasks.late_occurrences.judge
        node = self._join_group(executors, lease, runner, system_tasks, systems)
        processes = workers.processes
        figures = None if processes is None else processes.pool.figures
        reporter = self._make_reporter(executors, runner, node, figures)
        closing.callback(reporter.close)
        watch = NodeWatch(runner, workers, self.clock, counting, thread_ms)
        closing.callback(watch.close)
        ownership = self.stores.ownership
        probes = NodeProbes(
            dispatching=systems.dispatching,
            partitions=lambda: node.partitions,
            works=lambda: node.is_ready,
            lease_ends_ms=self.log.lease_ends_ms,
            ask_store=lambda: ownership.read_watermark(min(node.partitions, default=0)),
            measures={
                **measures_of(node.memory),
                **({} if figures is None else pool_measures(figures)),
            },
        )
        return NodeParts(
            client=ClientPorts(self.writer, lambda: self.stores, self.clock, counting),
            node=node,
            observation=self.observation,
            probes=probes,
            reporter=reporter,
            system_tasks=system_tasks,
            watch=watch,
            start_processes=workers.start,
            close=closing.close,
        )

    def _make_system_tasks(self) -> SystemTaskRegistry:
        settings, observation = self.settings, self.observation
        return SystemTaskRegistry(
            settings=settings,
            stores=self.stores,
            writer=self.writer,
            partition_count=self.partition_count,
            clock=self.clock,
            telemetry=observation.telemetry,
            open_messages=lambda: observation.messages(open_messages(settings)),
            open_caller=partial(open_caller, settings.timers, self.clock, observation.headers),
            lease_ends_ms=self.log.lease_ends_ms,
            makes_ahead=self._makes_ahead(),
        )

    def _makes_ahead(self) -> Callable[[], bool]:
        """Return a function that returns True while occurrences may be made ahead."""
        if self.settings.log == "embedded":
            # No other node works on the folder.
            return lambda: True
        oversight = self.stores.oversight

        def look() -> "Future[bool]":
            return then(oversight.read_reports(), all_judge_occurrences)

        what = "occurrences of recurring schedules are made ahead"
        return EveryNode(look, self.clock.monotonic_ms, what)

    def _make_runner(
        self,
        executors: UserExecutors,
        lease: Lease,
        closing: ExitStack,
        plan: ProcessPlan | None,
    ) -> tuple[NodeRunner, NodeWorkers]:
        if executors.middleware.hears_of_exhausted:
            news = ExhaustedNews(executors.middleware)
            closing.callback(news.close)
            self.observation.telemetry.add_listener(news)
        execution = self.settings.tree.execution
        calls = Calls(
            clock=self.clock,
            gate=lease.allows,
            telemetry=self.observation.telemetry,
            require_codecs=executors.require_codecs,
            silence_limits=SilenceLimits(executors.stuck_after_ms, execution.stuck_after_ms),
        )
        limits = NodeLimits(
            rules=executors.flow_rules,
            on_node=executors.limits,
            partitions=self.partition_count,
            owned=lease,
            lend=self.settings.lends_limits,
        )
        processes = None if plan is None else self._make_processes(calls, plan)
        workers = NodeWorkers(calls, execution, processes)
        places = None if processes is None else processes.places
        execution = execution.model_copy(update={"processes": places})
        runner = NodeRunner(calls, workers, execution, limits)
        lease.add_listener(runner.apply)
        runner.made_ahead.owned_since_ms = lease.owned_since_ms
        closing.callback(workers.close)
        closing.callback(runner.close)
        closing.callback(self.observation.close)
        return runner, workers

    def _make_processes(self, calls: Calls, plan: ProcessPlan) -> ProcessThread:
        tree = self.settings.tree
        return ProcessThread(
            calls,
            tree.execution,
            tree.recovery,
            places=process_count(tree.execution),
            plan=plan,
            lease_ends_ms=self.log.lease_ends_ms,
            log=log_line,
        )

    def _join_group(
        self,
        executors: UserExecutors,
        lease: Lease,
        runner: Runner,
        system_tasks: SystemTaskRegistry,
        systems: "_ActorSystems",
    ) -> Node:
        """Return a node that joins its group, which an embedded folder's lock may refuse."""
        self.observation.leave_out(executors.concurrency_per_id)
        effects = Effects(
            settings=tree_within_memory(self.settings),
            partition_count=self.partition_count,
            stores=self.stores,
            writer=self.writer,
            runner=self.observation.runner(runner),
            telemetry=self.observation.telemetry,
            make_executor=system_tasks.factory_with(executors.make),
            concurrency_per_id=executors.concurrency_per_id,
            run_tasks_max=executors.run_tasks_max,
            expires_after_ms=executors.expires_after_ms,
            one_attempt_kinds=executors.one_attempt_kinds,
            flow_rules=executors.flow_rules,
            lease_ends_ms=self.log.lease_ends_ms,
            tells_outcomes=self.outcomes is not None,
        )
        group = self.settings.group
        node = Node(
            log=self.log,
            lease=lease,
            clock=self.clock,
            effects=effects,
            make_system=systems.make,
            commit_interval_ms=group.commit_interval_ms,
            lease_ms=group.session_timeout_ms - group.lease_margin_ms,
        )
        if self.outcomes is not None:
            node.tell_outcomes = self.outcomes.step
        return node

    def _make_reporter(
        self,
        executors: UserExecutors,
        runner: NodeRunner,
        node: Node,
        figures: Callable[[], PoolFigures] | None,
    ) -> Reporter:
        watch = node.config_watch
        return Reporter(
            Reported(
                describe=node.describe,
                lease_ends_ms=self.log.lease_ends_ms,
                config=lambda: watch.config,
                version=hourhand_version(),
                limited=runner.limited,
                limits=runner.declared_limits,
                loans=runner.loans,
                rates=runner.rates,
                kinds_without_order=executors.concurrency_per_id,
                attempt_now=runner.now,
                processes=figures,
            ),
            stores=self.stores,
            runner=runner,
            telemetry=self.observation.telemetry,
            clock=self.clock,
            interval_ms=self.settings.admin.report_interval_ms,
        )


class _ActorSystems:
    """The actor systems that a node has made, the current one last."""

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

    Raises PartitionCountChanged if they differ: tasks would be looked for, and their ordering ids
    run, in the wrong partitions.
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
    """Return the observation of a node by ``settings.observe``, besides ``telemetry``.

    Raises DependencyMissing for packages that are not installed.
    """
    counting = NodeTelemetry(clock, telemetry)
    observation = Observation(counting)
    if settings.observe.counts:
        observation = counted(settings, clock, counting)
    if settings.observe.traces:
        observation = traced(settings, clock, observation)
    return observation


def within_trace(executor: Executable, context: bytes) -> Executable:
    """Return an executor of a process whose code runs below the span that its node has begun."""
    from hourhand.scheduler.adapters.observing.tracing import below

    return below(executor, context)


def serve_processes(
    settings: Settings, children: Callable[[], Sequence[ChildState]]
) -> tuple[int, Callable[[], None]] | None:
    """Serve metrics and health of several node processes if ``observe.port`` is set.

    Returns the port and a function that stops it, and None if nothing is served. Raises
    SettingsInvalid if the port is taken.
    """
    host, port = settings.observe.host, settings.observe.port
    if port is None:
        return None
    from hourhand.scheduler.adapters.observing.probe_server import served
    from hourhand.scheduler.adapters.observing.process_answers import ProcessAnswers

    server = served(host, port, ProcessAnswers(children), open_clock())
    return server.port, server.close


def build_telemetry(settings: Settings) -> "LoggingTelemetry":
    """Build the telemetry without metrics: the program's log."""
    del settings
    from hourhand.scheduler.adapters.telemetry import LoggingTelemetry

    return LoggingTelemetry(open_clock())


def open_clock() -> Clock:
    """Return the machine's clocks."""
    from hourhand.scheduler.adapters.clock import SystemClock

    return SystemClock()


def create_relay_topics(settings: Settings) -> list[str]:
    """Create the relay's in-topic and out-topic if they are missing; return the created ones."""
    made: list[str] = []
    for name in (settings.relay.in_topic, settings.relay.out_topic):
        topic = settings.topic.model_copy(update={"name": name})
        made += create_topics(settings.model_copy(update={"topic": topic}))
    return made


def open_feed(settings: Settings, clock: Clock) -> LifecyclePublisher | None:
    """Open a publisher of lifecycle events, if ``events.topic`` is set; TopicMissing."""
    topic = settings.events.topic
    if topic is None:
        return None
    require_topic(settings, topic)
    return publish_lives(settings, open_messages(settings), clock)


def open_outcome_feed(
    settings: Settings, stores: Stores, clock: Clock, telemetry: Telemetry
) -> OutcomeFeed | None:
    """Open the stream of outcomes, if there is one; TopicMissing."""
    outcomes = settings.outcomes
    if not outcomes.are_told:
        return None
    if outcomes.topic is not None:
        require_topic(settings, outcomes.topic)
        sink: OutcomeSink = TopicSink(open_messages(settings), outcomes.topic)
    else:
        assert stores.kept_outcomes is not None, "the settings were checked"
        sink = KeptSink(stores.kept_outcomes, clock, outcomes.kept_ms)
    return OutcomeFeed(stores, sink, clock, telemetry, f"/hourhand/{settings.topic.name}")


def open_published_stores(settings: Settings, clock: Clock) -> Stores:
    """Open the stores for a writer outside a node; its writes are published if events are on."""
    feed = open_feed(settings, clock)
    if feed is None:
        return open_stores(settings)
    try:
        stores = open_stores(settings)
    except BaseException:
        feed.close()
        raise
    return feed.publishing(stores)


def keep_nodes_out(settings: Settings) -> Callable[[], None]:
    """Lock an embedded folder, which has one writer at a time; return a function that unlocks it.

    Raises FolderLocked if a node runs there. A store on servers needs no lock.
    """
    return (lambda: None) if settings.store == "cassandra" else lock_folder(settings)


def migrate(settings: Settings) -> list[str]:
    """Create missing tables and topics; return the changes, one line each.

    Safe to run twice, and from two machines at once.
    """
    if settings.store == "kafka":
        return create_bucket_topics(settings)
    done = migrate_store(settings) + migrate_log(settings)
    if settings.events.topic is not None or settings.outcomes.topic is not None:
        done += create_told_topics(settings)
    return done
