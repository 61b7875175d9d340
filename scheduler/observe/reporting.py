"""A node's word about itself, reported to the store each second, and its counts now and then.

Runs on a thread of its own, so a store that is slow delays nothing but the report.  It decides
what is in a report, and never what a node does.
"""

import logging
import os
import platform
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from itertools import starmap

import msgspec

from actors.model.key import TaskKey
from actors.model.oversight import NodeReport, PartitionReport, RunningTask, TroubledTask
from actors.model.pauses import PauseSheet
from actors.ports.clock import Clock
from actors.ports.runner import Runner
from actors.ports.store import Stores
from scheduler.node.holdings import Held
from scheduler.observe.figures import Figures, Troubled
from scheduler.observe.tallying import Tallies

logger = logging.getLogger("hourhand.report")

LISTED_MAX = 200
"""Failing, blocked and running tasks that a report names; the rest it counts."""
TALLIES_MS = 5_000.0
_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Reported:
    """The node that a reporter speaks for."""

    describe: Callable[[], list[Held]]
    lease_ends_ms: Callable[[], float]
    pauses: Callable[[], PauseSheet]
    version: str


class Reporter:
    """Reports, and writes counts, until it is closed."""

    def __init__(
        self,
        reported: Reported,
        *,
        stores: Stores,
        runner: Runner,
        figures: Figures,
        tallies: Tallies,
        clock: Clock,
        interval_ms: int,
    ) -> None:
        self.node = f"{platform.node()[:60]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.address: str | None = None
        """Where this process serves the admin API, if it does."""
        self._reported = reported
        self._stores = stores
        self._runner = runner
        self._figures = figures
        self._tallies = tallies
        self._clock = clock
        self._interval_ms = interval_ms
        self._started_ms = clock.now_ms()
        self._beat = 0
        self._saving: Future[None] | None = None
        self._epochs: dict[int, int] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-report", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Write the last counts and end; waits a bounded time."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(_ANSWER_S)

    def _run(self) -> None:
        due: dict[Callable[[], None], float] = {
            self._report: 0.0,
            self._flush: TALLIES_MS + self._clock.monotonic_ms(),
        }
        every = {self._report: float(self._interval_ms), self._flush: TALLIES_MS}
        while not self._closed.wait(self._interval_ms / 1000):
            for work, due_ms in due.items():
                now_ms = self._clock.monotonic_ms()
                if now_ms >= due_ms:
                    due[work] = now_ms + every[work]
                    self._guarded(work)
        self._guarded(self._flush)

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception:
            logger.exception("a report could not be made; please report this")

    def _flush(self) -> None:
        epochs = {
            each.partition: each.epoch
            for each in self._reported.describe()
            if each.epoch is not None
        }
        for partition, epoch in epochs.items():
            if self._epochs.get(partition) != epoch:
                found = self._stores.tallies.load(partition, 0, 0).result(timeout=_ANSWER_S)
                self._tallies.begin(partition, found.counted_offset)
        self._epochs = epochs
        self._tallies.flush(epochs, self._clock.now_ms())

    def _report(self) -> None:
        if self._saving is not None and not self._saving.done():
            return
        self._beat += 1
        self._saving = self._stores.oversight.save_report(self.report(self._clock.now_ms()))

    def report(self, now_ms: int) -> NodeReport:
        """Return what this node knows of itself."""
        lease_ms = self._reported.lease_ends_ms() - self._clock.monotonic_ms()
        troubled = self._figures.troubled()
        blocked = [each for each in troubled if each[2].blocked]
        failing = [each for each in troubled if not each[2].blocked]
        states = self._reported.describe()
        running = [
            RunningTask(str(attempt.task.key), attempt.partition, attempt.number)
            for state in states
            for attempt in self._runner.long_running(state.partition, 0)
        ]
        return NodeReport(
            node=self.node,
            beat=self._beat,
            reported_ms=now_ms,
            version=self._reported.version,
            started_ms=self._started_ms,
            address=self.address,
            lease_left_ms=round(lease_ms) if abs(lease_ms) < 1e12 else None,
            lease_by_lock=lease_ms > 1e12,
            pauses_version=self._reported.pauses().version,
            tree_failures=self._figures.tree_failures,
            partitions=tuple(map(self._partition, states)),
            running_count=len(running),
            running=tuple(running[:LISTED_MAX]),
            blocked_count=len(blocked),
            blocked=tuple(starmap(_trouble, blocked[:LISTED_MAX])),
            failing_count=len(failing),
            failing=tuple(starmap(_trouble, failing[:LISTED_MAX])),
            moments=tuple(self._figures.moments),
        )

    def _partition(self, state: Held) -> PartitionReport:
        figures = msgspec.structs.asdict(self._figures.partition(state.partition))
        pause = self._reported.pauses().of_partition(state.partition)
        return PartitionReport(
            partition=state.partition,
            stage=state.stage,
            epoch=state.epoch,
            next_offset=state.next_offset,
            paused=pause.whole,
            paused_ids=len(pause.ordering_ids),
            **{**figures, "lateness": tuple(figures["lateness"])},
        )


def _trouble(key: TaskKey, partition: int, trouble: Troubled) -> TroubledTask:
    return TroubledTask(
        str(key), partition, trouble.since_ms, trouble.attempts, trouble.error[:200]
    )


def hourhand_version() -> str:
    """Return the version installed; a checkout that is not installed has none."""
    try:
        return installed_version("hourhand")
    except PackageNotFoundError:
        return "not installed"
