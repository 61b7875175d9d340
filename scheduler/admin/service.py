"""The parts of the admin API and of the operators' commands, over one opened installation.

Decides only which part works with which.
"""

from collections.abc import Callable
from threading import RLock
from typing import Generic, TypeVar

from msgspec import UNSET, UnsetType

from hourhand.scheduler import wiring
from hourhand.scheduler.admin.acting import Actions
from hourhand.scheduler.admin.answers import Answer
from hourhand.scheduler.admin.auditing import AuditLog
from hourhand.scheduler.admin.cluster import Cluster
from hourhand.scheduler.admin.config_changes import ConfigChanges
from hourhand.scheduler.admin.counts import KeptCounts
from hourhand.scheduler.admin.dead_letters import DeadLetters
from hourhand.scheduler.admin.limit_settings import Limits
from hourhand.scheduler.admin.pausing import Pauses
from hourhand.scheduler.admin.recurring import RecurringSchedules
from hourhand.scheduler.admin.relayed import RelayMessages
from hourhand.scheduler.admin.timers import Timers
from hourhand.scheduler.admin.waiting import WaitReasons
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.tasks.inspector import Inspector
from hourhand.scheduler.wiring import Installation

_T = TypeVar("_T")


class ShownInstallation(Answer, frozen=True):
    """The log and the store that are read, by which an operator tells installations apart."""

    log: str
    topic: str
    store: str
    keyspace: str | UnsetType = UNSET
    folder: str | UnsetType = UNSET


class _Part(Generic[_T]):
    """A part of the service, made at its first use; several threads share one."""

    def __init__(self, make: Callable[["AdminService"], _T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, service: "AdminService", _owner: type | None = None) -> _T:
        with service.making:
            made = vars(service)
            if self._make.__name__ not in made:
                # From now on the attribute is found on the object, without this descriptor.
                made[self._make.__name__] = self._make(service)
            part: _T = made[self._make.__name__]
            return part


class AdminService:
    """The operations behind the requests; used from any thread.

    It works with an opened installation, and closes it.
    """

    def __init__(self, opened: Installation) -> None:
        self.opened = opened
        self.settings = opened.settings
        self.clock = opened.clock
        self.stores = opened.stores
        self.partition_count = opened.partition_count
        self.making = RLock()
        """Held by the thread that makes a part and the parts that it needs."""

    @_Part
    def client(self) -> SchedulerClient:
        """Sends commands to the installation."""
        opened = self.opened
        ports = ClientPorts(
            writer=opened.writer,
            open_stores=lambda: opened.stores,
            clock=opened.clock,
            telemetry=wiring.build_telemetry(opened.settings),
            partition_count=opened.partition_count,
        )
        return SchedulerClient(opened.settings, ports)

    @_Part
    def inspector(self) -> Inspector:
        """Reads stored tasks."""
        return Inspector(self.stores, self.partition_count)

    @_Part
    def actions(self) -> Actions:
        """Acts on tasks."""
        return Actions(self.client, self.inspector, self.stores, self.clock)

    @_Part
    def config_changes(self) -> ConfigChanges:
        """Changes the operator config for all nodes."""
        return ConfigChanges(self.stores.oversight)

    @_Part
    def pauses(self) -> Pauses:
        """Pauses and resumes."""
        return Pauses(self.config_changes, self.clock, self.partition_count)

    @_Part
    def audit(self) -> AuditLog:
        """Records who did what."""
        return AuditLog(self.stores.oversight, self.clock, self.settings.admin.audit_kept_days)

    @_Part
    def counts(self) -> KeptCounts:
        """Reads counts of tasks by hour and by day."""
        return KeptCounts(self.stores, self.partition_count)

    @_Part
    def dead_letters(self) -> DeadLetters:
        """Reads dead letters and replays them."""
        opened = self.opened
        return DeadLetters(
            opened.log_view,
            opened.writer,
            opened.stores,
            opened.clock,
            opened.partition_count,
            opened.settings.tree,
        )

    @_Part
    def definitions(self) -> DefinitionBook:
        """Finds definitions of schedules, timers and messages."""
        return DefinitionBook(self.stores.definitions, self.partition_count, self.clock)

    @_Part
    def recurring(self) -> RecurringSchedules:
        """Lists and changes recurring schedules."""
        return RecurringSchedules(
            self.client, self.definitions, self.inspector, self.stores, self.clock
        )

    @_Part
    def timers(self) -> Timers:
        """Lists and ends timers."""
        appender = TaskAppender(self.opened.writer, self.partition_count)
        return Timers(appender, self.definitions, self.inspector, self.clock)

    @_Part
    def relayed(self) -> RelayMessages:
        """Lists messages that wait to be sent."""
        return RelayMessages(self.definitions, self.inspector)

    @_Part
    def cluster(self) -> Cluster:
        """Combines the reports of all nodes."""
        return Cluster(self.stores, self.opened.log_view, self.clock, self.partition_count)

    @_Part
    def wait_reasons(self) -> WaitReasons:
        """Explains why a task waits."""
        return WaitReasons(self.cluster, self.inspector)

    @_Part
    def limits(self) -> Limits:
        """Lists and changes limits."""
        cluster = self.cluster
        return Limits(
            self.config_changes, cluster.declared_limits, cluster.rate_reports, self.clock
        )

    @property
    def installation(self) -> ShownInstallation:
        """The log and the store that are read."""
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
        """Close all connections; repeatable."""
        if "cluster" in vars(self):
            self.cluster.close()
        self.opened.close()
