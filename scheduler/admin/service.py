"""Everything the admin API works with, opened together and closed together."""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from actors.ports.clock import Clock
from actors.ports.log import LogWriter
from actors.ports.store import Stores
from scheduler import wiring
from scheduler.admin.acting import Actions
from scheduler.admin.answers import Answer
from scheduler.admin.auditing import AuditLog
from scheduler.admin.cluster import Cluster
from scheduler.admin.counts import KeptCounts
from scheduler.admin.dead_letters import DeadLetters
from scheduler.admin.limit_settings import Limits
from scheduler.admin.pausing import Pauses
from scheduler.admin.recurring import RecurringSchedules
from scheduler.admin.relayed import RelayMessages
from scheduler.admin.sheet_changes import SheetChanges
from scheduler.admin.timers import Timers
from scheduler.admin.waiting import WaitReasons
from scheduler.client.client import ClientPorts, SchedulerClient
from scheduler.configuration.settings import Settings
from scheduler.futures.answers import answered
from scheduler.futures.steps import begun
from scheduler.ports.dead_letters import LogView
from scheduler.reading.inspector import Inspector
from scheduler.reading.placing import placing_count
from scheduler.records.appending import TaskAppender
from scheduler.services.definition_book import DefinitionBook


class ShownInstallation(Answer, frozen=True):
    """Whose log and store are looked at, as an operator tells installations apart."""

    log: str
    topic: str
    store: str
    keyspace: str | UnsetType = UNSET
    folder: str | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class AdminPorts:
    """What an admin service reaches an installation by; ``close`` lets go of all of it."""

    writer: LogWriter
    stores: Stores
    log_view: LogView
    clock: Clock
    close: list[Callable[[], None]] = field(default_factory=list)


def open_ports(settings: Settings) -> AdminPorts:
    """Open log and stores; raises what ``SchedulerClient`` and ``Inspector`` raise."""
    closing: list[Callable[[], None]] = []
    try:
        writer = wiring.open_writer(settings)
        closing.append(writer.close)
        stores = wiring.open_stores(settings)
        closing.append(stores.close)
        log_view = wiring.open_log_view(settings)
        closing.append(log_view.close)
    except BaseException:
        for close in reversed(closing):
            close()
        raise
    return AdminPorts(writer, stores, log_view, wiring.open_clock(), closing)


class AdminService:
    """The operations behind the requests; used from any thread."""

    def __init__(self, settings: Settings, ports: AdminPorts | None = None) -> None:
        self.settings = settings
        self._ports = ports = ports or open_ports(settings)
        self.clock = ports.clock
        self.stores = ports.stores
        counted = placing_count(ports.stores.ownership, ports.writer.partition_count())
        self.partition_count = answered(begun(counted))
        client_ports = ClientPorts(
            *(ports.writer, lambda: ports.stores, ports.clock, wiring.build_telemetry(settings)),
            partition_count=self.partition_count,
        )
        self.client = SchedulerClient(settings, client_ports)
        self.inspector = Inspector(ports.stores, self.partition_count)
        self.actions = Actions(self.client, self.inspector, ports.stores, ports.clock)
        sheets = SheetChanges(ports.stores.oversight)
        self.pauses = Pauses(sheets, ports.clock, self.partition_count)
        self.audit = AuditLog(ports.stores.oversight, ports.clock, settings.admin.audit_kept_days)
        self.counts = KeptCounts(ports.stores, self.partition_count)
        self.letters = DeadLetters(
            ports.log_view,
            ports.writer,
            ports.stores,
            ports.clock,
            self.partition_count,
            settings.tree,
        )
        definitions = DefinitionBook(ports.stores.definitions, self.partition_count, ports.clock)
        appender = TaskAppender(ports.writer, self.partition_count)
        self.recurring = RecurringSchedules(
            self.client, definitions, self.inspector, ports.stores, ports.clock
        )
        self.timers = Timers(appender, definitions, self.inspector, ports.clock)
        self.relayed = RelayMessages(definitions, self.inspector)
        self.cluster = Cluster(ports.stores, ports.log_view, ports.clock, self.partition_count)
        self.wait_reasons = WaitReasons(self.cluster, self.inspector)
        self.limits = Limits(
            sheets, self.cluster.declared_limits, self.cluster.rate_reports, ports.clock
        )

    @property
    def installation(self) -> ShownInstallation:
        """Whose log and store are looked at."""
        settings = self.settings
        in_cassandra = settings.store == "cassandra"
        return ShownInstallation(
            log=settings.log,
            topic=settings.topic.name,
            store=settings.store,
            keyspace=settings.cassandra.keyspace if in_cassandra else UNSET,
            folder=UNSET if in_cassandra else str(settings.embedded.folder),
        )

    def start(self) -> None:
        """Begin to follow the cluster."""
        self.cluster.start()

    def close(self) -> None:
        """Let go of everything; repeatable."""
        self.cluster.close()
        for close in reversed(self._ports.close):
            close()
        self._ports.close.clear()
