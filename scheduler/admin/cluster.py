"""The reports of all nodes, combined into one picture of the cluster that is a second old.

A thread reads the nodes' reports from the store, and the end offsets of the log, so an answer needs
no further request. Every figure has its time. A figure of a silent node is unknown, never guessed.
"""

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from hourhand.actors.model.flow.flow import Limit
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import NodeReport, PartitionReport, TroubledTask
from hourhand.actors.model.operations.pauses import PauseScope
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.model.values.instant import format_instant
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.admin import picture
from hourhand.scheduler.admin.answers import (
    ShownCheckpoint,
    ShownExecution,
    ShownLimit,
    instant_text,
)
from hourhand.scheduler.admin.reports import (
    RATE_MS,
    LastHour,
    ReportedNode,
    sum_known,
    summed,
    with_reports,
)
from hourhand.scheduler.admin.verdict import judged
from hourhand.scheduler.observe.reporting import hourhand_version
from hourhand.scheduler.ports.dead_letters import LogEnd, LogView
from hourhand.scheduler.runtime.answers import LOOK_S, answered
from hourhand.scheduler.runtime.guarded_loop import run_guarded
from hourhand.scheduler.tasks.task_state import NodesWord

logger = logging.getLogger("hourhand.admin")

READ_MS = 1_000
SILENT_MS = 5_000
"""A node without a report for this time is silent, and its last figures count as unknown."""
ENDS_MS = 5_000


class Cluster:
    """The picture; ``start`` keeps it fresh until ``close``."""

    def __init__(
        self, stores: Stores, log_view: LogView, clock: Clock, partition_count: int
    ) -> None:
        self.partition_count = partition_count
        self._stores = stores
        self._log_view = log_view
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, ReportedNode] = {}
        self._ends: Mapping[int, LogEnd] = {}
        self._ends_ms: int | None = None
        self._read_ms: int | None = None
        self._ends_due_ms = 0.0
        self._error: str | None = None
        self._last_hour = LastHour()
        self.config = OperatorConfig()
        self.look_number = 0
        """Number of readings so far."""
        self.changed = threading.Condition()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-cluster", daemon=True)

    def start(self) -> None:
        """Read once, then keep reading."""
        self.read()
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        with self.changed:
            self.changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(LOOK_S)

    @property
    def is_closed(self) -> bool:
        """True if it was closed."""
        return self._closed.is_set()

    def read(self) -> None:
        """Read reports and pauses, and from time to time the end offsets of the log."""
        try:
            oversight = self._stores.oversight
            reports = answered(oversight.read_reports(), LOOK_S)
            config = answered(oversight.read_config(self.config), LOOK_S)
        except (HourhandError, TimeoutError) as error:
            self._error = str(error) or "the store did not answer"
        else:
            self.learn(config)
            with self._lock:
                self._nodes = with_reports(self._nodes, reports)
                self._error = None
                self._read_ms = self._clock.now_ms()
        if self._clock.monotonic_ms() >= self._ends_due_ms:
            self._ends_due_ms = self._clock.monotonic_ms() + ENDS_MS
            self._read_ends()
        status = self.status()
        with self._lock:
            self._last_hour.draw(self._clock.monotonic_ms(), status, self._reports())
        with self.changed:
            self.look_number += 1
            self.changed.notify_all()

    def learn(self, config: OperatorConfig) -> None:
        """Use an operator config as the one in force, unless a later one is known."""
        with self._lock:
            if config.version > self.config.version:
                self.config = config

    # Answers from the picture.

    def status(self) -> picture.ClusterStatus:
        """Return the figures of the whole cluster at a glance."""
        with self._lock:
            alive = self._alive()
            nodes = [each.shown(alive=True) for each in alive]
            partitions = self._shown_partitions()
            unknown = len(_unanswered(partitions))
            lags = [each.lag for each in partitions]
            known_lags = [lag for lag in lags if lag is not None]
            waits_ms = [flow.since_ms for each in alive for flow in each.report.limited_flows]
            now_ms = self._clock.now_ms()
            figures = picture.ClusterStatus(
                time=instant_text(now_ms),
                as_of=instant_text(self._read_ms),
                stale=self._is_stale(),
                error=self._error,
                nodes=picture.NodeCounts(alive=len(alive), silent=len(self._nodes) - len(alive)),
                partitions=picture.PartitionCounts(
                    count=self.partition_count,
                    owned=self.partition_count - unknown,
                    unknown=unknown,
                ),
                executions_per_s=sum_known(each.executions_per_s for each in nodes),
                failures_per_s=sum_known(each.failures_per_s for each in nodes),
                lateness_ms=picture.Quantiles.of(summed(each.lateness() for each in alive)),
                window_ms=RATE_MS,
                in_flight=sum_known(each.in_flight for each in nodes),
                failing=sum_known(each.failing for each in nodes),
                blocked=sum_known(each.blocked for each in nodes),
                limited=sum_known(each.report.limited_count for each in alive),
                limited_for_ms=max(0, now_ms - min(waits_ms)) if waits_ms else None,
                lag=sum(known_lags) if len(known_lags) == len(lags) else None,
                overdue_ms=max((each.overdue_ms or 0 for each in partitions), default=0),
                paused=self._paused(),
                version=hourhand_version(),
            )
        return replace(figures, verdict=judged(figures))

    def nodes(self) -> picture.NodeListing:
        """Return every node that reported lately, by name."""
        with self._lock:
            nodes = [self._nodes[name] for name in sorted(self._nodes)]
            return picture.NodeListing(
                nodes=[each.shown(alive=self._is_alive(each)) for each in nodes]
            )

    def partitions(self) -> picture.PartitionListing:
        """Return every partition with its owner's report, or that no owner answers."""
        with self._lock:
            return picture.PartitionListing(partitions=self._shown_partitions())

    def blocked(self) -> picture.BlockedTasks:
        """Return the blocked tasks that nodes report, oldest first."""
        with self._lock:
            alive = self._alive()
            return picture.BlockedTasks(
                as_of=instant_text(self._read_ms),
                count=sum(each.report.blocked_count for each in alive),
                unknown_partitions=_unanswered(self._shown_partitions()),
                blocked=_troubles({each.report.node: each.report.blocked for each in alive}),
            )

    def blocked_hours(self) -> dict[int, Mapping[int, int] | None]:
        """Return each partition's number of blocked tasks by their hour; None where unknown."""
        with self._lock:
            owned = self._owners()
        return {
            number: owned[number][1].blocked_hours if number in owned else None
            for number in range(self.partition_count)
        }

    def failing(self) -> picture.FailingTasks:
        """Return the failing tasks that nodes report, oldest first."""
        with self._lock:
            alive = self._alive()
            return picture.FailingTasks(
                as_of=instant_text(self._read_ms),
                count=sum(each.report.failing_count for each in alive),
                unknown_partitions=_unanswered(self._shown_partitions()),
                failing=_troubles({each.report.node: each.report.failing for each in alive}),
            )

    def executions(self) -> dict[str, ShownExecution]:
        """Return the running attempts that nodes report, by the task's key."""
        with self._lock:
            return {
                each.key: ShownExecution(
                    attempt=each.attempt,
                    node=node.report.node,
                    started=instant_text(each.started_ms),
                    where=each.where or None,
                    checkpoint=ShownCheckpoint.told(each),
                    stuck=each.stuck,
                )
                for node in self._alive()
                for each in node.report.running
            }

    def limits(self) -> dict[str, ShownLimit]:
        """Return the tasks that nodes report as waiting for a limit, by key."""
        with self._lock:
            return {
                each.key: ShownLimit(
                    limit=each.limit,
                    value=each.value,
                    since=format_instant(each.since_ms),
                    node=node.report.node,
                )
                for node in self._alive()
                for each in node.report.limited
            }

    def kinds_without_order(self) -> frozenset[str | None]:
        """Return the kinds for which nodes run several tasks of one ordering id at once."""
        with self._lock:
            return frozenset(
                kind for node in self._alive() for kind in node.report.kinds_without_order
            )

    def word(self) -> NodesWord:
        """Return the reports of living nodes about tasks."""
        with self._lock:
            reports = [each.report for each in self._alive()]
            owners = self._owners()
        return NodesWord(
            executing={TaskKey.parse(each.key) for told in reports for each in told.running},
            limited={TaskKey.parse(each.key) for told in reports for each in told.limited},
            epochs={number: told.epoch for number, (_, told) in owners.items()},
        )

    def declared_limits(self) -> dict[str, Limit]:
        """Return the limits that nodes declare, by name; if two differ, that of the later
        process.
        """
        with self._lock:
            reports = [each.report for each in self._alive()]
        reports.sort(key=lambda each: each.started_ms or 0)
        return {limit.limit: limit.as_limit() for each in reports for limit in each.limits}

    def rate_reports(self) -> list[NodeReport]:
        """Return the reports of nodes that have rate limits, by name."""
        with self._lock:
            reports = [each.report for each in self._alive()]
        with_rates = (each for each in reports if each.rate_share is not None)
        return sorted(with_rates, key=lambda each: each.node)

    def limited(self) -> picture.LimitedFlows:
        """Return the tasks that wait for limits, by limit and value of its key, the largest group
        first.
        """
        with self._lock:
            reports = [each.report for each in self._alive()]
        waiting: Counter[tuple[str, str]] = Counter()
        since_ms: dict[tuple[str, str], int] = {}
        for each in (flow for report in reports for flow in report.limited_flows):
            flow = each.limit, each.value
            waiting[flow] += each.waiting
            since_ms[flow] = min(since_ms.get(flow, each.since_ms), each.since_ms)
        return picture.LimitedFlows(
            count=sum(each.limited_count for each in reports),
            flows=[
                picture.ShownFlow(
                    limit=limit,
                    value=value,
                    waiting=count,
                    since=format_instant(since_ms[limit, value]),
                )
                for (limit, value), count in waiting.most_common()
            ],
        )

    def running(self) -> picture.ShownExecutions:
        """Return the running attempts that nodes report, the longest first."""
        with self._lock:
            reports = [each.report for each in self._alive()]
        found = [(told.node, each) for told in reports for each in told.running]
        found.sort(key=lambda pair: (pair[1].started_ms or 0, pair[1].key))
        return picture.ShownExecutions(
            count=sum(each.running_count for each in reports),
            running=[
                picture.ExecutedTask(
                    key=each.key,
                    kind=each.kind,
                    attempt=each.attempt,
                    node=node,
                    started=instant_text(each.started_ms),
                    where=each.where or None,
                    checkpoint=ShownCheckpoint.told(each),
                    stuck=each.stuck,
                )
                for node, each in found
            ],
        )

    def history(self, partition: int | None = None) -> picture.History:
        """Return the last hour as this process saw it, and marks for events."""
        with self._lock:
            return self._last_hour.shown(self._reports(), partition)

    # Reading of the store and the log.

    def _run(self) -> None:
        run_guarded(self.read, "reading the cluster", logger, self._closed, READ_MS / 1000)

    def _read_ends(self) -> None:
        try:
            ends = self._log_view.ends()
        except HourhandError as error:
            logger.debug("the ends of the log are unknown: %s", error)
            return
        with self._lock:
            self._ends, self._ends_ms = ends, self._clock.now_ms()

    # The methods below are called with the lock held.

    def _reports(self) -> dict[str, NodeReport]:
        return {name: node.report for name, node in self._nodes.items()}

    def _is_stale(self) -> bool:
        return self._read_ms is None or self._clock.now_ms() - self._read_ms > SILENT_MS

    def _is_alive(self, node: ReportedNode) -> bool:
        return self._clock.now_ms() - node.report.reported_ms <= SILENT_MS

    def _alive(self) -> list[ReportedNode]:
        return [each for each in self._nodes.values() if self._is_alive(each)]

    def _shown_partitions(self) -> list[picture.ShownPartition]:
        owners = self._owners()
        return [self._shown_partition(n, owners.get(n)) for n in range(self.partition_count)]

    def _owners(self) -> dict[int, tuple[NodeReport, PartitionReport]]:
        owners: dict[int, tuple[NodeReport, PartitionReport]] = {}
        for node in self._alive():
            for each in node.report.partitions:
                known = owners.get(each.partition)
                if known is None or (each.epoch or 0) > (known[1].epoch or 0):
                    owners[each.partition] = (node.report, each)
        return owners

    def _shown_partition(
        self, number: int, owned: tuple[NodeReport, PartitionReport] | None
    ) -> picture.ShownPartition:
        end = self._ends.get(number)
        pause = self.config.of_partition(number)
        unknown = picture.ShownPartition(
            partition=number,
            owner=None,
            state="unknown",
            as_of=None,
            paused=pause.whole,
            paused_ids=len(pause.ordering_ids),
            end_offset=None if end is None else end.end_offset,
        )
        if owned is None:
            return unknown
        report, told = owned
        return replace(
            unknown,
            owner=report.node,
            state=told.stage,
            as_of=instant_text(report.reported_ms),
            lag=self._lag(told),
            pause_known=report.pauses_version >= self.config.version,
            epoch=told.epoch,
            next_offset=told.next_offset,
            watermark=instant_text(told.watermark_ms),
            loaded_until=instant_text(told.loaded_until_ms),
            waiting=told.waiting,
            executing=told.executing,
            running=told.running,
            failing=told.failing,
            blocked=None if told.blocked_hours is None else sum(told.blocked_hours.values()),
            held=told.held,
            stragglers=told.stragglers,
            overdue_ms=told.overdue_ms,
            assigned=instant_text(told.assigned_ms),
            catch_up_ms=told.catch_up_ms,
        )

    def _lag(self, told: PartitionReport) -> int | None:
        if told.next_offset is None or self._ends_ms is None:
            return None
        end = self._ends.get(told.partition)
        return max(0, (0 if end is None else end.end_offset) - told.next_offset)

    def _paused(self) -> picture.PausedCounts:
        scopes = [each.scope for each in self.config.pauses]
        return picture.PausedCounts(
            all=PauseScope.ALL in scopes,
            partitions=scopes.count(PauseScope.PARTITION),
            ordering_ids=scopes.count(PauseScope.ORDERING),
        )


def _unanswered(partitions: Sequence[picture.ShownPartition]) -> list[int]:
    return [each.partition for each in partitions if each.owner is None]


def _troubles(told: Mapping[str, Sequence[TroubledTask]]) -> list[picture.ShownTrouble]:
    shown = [
        picture.ShownTrouble(
            key=each.key,
            ordering_id=(key := TaskKey.parse(each.key)).ordering_id,
            scheduled_time=instant_text(key.scheduled_ms),
            partition=each.partition,
            since=instant_text(each.since_ms),
            attempts=each.attempts,
            error=each.error,
            kind=each.kind,
            node=node,
        )
        for node, tasks in told.items()
        for each in tasks
    ]
    return sorted(shown, key=lambda each: each.since or "")
