"""The workers of simulated nodes, which let user code last in virtual time.

They are the last stage: limits, durable starts, batches and turns before them are those of every
node.  How an attempt goes is ``user_code``'s matter.
"""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Protocol, cast

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.batch_executor import BatchOutcome
from hourhand.actors.model.execution.executor_attributes import timeout_ms_of
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.operations.events import AttemptStuck
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Begun, Calls, batched
from hourhand.scheduler.node.current_attempt import tell_attempt
from hourhand.scheduler.node.durable_starts import START_DEADLINE_S
from hourhand.scheduler.node.endings import not_started
from hourhand.scheduler.node.limits.allowance import Allowance, Ticket
from hourhand.scheduler.node.limits.node_limits import NodeLimits
from hourhand.scheduler.node.runner import NodeRunner
from hourhand.scheduler.node.silence import LOOKED_EVERY_MS, SilenceWatch
from hourhand.scheduler.node.stages import Following, RunningBatch
from hourhand.scheduler.node.system_executor import ImmediateWork, SystemExecutor
from hourhand.scheduler.ports.batches import Batches
from hourhand.scheduler.ports.processes import is_in_process
from tests.simulation.history import Step
from tests.simulation.loop import SimulatedLoop, named
from tests.simulation.processes import SimulatedProcesses
from tests.simulation.progress import EVERY_MS, CheckpointingAttempt
from tests.simulation.user_code import Plan, ProcessKilled, plan_of


class AttemptObserver(Protocol):
    """Hears what the runner does with user code."""

    def attempt_started(self, running: RunningAttempt, queued_ms: float) -> int:
        """Note that user code is called; return the attempt's number in the history."""

    def attempt_ended(self, number: int, ending: str) -> None:
        """Note that user code ended."""

    def checkpointing(self, running: RunningAttempt, number: int) -> CheckpointingAttempt | None:
        """Return how an attempt makes checkpoints; None where it makes none."""

    def miscalled(self, running: RunningAttempt, complaint: str) -> None:
        """Note what is wrong with how a stage let an attempt go on."""

    def in_line(self, running: RunningAttempt, step: Step) -> None:
        """Note that an attempt waits for its limits, or waits no more."""


@dataclass(slots=True)
class _Slot:
    """An attempt, or a batch by its first one, on its way from the queue to its end."""

    running: RunningAttempt
    queued_ms: float
    pool: str
    batch: RunningBatch | None = None
    immediate: ImmediateWork | None = None
    """The fast path, where all that has to be waited for is an answer."""
    asked_ms: float = 0.0
    """Time at which its start was sent to be made durable."""
    recorded: "Future[None] | None" = None
    number: int = -1
    is_blocking: bool = False
    is_ended: bool = False


class SimulatedWorkers:
    """A bounded pool for blocking code, a loop, and a worker each for suspects and for batches."""

    def __init__(
        self,
        calls: Calls,
        settings: ExecutionSettings,
        *,
        observer: AttemptObserver,
        loop: SimulatedLoop,
        processes: SimulatedProcesses | None = None,
    ) -> None:
        self._calls, self._observer, self._loop = calls, observer, loop
        self.processes = processes
        self._free = Counter(
            threads=settings.workers, suspects=1, batches=100_000, immediate=100_000
        )
        self._free["async"] = settings.async_attempts_max
        self._queues = {pool: deque[_Slot]() for pool in self._free}
        self._queued_ms = dict[RunningAttempt, float]()
        self._batches_running = Counter[Batches]()
        self._starting, self._sequence = list[_Slot](), count()
        self._ends: list[tuple[float, int, _Slot, Callable[[], object]]] = []

    def noting(self, following: Following) -> Following:
        """Return a stage that notes when attempts come to it."""

        def enter(attempts: Sequence[RunningAttempt]) -> None:
            self._queued_ms.update(dict.fromkeys(attempts, self._calls.clock.monotonic_ms()))
            following(attempts)

        return enter

    # The last stage.

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Queue each attempt for its worker."""
        if self.processes is not None:
            there = [each for each in attempts if is_in_process(each.executor)]
            now_ms = self._calls.clock.monotonic_ms()
            queued_ms = [self._queued_ms.pop(each, now_ms) for each in there]
            self.processes.run(there, queued_ms)
            attempts = [each for each in attempts if not is_in_process(each.executor)]
        for running in attempts:
            pool = "suspects" if running.attempt.suspect else self.pool_of(running) or ""
            self._append(self._slot(running, pool))

    def run_at_once(self, running: RunningAttempt) -> bool:
        """Queue a system task that passes no stage; False where it is none."""
        executor = running.executor
        if running.attempt.suspect or not isinstance(executor, SystemExecutor):
            return False
        work = executor.immediate(running.attempt.task)
        if work is not None or executor.unslotted:
            slot = self._slot(running, "immediate")
            slot.immediate = work
            self._append(slot)
        return work is not None or executor.unslotted

    def run_batch(self, batch: RunningBatch) -> None:
        """Queue a batch."""
        slot = self._slot(batch.members[0], "batches")
        slot.batch, limits = batch, batch.batches.limits
        self._batches_running[batch.batches] += 1
        if self._batches_running[batch.batches] > limits.batches_max:
            self._observer.miscalled(slot.running, f"is in a batch beside {limits.batches_max}")
        if len(batch.members) > limits.tasks_max:
            self._observer.miscalled(slot.running, f"is in a batch of {len(batch.members)}")
        self._append(slot)

    def drain(self, partitions: Collection[int] | None) -> None:
        """Take back what processes have not begun; what runs here ends by itself."""
        if self.processes is not None:
            self.processes.drain(partitions)

    def pool_of(self, running: RunningAttempt) -> str | None:
        """Name the workers that an attempt waits for with others; None where it does not."""
        if is_in_process(running.executor):
            return "processes"
        if running.attempt.suspect:
            return None
        return "threads" if _is_blocking(running) else "async"

    def ahead(self, pool: str) -> int:
        """Return how many attempts more than run in a pool at once begin there without a wait."""
        if self.processes is None or pool != "processes":
            return 0
        return self.processes.pool.ahead

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Callable[[], object]:
        """Call something after a delay; return what calls that off."""
        return self._loop.call_later(delay_ms / 1000, call).cancel

    tell_later = call_later

    def wake_later(self, delay_ms: float, call: Callable[[], object]) -> object:
        """Have the limits looked at by ``SimulatedRunner``."""

    def _slot(self, running: RunningAttempt, pool: str) -> _Slot:
        now_ms = self._calls.clock.monotonic_ms()
        return _Slot(running, self._queued_ms.pop(running, now_ms), pool)

    def _append(self, slot: _Slot) -> None:
        self._queues[slot.pool].append(slot)
        has_turns = slot.running.freed is not None and slot.pool in {"threads", "async"}
        if has_turns and len(self._queues[slot.pool]) > self._free[slot.pool]:
            self._observer.miscalled(slot.running, f"waits for {slot.pool} out of its turn")

    # Called by the simulation.

    def blocking_partitions(self) -> tuple[int, ...]:
        """Return the partitions of which code runs that cannot be cancelled."""
        running = (slot for _, _, slot, _ in self._ends if slot.is_blocking and not slot.is_ended)
        return tuple(sorted({slot.running.attempt.partition for slot in running}))

    def next_ms(self) -> float | None:
        """Return the monotonic time at which there is something to do."""
        if self._next_pool() is not None:
            return self._calls.clock.monotonic_ms()
        ends = self._ends
        while ends and ends[0][2].is_ended:
            heapq.heappop(ends)
        next_ms = self._loop.next_ms()
        if ends and (next_ms is None or ends[0][0] < next_ms):
            next_ms = ends[0][0]
        for slot in self._starting:
            late_ms = slot.asked_ms + 1000 * START_DEADLINE_S
            next_ms = late_ms if next_ms is None else min(next_ms, late_ms)
        return next_ms

    def _next_pool(self) -> str | None:
        """Return the first pool of which a worker is free for what waits; None without one."""
        free = self._free
        for pool, queue in self._queues.items():
            if queue and free[pool]:
                return pool
        return None

    def work_one(self) -> bool:
        """End, begin or refuse one attempt; return whether there was one."""
        now_ms = self._calls.clock.monotonic_ms()
        while self._ends and self._ends[0][0] <= now_ms:
            _, _, slot, end = heapq.heappop(self._ends)
            if not slot.is_ended:
                end()
                return True
        for slot in self._starting:
            assert slot.recorded is not None, "its start is being made durable"
            is_late = now_ms >= slot.asked_ms + 1000 * START_DEADLINE_S
            if slot.recorded.done() or is_late:
                self._starting.remove(slot)
                self._take_recorded(slot, slot.recorded)
                return True
        pool = self._next_pool()
        if pool is not None:
            self._free[pool] -= 1
            self._take(self._queues[pool].popleft())
            return True
        return self._loop.run_one()

    # Attempts.

    def _take(self, slot: _Slot) -> None:
        """Give an attempt its worker; the start of what was given up is made durable there."""
        calls, running, attempt = self._calls, slot.running, slot.running.attempt
        if slot.batch is not None:
            self._begin_batch(slot, slot.batch)
        elif not calls.may_begin(running):
            self._end(slot, not_started(attempt, calls.clock.now_ms()))
        elif (uncalled := calls.uncalled(running)) is not None:
            self._end(slot, uncalled)
        elif attempt.was_given_up and attempt.record_starts is not None:
            slot.asked_ms = calls.clock.monotonic_ms()
            slot.recorded = attempt.record_starts((attempt,))
            self._starting.append(slot)
        else:
            self._begin(slot)

    def _take_recorded(self, slot: _Slot, recorded: "Future[None]") -> None:
        is_durable = recorded.done() and not recorded.cancelled() and not recorded.exception()
        if is_durable and self._calls.gate(slot.running.attempt):
            self._begin(slot)
        else:
            self._end(slot, not_started(slot.running.attempt, self._calls.clock.now_ms()))

    def _begin(self, slot: _Slot) -> None:
        running, attempt = slot.running, slot.running.attempt
        tell_attempt(running)
        slot.number = self._observer.attempt_started(running, slot.queued_ms)
        started_ms = self._calls.clock.now_ms()
        if slot.immediate is not None:
            answer = named(str(slot.number), slot.immediate)
            answer.add_done_callback(partial(self._take_end, slot, started_ms))
        elif attempt.task.key.ordering_id.startswith(RESERVED):
            self._begin_own(slot, started_ms)
        else:
            self._begin_users(slot, started_ms)

    def _begin_users(self, slot: _Slot, started_ms: int) -> None:
        """Call user code, which ends when its plan says so."""
        running, attempt = slot.running, slot.running.attempt
        task = attempt.task.to_task()
        plan = plan_of(task, attempt.number)
        slot.is_blocking, duration_ms, timeout_ms = plan.blocking, plan.duration_ms, None
        outcome: object
        ending = Ending.FAILED
        try:
            timeout_ms = timeout_ms_of(running.executor, attempt.timeout_ms)
            _die_of(plan)
            outcome = running.executor.execute(task)
        except ProcessKilled:
            raise
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            outcome = error
        if timeout_ms is not None and timeout_ms < duration_ms:
            if plan.blocking:
                key = attempt.task.key
                stuck = AttemptStuck(attempt.partition, key, "timeout", timeout_ms)
                self._calls.telemetry.emit(stuck)
            else:
                duration_ms, outcome = float(timeout_ms), TimeoutError()
                ending = Ending.TIMED_OUT

        checkpoints = self._observer.checkpointing(running, slot.number)

        def end() -> None:
            if checkpoints is not None:
                checkpoints.make(running.make)
            if isinstance(outcome, BaseException):
                ended = self._calls.failed(running, outcome, started_ms, ending)
            else:
                ended = self._calls.ended_with(running, outcome, started_ms)
            self._end(slot, ended)

        if not plan.blocking:
            self._calls.registry.let_cancel(running, partial(self._cancel_users, slot, started_ms))
        if checkpoints is not None:
            self._make_checkpoints(slot, checkpoints)
        self._end_at(duration_ms, slot, end)

    def _make_checkpoints(self, slot: _Slot, checkpoints: CheckpointingAttempt) -> None:
        """Have user code make one now and then until it ends."""

        def make() -> None:
            if not slot.is_ended:
                checkpoints.make(slot.running.make)
                self._loop.call_later(EVERY_MS / 1000, make)

        self._loop.call_later(EVERY_MS / 1000, make)

    def _begin_own(self, slot: _Slot, started_ms: int) -> None:
        """Let the executor of a system task run on the loop: what it awaits takes its time."""
        running, attempt = slot.running, slot.running.attempt
        made = running.executor.execute(attempt.task.to_task())
        work = cast("Coroutine[Any, Any, Outcome | None]", made)
        job = self._loop.begin(work, str(slot.number))
        self._calls.registry.let_cancel(running, job.cancel)

        def end(done: "asyncio.Task[Outcome | None]") -> None:
            if done.cancelled():
                self._cancel(slot)
            else:
                self._take_end(slot, started_ms, done)

        job.add_done_callback(end)

    def _take_end(
        self, slot: _Slot, started_ms: int, done: "Future[Any] | asyncio.Future[Any]"
    ) -> None:
        error = done.exception()
        outcome = done.result() if error is None else error
        self._end(slot, self._calls.ended_with(slot.running, outcome, started_ms))

    def _cancel(self, slot: _Slot) -> None:
        if not slot.is_ended:
            now_ms = self._calls.clock.now_ms()
            self._end(slot, not_started(slot.running.attempt, now_ms), "cancelled")

    def _cancel_users(self, slot: _Slot, started_ms: int) -> None:
        """Cancel user code, which ends at once: it may be stuck, or its partition is gone."""
        running = slot.running
        if running not in self._calls.stuck:
            self._cancel(slot)
        elif not slot.is_ended:
            self._end(slot, self._calls.failed(running, asyncio.CancelledError(), started_ms))

    def blocking_batches(self) -> Collection[Sequence[RunningAttempt]]:
        """Return the members of each batch that runs."""
        slots = (slot for _, _, slot, _ in self._ends if not slot.is_ended)
        return [slot.batch.members for slot in slots if slot.batch is not None]

    def _end_at(self, duration_ms: float, slot: _Slot, end: Callable[[], object]) -> None:
        end_ms = self._calls.clock.monotonic_ms() + duration_ms
        heapq.heappush(self._ends, (end_ms, next(self._sequence), slot, end))

    def _end(self, slot: _Slot, ended: AttemptEnded, ending: str | None = None) -> None:
        slot.is_ended = True
        self._free[slot.pool] += 1
        if slot.running.interrupted:
            # A command asked it to end, so nothing of its outcome counts.
            ending = "cancelled"
        if slot.number >= 0:
            self._observer.attempt_ended(slot.number, ending or ended.ending)
        self._calls.end(slot.running, ended)

    # Batches.

    def _begin_batch(self, slot: _Slot, batch: RunningBatch) -> None:
        """Call user code of a batch, which ends as a whole."""
        begun = self._calls.begin_batch(batch.members)
        numbers = [self._observer.attempt_started(each, slot.queued_ms) for each, _ in begun]
        before: set[Attempt | None] = {None}
        for each, _ in begun:
            if each.attempt.follows not in before:
                self._observer.miscalled(each, "began without the one before it in its batch")
            before.add(each.attempt)
        if not begun:
            self._end_batch(slot, batch, begun, (), ())
            return
        plans = [plan_of(each.attempt.task.to_task(), each.attempt.number) for each, _ in begun]
        for plan in plans:
            _die_of(plan)
        slot.is_blocking = True
        outcomes = batch.batches.run(batched(begun), _not_awaited)
        end = partial(self._end_batch, slot, batch, begun, numbers, outcomes)
        self._end_at(max(plan.duration_ms for plan in plans), slot, end)

    def _end_batch(
        self,
        slot: _Slot,
        batch: RunningBatch,
        begun: Begun,
        numbers: Sequence[int],
        outcomes: Sequence[BatchOutcome],
    ) -> None:
        slot.is_ended = True
        self._free[slot.pool] += 1
        self._batches_running[batch.batches] -= 1
        not_done = set[Attempt]()
        for (running, started_ms), number, outcome in zip(begun, numbers, outcomes, strict=True):
            ended = self._calls.ended_with(running, outcome, started_ms)
            # Nothing comes of what follows a task that is not done.
            is_void = running.attempt.follows in not_done
            if is_void or ended.ending not in {Ending.DONE, Ending.DROPPED}:
                not_done.add(running.attempt)
            self._observer.attempt_ended(number, "void" if is_void else ended.ending)
            self._calls.end(running, ended)
        batch.ended()


class SimulatedRunner:
    """The runner of one node, its workers, and whatever else is done when its time comes."""

    def __init__(
        self,
        calls: Calls,
        settings: ExecutionSettings,
        limits: NodeLimits,
        *,
        observer: AttemptObserver,
        loop: SimulatedLoop,
        processes: SimulatedProcesses | None = None,
    ) -> None:
        self._calls, self._loop = calls, loop
        self.processes = processes
        self.workers = workers = SimulatedWorkers(
            calls, settings, observer=observer, loop=loop, processes=processes
        )
        self.runner = NodeRunner(calls, workers, settings, limits)
        silence = (calls.registry, calls.stuck, calls.silence_limits)
        self._silence = SilenceWatch(*silence, workers.blocking_batches, calls.clock)
        if calls.silence_limits.is_any:
            self._look()
        # Times at which attempts came to the stage behind their limits.
        if self.runner.limits:
            self._watch_lines(observer)
            self.runner.limits._following = workers.noting(self.runner.limits._following)
        else:
            ahead = self.runner.made_ahead
            ahead._following = workers.noting(ahead._following)

    def _look(self) -> None:
        """Look for what is stuck, several times a second."""
        self._silence.look()
        self._loop.call_later(LOOKED_EVERY_MS / 1000, self._look)

    def _watch_lines(self, observer: AttemptObserver) -> None:
        """Have all be told that begin to wait for a limit, and in which order they go on."""
        limits = self.runner.limits
        line_up, step_out, following = limits._line_up, limits._step_out, limits._following

        def waits(running: RunningAttempt, needed: Sequence[Allowance], now_ms: float) -> None:
            observer.in_line(running, "waits")
            line_up(running, needed, now_ms)

        def leaves(ticket: Ticket) -> None:
            observer.in_line(ticket.running, "leaves")
            step_out(ticket)

        def go(attempts: Sequence[RunningAttempt]) -> None:
            for each in attempts:
                observer.in_line(each, "goes")
            following(attempts)

        limits._line_up = waits  # type: ignore[method-assign]
        limits._step_out = leaves  # type: ignore[method-assign]
        limits._following = go

    def is_woken(self) -> bool:
        """True if something on the loop may go on now."""
        next_ms = self._loop.next_ms()
        return next_ms is not None and next_ms == self._calls.clock.monotonic_ms()

    def close(self) -> None:
        """Nothing goes on that has to end."""

    def end(self) -> None:
        """The process is gone: nothing in it goes on."""
        self._loop.abandon()

    def next_ms(self) -> float | None:
        """Return the monotonic time at which there is something to do."""
        next_ms, limits_ms = self.workers.next_ms(), self.runner.limits.next_ms()
        if limits_ms is not None and (next_ms is None or limits_ms < next_ms):
            next_ms = limits_ms
        if self.processes is None:
            return next_ms
        times = (next_ms, self.processes.next_ms(), self.processes.outside_ms())
        return min((each for each in times if each is not None), default=None)

    def work_one(self) -> bool:
        """End, begin or refuse one attempt; return whether there was one."""
        limits_ms = self.runner.limits.next_ms()
        if limits_ms is not None and limits_ms <= self._calls.clock.monotonic_ms():
            self.runner.limits.look()
            return True
        if self.processes is not None and self.processes.work_one():
            return True
        return self.workers.work_one()


def _is_blocking(running: RunningAttempt) -> bool:
    task = running.attempt.task
    own = task.key.ordering_id.startswith(RESERVED)
    return not own and bool(task.to_task().data["blocking"])


def _die_of(plan: Plan) -> None:
    """Take the process down where a plan says so; nothing of ours may catch that."""
    if plan.kind == "kill":
        raise ProcessKilled


def _not_awaited(found: object) -> object:
    raise AssertionError(f"user code of a simulation returned {found}")
