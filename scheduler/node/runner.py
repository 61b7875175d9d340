"""A node's runner: sends attempts through the stages on the way to a worker.

Puts the stages together and answers questions about all of them.  Leaves each decision to a stage.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.flow.flow import Limit
from hourhand.actors.model.operations.events import AttemptAbandoned, LimitChanged
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.actors.ports.runner import AttemptListener, CheckpointListener, Executable
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.batch_gathering import BatchGathering
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.checkpoints import NodeCheckpoints
from hourhand.scheduler.node.durable_starts import DurableStarts
from hourhand.scheduler.node.fair_turns import FairTurns
from hourhand.scheduler.node.limits.limiter import Limited, Limiter
from hourhand.scheduler.node.limits.loans import LoanDesk
from hourhand.scheduler.node.limits.node_limits import NO_LIMITS, NodeLimits
from hourhand.scheduler.node.limits.shares import NodeRates
from hourhand.scheduler.node.made_ahead import MadeAhead
from hourhand.scheduler.node.stages import Following, Workers
from hourhand.scheduler.node.system_executor import SystemExecutor, SystemWork
from hourhand.scheduler.node.worker_watch import WorkerLoad, WorkerPool
from hourhand.scheduler.ports.batches import BatchMember

_PATIENCE = 10
"""A task that waits for another task counts as slow only after this many times the usual time: to
read its queue again would take time from the store, for which the other task waits."""

_WORDS = {"async": "loop", "processes": "process"}
"""Words for the pools whose workers are not threads."""


class AttemptNow(NamedTuple):
    """The facts of an attempt that runs."""

    where: str = ""
    """As ``NodeRunner.where``."""
    checkpoint: TaskCheckpoint | None = None
    """The last one that it has made."""
    is_stuck: bool = False


class NodeRunner:
    """Implements ``hourhand.actors.ports.runner.Runner``, with any kind of workers."""

    def __init__(
        self,
        calls: Calls,
        workers: Workers,
        settings: ExecutionSettings,
        limits: NodeLimits = NO_LIMITS,
    ) -> None:
        self.calls, self._registry = calls, calls.registry
        self._workers = workers
        self._checkpoints = NodeCheckpoints(calls.clock, workers.tell_later)
        self._registry.desk = self._checkpoints
        clock, rules = calls.clock, limits.rules
        self._turns = FairTurns(rules, _rooms(settings), workers)
        self._batches = BatchGathering(
            monotonic_ms=clock.monotonic_ms,
            call_later=workers.call_later,
            run_batch=workers.run_batch,
            following=self._turns.enter if rules else workers.run,
        )
        self._starts = DurableStarts(
            settings.workers,
            gate=calls.gate,
            following=self._batches.enter,
            refuse=calls.refuse,
            call_later=workers.call_later,
            rules=rules,
        )
        self.limits = Limiter(
            limits,
            gate=calls.gate,
            monotonic_ms=clock.monotonic_ms,
            following=self._starts.enter,
            refuse=calls.refuse,
            wake_later=lambda ms: workers.wake_later(ms, self.limits.look),
        )
        following: Following = self.limits.enter if self.limits else self._starts.enter
        self.made_ahead = MadeAhead(calls, following)

    def start(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> None:
        """Run each attempt as soon as a worker is free for it."""
        at_once = self._workers.run_at_once
        self.made_ahead.enter(
            [
                each
                for each in self._registry.add(starts, listener)
                if not (isinstance(each.executor, SystemWork) and at_once(each))
            ]
        )

    def withdraw(
        self, attempt: Attempt, *, limited: bool = False, interrupts: bool = False
    ) -> bool:
        """Withdraw an attempt before its user code is called; return False if that was called
        already.  With ``interrupts``, ask such code to end.
        """
        running = self._registry.find(attempt)
        if running is None:
            return False
        if limited and not (
            self.limits.has_waiting(running) or self.made_ahead.has_waiting(running)
        ):
            return False
        withdrawn = self._registry.withdraw(attempt)
        if withdrawn and (self.limits.withdraw(running) or self.made_ahead.withdraw(running)):
            self.calls.refuse(running)
        # The code of a batch works for other tasks as well.
        is_alone = not isinstance(running.executor, BatchMember | SystemExecutor)
        if interrupts and is_alone and not withdrawn:
            self._registry.interrupt(running)
        return withdrawn

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return the attempts that have been running for this time; those that wait for another
        task are allowed longer.
        """
        now_ms, running_ms = self.calls.clock.monotonic_ms(), {}
        for running in self._registry.of_partition(partition):
            begun_ms, executor = running.started_monotonic_ms, running.executor
            if begun_ms is None or running.ended is not None:
                continue
            waits = isinstance(executor, SystemExecutor) and executor.unslotted
            if now_ms - begun_ms >= at_least_ms * (_PATIENCE if waits else 1):
                running_ms[running.attempt] = now_ms - begun_ms
        return running_ms

    def where(self, attempt: Attempt) -> str:
        """Return the kind of worker that an attempt runs in, for reports; empty if it does not."""
        running = self._registry.find(attempt)
        if running is None:
            return ""
        if isinstance(running.executor, BatchMember) and not attempt.suspect:
            return "batch"
        # A suspect has a thread of its own.
        return _WORDS.get(self._workers.pool_of(running) or "", "thread")

    def now(self, attempt: Attempt) -> AttemptNow:
        """Return the facts of an attempt that runs, for those who look."""
        running = self._registry.find(attempt)
        if running is None:
            return AttemptNow()
        made = running.checkpoints
        newest = None if made is None else made.newest
        return AttemptNow(self.where(attempt), newest, running in self.calls.stuck)

    def unsettled(self, partition: int, *, given_up: bool = True) -> Sequence[Attempt]:
        """Return the attempts of a partition whose outcomes are not settled."""
        return [
            running.attempt
            for running in self._registry.of_partition(partition)
            if given_up or not running.abandoned or running.ended is None
        ]

    def adopt(self, attempt: Attempt, listener: AttemptListener) -> None:
        """Report the attempt's end to ``listener`` from now on; at once if it has ended."""
        self._registry.adopt(attempt, listener)

    def tell_checkpoints(self, partition: int, listener: CheckpointListener) -> None:
        """Report checkpoints of the partition's attempts to ``listener`` from now on."""
        self._checkpoints.tell(partition, listener, self._registry.of_partition(partition))

    def settle(self, attempts: Sequence[Attempt]) -> None:
        """Remove ended attempts: their outcomes are durable, or do not count any more."""
        self._registry.settle(attempts)

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """End all attempts that can be ended, such as those that wait for another task."""
        if partitions is not None and give_up is not None:
            self._give_up(self._registry.abandon(partitions), give_up)
        elif partitions is not None:
            for running in chain.from_iterable(map(self._registry.of_partition, partitions)):
                if isinstance(running.executor, SystemExecutor):
                    running.executor.drain()
        self.made_ahead.drain(partitions)
        for running in self.limits.drain(partitions):
            if partitions is None:
                self._registry.discard(running)
            self.calls.refuse(running)
        self._starts.drain(partitions)
        self._batches.drain(partitions)
        if partitions is not None:
            self._workers.drain(partitions)

    def hurry(self) -> bool:
        """Begin waiting batches at once, as no more tasks will come; return True if any waited."""
        return self._batches.hurry()

    def pools(self, pools: Sequence[WorkerPool]) -> Sequence[WorkerPool]:
        """Return pools of workers whose load includes attempts that wait for their turn."""
        return [each._replace(load=partial(self._load, each)) for each in pools]

    def _load(self, pool: WorkerPool) -> WorkerLoad:
        (submitted, waiting), in_turn = pool.load(), self._turns.waiting(pool.name)
        return WorkerLoad(submitted + in_turn, waiting + in_turn)

    def close(self) -> None:
        """Hand workers no attempt that waits for its turn."""
        self._turns.close()

    def _give_up(self, abandoned: Sequence[RunningAttempt], reason: str) -> None:
        """Report attempts that still run, and cancel those that can be cancelled."""
        for running in abandoned:
            attempt = running.attempt
            key = attempt.task.key
            event = AttemptAbandoned(attempt.partition, key, attempt.number, reason)
            self.calls.telemetry.emit(event)
            if running.cancel is not None:
                running.cancel()

    # Limits.

    def limited(self) -> Sequence[Limited]:
        """Return the attempts that wait for a limit, for reports."""
        return self.limits.limited()

    @property
    def declared_limits(self) -> Mapping[str, Limit]:
        """All limits by name, as the code declares them."""
        return self.limits.declared

    def rates(self) -> NodeRates:
        """Return this node's part of each rate, for reports."""
        return self.limits.rates()

    @property
    def loans(self) -> LoanDesk | None:
        """The interface for loans of rates; None if nothing is lent."""
        return self.limits if self.limits.lends else None

    def apply(self, config: OperatorConfig) -> None:
        """Apply the operators' changes of limits from now on."""
        for name, before, after in self.limits.change(config.limits):
            self.calls.telemetry.emit(LimitChanged(name, str(before), str(after)))
        self._workers.drain(None)


def _rooms(settings: ExecutionSettings) -> dict[str, int]:
    """Return the number of attempts that each pool of workers runs at once."""
    return {
        "threads": settings.workers,
        "async": settings.async_attempts_max,
        "processes": settings.processes or 1,
    }
