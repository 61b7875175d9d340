"""The runner of simulated user code, which lets it last in virtual time.

It keeps attempts in the engine's own registry and asks the engine's own gate.  How an attempt
goes is ``user_code``'s matter.
"""

import asyncio
import heapq
import random
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, cast

from actors.model.attempts import Attempt, AttemptEnded, Ending
from actors.model.definition import RESERVED
from actors.model.events import AttemptStuck
from actors.model.executor_attributes import policy_of, timeout_ms_of
from actors.model.outcome import Outcome
from actors.model.task import Task
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry
from scheduler.node.attempts import (
    RunningAttempt,
    ended_badly,
    not_started,
)
from scheduler.node.current_attempt import tell_attempt
from scheduler.node.durable_starts import DurableStarts
from scheduler.node.limited_attempts import LimitedAttempts
from scheduler.node.node_limits import NO_LIMITS, NodeLimits
from scheduler.node.runner import START_DEADLINE_S
from scheduler.node.system_executor import ImmediateWork, SystemExecutor
from scheduler.node.waiting_attempts import AttemptsInTurn, WaitingAttempts, waiting_attempts
from tests.simulation.loop import SimulatedLoop, named
from tests.simulation.user_code import Plan, ProcessKilled, plan_of


class AttemptObserver(Protocol):
    """Hears what the runner does with user code."""

    def attempt_started(self, running: RunningAttempt, queued_ms: float) -> int:
        """Note that user code is called; return the attempt's number in the history."""

    def attempt_ended(self, number: int, ending: str) -> None:
        """Note that user code ended."""


@dataclass(slots=True)
class _Slot:
    """An attempt on its way from the queue to its end."""

    running: RunningAttempt
    queued_ms: float
    asked_ms: float = 0.0
    """When its start was sent to be made durable."""
    number: int = -1
    plan: Plan | None = None
    outcome: Callable[[], AttemptEnded] | None = None
    recorded: "Future[None] | None" = None
    ended: bool = False
    immediate: ImmediateWork | None = None
    """The fast path, where all that has to be waited for is an answer."""


_BEHIND = "immediate"
"""What follows another attempt takes no place of its own."""


class SimulatedRunner(LimitedAttempts):
    """Implements ``Runner``: a bounded pool for blocking code, one lane for suspects.

    ``_behind`` holds what follows an attempt that waits, by that one, ``_not_done`` what ended in a
    way that leaves its task open.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        gate: Callable[[Attempt], bool],
        telemetry: Telemetry,
        observer: AttemptObserver,
        workers: int,
        loop: SimulatedLoop,
        rng: random.Random,
        limits: NodeLimits = NO_LIMITS,
    ) -> None:
        self._loop, self._observer = loop, observer
        super().__init__(
            clock=clock,
            gate=gate,
            telemetry=telemetry,
            limits=limits,
            wake_later=lambda _: None,  # ``next_ms`` says when.
            rng=rng,
        )
        self._room = {"workers": workers, "suspects": 1, "loop": 1_000, "immediate": 100_000}
        self._queues: dict[str, WaitingAttempts] = {
            "workers": waiting_attempts(limits.rules),
            "suspects": AttemptsInTurn(),
            "loop": waiting_attempts(limits.rules),
            "immediate": AttemptsInTurn(),
        }
        self._queued = dict[int, _Slot]()  # What is known of those that wait, by attempts' ids.
        self._behind, self._not_done = dict[Attempt, RunningAttempt](), set[Attempt]()
        self._starting, self._sequence = list[tuple[str, _Slot]](), count()
        self._ends: list[tuple[float, int, str, _Slot]] = []
        self._starts = DurableStarts(
            2 * workers,
            gate=gate,
            submit=self._queue_all,
            refuse=self._refuse,
            give_up_later=lambda call: loop.call_later(START_DEADLINE_S, call).cancel,
            flow_rules=limits.rules,
        )

    def _submit_allowed(self, allowed: Sequence[RunningAttempt]) -> None:
        """Queue attempts for workers, overdue ones once their starts are durable."""
        overdue = []
        for running in allowed:
            attempt = running.attempt
            is_ours = attempt.task.key.ordering_id.startswith(RESERVED)
            by_others = attempt.suspect or attempt.was_given_up or is_ours
            if attempt.record_starts is None or by_others:
                self._queue(running)
            else:
                overdue.append(running)
        self._starts.add(overdue)

    def _queue_all(self, recorded: Sequence[RunningAttempt]) -> None:
        for running in recorded:
            self._queue(running)

    def _queue(self, running: RunningAttempt) -> None:
        attempt, executor = running.attempt, running.executor
        if attempt.follows is not None:
            self._queue_behind(running, attempt.follows)
            return
        immediate = None
        if not attempt.suspect and isinstance(executor, SystemExecutor):
            immediate = executor.immediate(attempt.task)
        if immediate is not None:
            self._append("immediate", running, immediate)
            return
        own = attempt.task.key.ordering_id.startswith(RESERVED)
        blocking = not own and bool(attempt.task.to_task().data["blocking"])
        lane = "suspects" if attempt.suspect else "workers" if blocking else "loop"
        self._append(lane, running, None)

    def _queue_behind(self, running: RunningAttempt, follows: Attempt) -> None:
        before = self._registry.find(follows)
        if before is not None and before.started_monotonic_ms is None and before.ended is None:
            self._behind[follows] = running
        else:
            self._refuse_behind(running)

    def _refuse_behind(self, running: RunningAttempt | None) -> None:
        """Refuse what follows an attempt that did not begin, and what follows that."""
        while running is not None:
            if running.attempt.record_starts is not None:
                self._starts.leave()
            self._refuse(running)
            running = self._behind.pop(running.attempt, None)

    def _append(self, lane: str, running: RunningAttempt, immediate: ImmediateWork | None) -> None:
        slot = _Slot(running, self._clock.monotonic_ms(), immediate=immediate)
        self._queued[id(running)] = slot
        self._queues[lane].extend((running,))

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """End what waits for something that others do, and all that can be ended."""
        super().drain(partitions, give_up=give_up)
        if partitions is None:
            self._starts.forget()

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return the attempts of a partition whose user code has been running for so long."""
        return self._registry.running_for(partition, at_least_ms, self._clock.monotonic_ms())

    def _give_up(self, abandoned: Sequence[RunningAttempt], reason: str) -> None:
        super()._give_up(abandoned, reason)
        for _, _, lane, slot in sorted(self._ends, key=lambda entry: entry[:2]):
            if slot.running in abandoned and slot.plan and not slot.plan.blocking:
                self._end_slot(lane, slot, "cancelled", not_started(slot.running.attempt, 0))

    def blocking_partitions(self) -> tuple[int, ...]:
        """Return the partitions of which code runs that cannot be cancelled."""
        running = (slot for *_, slot in self._ends if not slot.ended)
        blocking = (slot for slot in running if slot.plan is not None and slot.plan.blocking)
        return tuple(sorted({slot.running.attempt.partition for slot in blocking}))

    def next_ms(self) -> float | None:
        """Return the monotonic time at which there is something to do."""
        if any(queue and self._room[lane] for lane, queue in self._queues.items()):
            return self._clock.monotonic_ms()
        while self._ends and self._ends[0][3].ended:
            heapq.heappop(self._ends)
        times = [slot.asked_ms + 1000 * START_DEADLINE_S for _, slot in self._starting]
        others = (self._loop.next_ms(), self._limits.next_ms())
        times += [each for each in others if each is not None]
        return min([*times, *(entry[0] for entry in self._ends[:1])], default=None)

    def work_one(self) -> bool:
        """End, begin or refuse one attempt; return whether there was one."""
        now_ms = self._clock.monotonic_ms()
        limits_ms = self._limits.next_ms()
        if limits_ms is not None and limits_ms <= now_ms:
            self._limits.look()
            return True
        while self._ends and self._ends[0][0] <= now_ms:
            _, _, lane, slot = heapq.heappop(self._ends)
            if not slot.ended:
                self._end_planned(lane, slot)
                return True
        for lane, slot in self._starting:
            assert slot.recorded is not None, "its start is being made durable"
            late = now_ms >= slot.asked_ms + 1000 * START_DEADLINE_S
            if slot.recorded.done() or late:
                self._starting.remove((lane, slot))
                durable = slot.recorded.done() and not slot.recorded.cancelled()
                self._begin(lane, slot, durable=durable and slot.recorded.exception() is None)
                return True
        for lane, queue in self._queues.items():
            if queue and self._room[lane]:
                self._room[lane] -= 1
                self._take(lane, self._queued.pop(id(queue.popleft())))
                return True
        return self._loop.run_one()

    def _take(self, lane: str, slot: _Slot) -> None:
        """Give an attempt its worker; a suspect's start is made durable there."""
        attempt = slot.running.attempt
        is_ours = attempt.task.key.ordering_id.startswith(RESERVED)
        begins_here = attempt.suspect or (attempt.was_given_up and not is_ours)
        if attempt.record_starts is None or not begins_here:
            if attempt.record_starts is not None and not is_ours:
                self._starts.leave()
            self._begin(lane, slot, durable=True)
        elif self._gate(attempt):
            if attempt.was_given_up and (ended := self._uncalled(slot.running, 0)) is not None:
                self._room[lane] += 1
                self._end(slot.running, ended)
                return
            slot.asked_ms = self._clock.monotonic_ms()
            slot.recorded = attempt.record_starts((attempt,))
            self._starting.append((lane, slot))
        else:
            self._begin(lane, slot, durable=False)

    def _begin(self, lane: str, slot: _Slot, *, durable: bool) -> None:
        running, attempt = slot.running, slot.running.attempt
        if not (durable and self._may_begin(running)):
            self._room[lane] += 1
            self._refuse(running)
            self._refuse_behind(self._behind.pop(attempt, None))
            return
        uncalled = self._uncalled(running, self._clock.now_ms())
        if uncalled is not None:
            self._room[lane] += 1
            self._end(running, uncalled)
            self._refuse_behind(self._behind.pop(attempt, None))
            return
        tell_attempt(attempt, running.executor)
        slot.number = self._observer.attempt_started(running, slot.queued_ms)
        task = attempt.task.to_task()
        if task.key.ordering_id.startswith(RESERVED):
            self._begin_own(lane, slot, task)
            return
        slot.plan = plan_of(task, attempt.number)
        end_ms = self._begin_users(lane, slot, task, None)
        self._begin_behind(slot, end_ms)

    def _begin_behind(self, before: _Slot, end_ms: float) -> None:
        """Begin what follows an attempt in its batch, which ends as a whole."""
        while (running := self._behind.pop(before.running.attempt, None)) is not None:
            attempt = running.attempt
            if not self._may_begin(running):
                self._refuse_behind(running)
                return
            if attempt.record_starts is not None:
                self._starts.leave()
            slot = _Slot(running, before.queued_ms)
            self._room[_BEHIND] -= 1
            tell_attempt(attempt, running.executor)
            slot.number = self._observer.attempt_started(running, slot.queued_ms)
            task, first = attempt.task.to_task(), before.plan
            assert first is not None, "user code of the one before was called"
            plan = plan_of(task, attempt.number)
            slot.plan = Plan(plan.kind, first.duration_ms, first.blocking)
            self._begin_users(_BEHIND, slot, task, end_ms)
            before = slot

    def _begin_users(self, lane: str, slot: _Slot, task: Task, end_ms: float | None) -> float:
        """Call user code; return when it ends, which is ``end_ms`` where that is given."""
        running, attempt, plan = slot.running, slot.running.attempt, slot.plan
        assert plan is not None, "its data says how it goes"
        started_ms = self._clock.now_ms()
        timeout_ms = attempt.timeout_ms
        try:
            timeout_ms = timeout_ms_of(running.executor, timeout_ms)
            outcome = running.executor.execute(task)
            slot.outcome = lambda: self._returned(
                running, outcome, started_ms, self._clock.now_ms()
            )
        except ProcessKilled:
            raise
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            # Bound outside the handler, which forgets its own name for the error.
            failure = error
            slot.outcome = lambda: self._raised(running, failure, started_ms)
        duration_ms = plan.duration_ms
        if timeout_ms is not None and timeout_ms < duration_ms:
            if plan.blocking:
                event = AttemptStuck(attempt.partition, attempt.task.key, timeout_ms)
                self._telemetry.emit(event)
            else:
                duration_ms = float(timeout_ms)
                slot.outcome = lambda: self._raised(
                    running, TimeoutError(), started_ms, Ending.TIMED_OUT
                )
        if end_ms is None:
            end_ms = self._clock.monotonic_ms() + duration_ms
        heapq.heappush(self._ends, (end_ms, next(self._sequence), lane, slot))
        return end_ms

    def _raised(
        self,
        running: RunningAttempt,
        error: BaseException,
        started_ms: int,
        ending: Ending = Ending.FAILED,
    ) -> AttemptEnded:
        """Return the end of an attempt whose user code raised, now."""
        policy, now_ms = policy_of(running.executor), self._clock.now_ms()
        attempt = running.attempt
        return ended_badly(attempt, error, started_ms, now_ms, ending, policy, self._rng)

    def _begin_own(self, lane: str, slot: _Slot, task: Task) -> None:
        """Let the executor of a system task run on the loop: what it awaits takes its time."""
        running, attempt = slot.running, slot.running.attempt
        started_ms = self._clock.now_ms()
        if slot.immediate is not None:
            self._begin_immediate(lane, slot, slot.immediate, started_ms)
            return
        work = cast("Coroutine[Any, Any, Outcome | None]", running.executor.execute(task))
        job = self._loop.begin(work, str(slot.number))
        self._registry.let_cancel(running, job.cancel)

        def end(done: "asyncio.Task[Outcome | None]") -> None:
            if done.cancelled():
                self._end_slot(lane, slot, "cancelled", not_started(attempt, 0))
            else:
                self._take_end(lane, slot, started_ms, done)

        job.add_done_callback(end)

    def _begin_immediate(
        self, lane: str, slot: _Slot, work: ImmediateWork, started_ms: int
    ) -> None:
        """Hand a task's work over, and end when it is answered."""
        answer = named(str(slot.number), work)
        answer.add_done_callback(lambda done: self._take_end(lane, slot, started_ms, done))

    def _take_end(
        self, lane: str, slot: _Slot, started_ms: int, done: "Future[Any] | asyncio.Future[Any]"
    ) -> None:
        running, now_ms, error = slot.running, self._clock.now_ms(), done.exception()
        if error is not None:
            ended = self._raised(running, error, started_ms)
        else:
            ended = self._returned(running, done.result(), started_ms, now_ms)
        self._end_slot(lane, slot, ended.ending, ended)

    def _end_planned(self, lane: str, slot: _Slot) -> None:
        assert slot.outcome is not None, "only what began ends"
        ended = slot.outcome()
        self._end_slot(lane, slot, ended.ending, ended)

    def _end_slot(self, lane: str, slot: _Slot, ending: str, ended: AttemptEnded) -> None:
        slot.ended = True
        self._room[lane] += 1
        attempt = slot.running.attempt
        if attempt.follows in self._not_done:
            # Nothing that comes of it counts.
            ending = "void"
        if ending not in {Ending.DONE, Ending.DROPPED}:
            self._not_done.add(attempt)
        self._observer.attempt_ended(slot.number, ending)
        self._end(slot.running, ended)
