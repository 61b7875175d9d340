"""A node's report to the store, once a second, and its counts at longer intervals.

Runs on a thread of its own, so a slow store delays only the report. It decides the content of a
report, and never the node's actions.
"""

import logging
import os
import platform
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from heapq import nlargest
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from itertools import islice

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.flow.flow import Limit
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import (
    DeclaredLimit,
    LimitedFlow,
    LimitedTask,
    NodeReport,
    PartitionReport,
    PoolReport,
    RateShare,
    RunningCheckpoint,
    RunningTask,
)
from hourhand.actors.model.task.checkpoint_value import progress_of
from hourhand.actors.model.task.json_text import shown_value
from hourhand.actors.model.task.sealed import is_sealed
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.runner import Runner
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.node.holdings import Held
from hourhand.scheduler.node.limits.limiter import Limited
from hourhand.scheduler.node.limits.loans import LoanDesk
from hourhand.scheduler.node.limits.shares import NO_RATES, NodeRates
from hourhand.scheduler.node.processes.process_pool import PoolFigures
from hourhand.scheduler.node.runner import AttemptNow
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.observe.process_figures import pool_report
from hourhand.scheduler.observe.troubles import TroubleCounts
from hourhand.scheduler.runtime.answers import LOOK_S, answered
from hourhand.scheduler.runtime.guarded_loop import guarded

logger = logging.getLogger("hourhand.report")

LISTED_MAX = 200
"""Failing, blocked and running tasks that a report names; further ones are counted."""
LIMITS_MAX = 1_000
"""Most declared limits in a report."""
TALLIES_MS = 5_000.0
ROW_MS = 50.0
"""A node that borrows and lends reads at most one report in this time, on average."""
_LOOKS = 4
"""Checks for other nodes' reports in the time between two own reports."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The node of a reporter."""

    describe: Callable[[], list[Held]]
    lease_ends_ms: Callable[[], float]
    config: Callable[[], OperatorConfig]
    version: str
    limited: Callable[[], Sequence[Limited]] = tuple
    limits: Mapping[str, Limit] = field(default_factory=dict)
    loans: LoanDesk | None = None
    rates: Callable[[], NodeRates] = lambda: NO_RATES
    kinds_without_order: Collection[str | None] = ()
    attempt_now: Callable[[Attempt], AttemptNow] = lambda _attempt: AttemptNow()
    """Returns the facts of an attempt that runs."""
    processes: Callable[[], PoolFigures] | None = None


class Reporter:
    """Writes reports and counts until it is closed."""

    def __init__(
        self,
        reported: Reported,
        *,
        stores: Stores,
        runner: Runner,
        telemetry: NodeTelemetry,
        clock: Clock,
        interval_ms: int,
    ) -> None:
        self.node = f"{platform.node()[:60]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.address: str | None = None
        """Address of this process's admin API, if it serves one."""
        self._reported = reported
        self._stores = stores
        self._runner = runner
        self._telemetry = telemetry
        self._clock = clock
        self._interval_ms = interval_ms
        self._started_ms = clock.now_ms()
        self._limits = tuple(
            DeclaredLimit.named(*each) for each in islice(reported.limits.items(), LIMITS_MAX)
        )
        self._report_number = 0
        self._saving: Future[None] | None = None
        self._reading: Future[tuple[NodeReport, ...]] | None = None
        self._report_ms = self._read_ms = -1e18
        """Times of the next report and the next read."""
        self._epochs: dict[int, int] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-report", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Write the last counts and end; waits a bounded time."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(LOOK_S)

    def _run(self) -> None:
        flush_ms = TALLIES_MS + self._clock.monotonic_ms()
        while not self._closed.wait(self.pause_ms / 1000):
            guarded(self.step, "a report", logger)
            now_ms = self._clock.monotonic_ms()
            if now_ms >= flush_ms:
                flush_ms = now_ms + TALLIES_MS
                guarded(self._flush, "a report", logger)
        guarded(self._flush, "a report", logger)

    @property
    def pause_ms(self) -> float:
        """Milliseconds to wait before the next ``step``."""
        return self._interval_ms if self._reported.loans is None else self._interval_ms / _LOOKS

    def step(self) -> None:
        """Report if it is time, and apply the reports of others; never waits."""
        now_ms = self._clock.monotonic_ms()
        if self._reported.loans is not None:
            self._apply_others(self._reported.loans, now_ms)
        if now_ms >= self._report_ms:
            self._report_ms = now_ms + self._interval_ms
            self._report()

    def _apply_others(self, loans: LoanDesk, now_ms: float) -> None:
        reading = self._reading
        if reading is not None and reading.done():
            self._reading = None
            try:
                reports = reading.result()
            except HourhandError as error:
                logger.debug("reports could not be read: %s", error)
                return
            self._read_ms = max(self._read_ms, now_ms + ROW_MS * len(reports) - self._interval_ms)
            loans.apply_reports(self.node, reports)
        if self._reading is None and now_ms >= self._read_ms:
            self._read_ms = now_ms + self._interval_ms
            self._reading = self._stores.oversight.read_reports()

    def _flush(self) -> None:
        epochs = {
            each.partition: each.epoch
            for each in self._reported.describe()
            if each.epoch is not None
        }
        for partition, epoch in epochs.items():
            if self._epochs.get(partition) != epoch:
                found = answered(self._stores.tallies.load(partition, 0, 0), LOOK_S)
                self._telemetry.hours.begin(partition, found.counted_offset)
        self._epochs = epochs
        self._telemetry.hours.flush(self._stores.tallies, epochs, self._clock.now_ms())

    def _report(self) -> None:
        if self._saving is not None and not self._saving.done():
            return
        self._report_number += 1
        if self._reported.loans is not None:
            self._reported.loans.note_asked(self._report_number)
        self._saving = self._stores.oversight.save_report(self.report(self._clock.now_ms()))

    def report(self, now_ms: int) -> NodeReport:
        """Return this node's figures."""
        reported, troubles = self._reported, self._telemetry.troubles
        lease_ms, loans = reported.lease_ends_ms() - self._clock.monotonic_ms(), reported.loans
        blocked_count, blocked = troubles.listed(LISTED_MAX, blocked=True)
        failing_count, failing = troubles.listed(LISTED_MAX, blocked=False)
        states = reported.describe()
        running, limited = self._running(states), self._limited(now_ms)
        share, shares = self._rates()
        return NodeReport(
            node=self.node,
            report_number=self._report_number,
            reported_ms=now_ms,
            version=reported.version,
            started_ms=self._started_ms,
            address=self.address,
            lease_left_ms=round(lease_ms) if abs(lease_ms) < 1e12 else None,
            lease_by_lock=lease_ms > 1e12,
            pauses_version=reported.config().version,
            tree_failures=int(self._telemetry.meters.only("tree_rebuilds_total").value),
            partitions=self._partitions(states, running),
            running_count=len(running),
            running=_longest(running, now_ms, reported.attempt_now),
            blocked_count=blocked_count,
            blocked=blocked,
            failing_count=failing_count,
            failing=failing,
            moments=tuple(troubles.moments),
            limited_count=len(limited),
            limited=tuple(limited[:LISTED_MAX]),
            limited_flows=_limited_flows(limited),
            limits=self._limits,
            reads_segments=True,
            judges_occurrences=True,
            borrows=loans is not None,
            lent=() if loans is None else loans.lent(),
            rate_share=share,
            rate_shares=shares,
            kinds_without_order=tuple(reported.kinds_without_order),
            processes=_pool(reported.processes),
        )

    def _limited(self, now_ms: int) -> list[LimitedTask]:
        limited = [_limited_task(each, now_ms) for each in self._reported.limited()]
        self._telemetry.note_limited(Counter(each.limit for each in limited))
        return limited

    def _rates(self) -> tuple[float | None, tuple[RateShare, ...]]:
        """Return the node's part of rates, and its loans, the largest one first."""
        rates = self._reported.rates()
        self._telemetry.note_rates(*rates)
        if not rates.rates_per_s:
            return None, ()
        return rates.share, tuple(nlargest(LISTED_MAX, rates.loans, key=_lent_or_borrowed))

    def _running(self, states: Sequence[Held]) -> dict[Attempt, float]:
        found: dict[Attempt, float] = {}
        for state in states:
            found.update(self._runner.long_running(state.partition, 0))
        return found

    def _partitions(
        self, states: Sequence[Held], running: Iterable[Attempt]
    ) -> tuple[PartitionReport, ...]:
        attempting = Counter(each.partition for each in running)
        counts = self._telemetry.troubles.counted()
        return tuple(self._partition(each, attempting[each.partition], counts) for each in states)

    def _partition(
        self, state: Held, running: int, counts: Mapping[int, TroubleCounts]
    ) -> PartitionReport:
        number = state.partition
        counted = counts.get(number) or TroubleCounts()
        pause = self._reported.config().of_partition(number)
        gauges, noted = self._telemetry.gauges_of(number), self._telemetry.troubles.noted(number)
        lateness = self._telemetry.lateness_of(number)
        passed, held_for = gauges.get("straggler_ids", 0), gauges.get("watermark_held_ids", 0)
        return PartitionReport(
            partition=number,
            stage=state.stage,
            epoch=state.epoch,
            next_offset=state.next_offset,
            paused=pause.whole,
            paused_ids=len(pause.ordering_ids),
            started=sum(lateness),
            failed=noted.failed,
            lateness=lateness,
            waiting=gauges.get("waiting_tasks"),
            executing=gauges.get("executing_tasks"),
            running=running,
            failing=counted.failing,
            blocked_hours=counted.blocked_hours,
            loaded_until_ms=noted.loaded_until_ms,
            watermark_ms=gauges.get("watermark_timestamp_seconds"),
            stragglers=held_for or passed,
            held=gauges.get("held_ids", 0),
            overdue_ms=gauges.get("oldest_overdue_seconds", 0),
            assigned_ms=noted.assigned_ms,
            catch_up_ms=noted.catch_up_ms,
        )


def _pool(figures: Callable[[], PoolFigures] | None) -> PoolReport | None:
    return None if figures is None else pool_report(figures())


def _longest(
    running: Mapping[Attempt, float], now_ms: int, attempt_now: Callable[[Attempt], AttemptNow]
) -> tuple[RunningTask, ...]:
    """Return the attempts that have run longest, the longest first."""
    listed = nlargest(LISTED_MAX, running.items(), key=lambda each: each[1])
    found = ((attempt, ran_ms, attempt_now(attempt)) for attempt, ran_ms in listed)
    return tuple(
        RunningTask(
            str(attempt.task.key),
            attempt.partition,
            attempt.number,
            attempt.task.kind,
            now_ms - round(ran_ms),
            now.where,
            None if now.checkpoint is None else _progress(now.checkpoint),
            now.is_stuck,
        )
        for attempt, ran_ms, now in found
    )


def _progress(checkpoint: TaskCheckpoint) -> RunningCheckpoint:
    body = checkpoint.body
    progress = None if is_sealed(body) else progress_of(shown_value(body))
    if progress is None:
        return RunningCheckpoint(checkpoint.made_ms)
    return RunningCheckpoint(checkpoint.made_ms, progress.done, progress.total)


def _limited_task(limited: Limited, now_ms: int) -> LimitedTask:
    attempt = limited.attempt
    since_ms = now_ms - round(limited.waited_ms)
    key = str(attempt.task.key)
    return LimitedTask(key, attempt.partition, limited.limit, limited.value, since_ms)


def _limited_flows(limited: Sequence[LimitedTask]) -> tuple[LimitedFlow, ...]:
    """Return the flows with the most tasks; ``limited`` is in order of arrival."""
    waiting = Counter((each.limit, each.value) for each in limited)
    since_ms = {(each.limit, each.value): each.since_ms for each in reversed(limited)}
    return tuple(
        LimitedFlow(*flow, count, since_ms[flow]) for flow, count in waiting.most_common(LISTED_MAX)
    )


def _lent_or_borrowed(share: RateShare) -> float:
    return share.lent + share.borrowed


def hourhand_version() -> str:
    """Return the installed version; a checkout that is not installed has none."""
    try:
        return installed_version("hourhand")
    except PackageNotFoundError:
        return "not installed"
