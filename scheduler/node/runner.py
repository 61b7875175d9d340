"""Runs user code: blocking ``execute`` on a bounded pool of threads, ``async def`` on one loop.

Decides when an attempt gets a worker and checks the gate as the last thing before user code.
One attempt is one hand-over, never a list: a slow task may not hold others (P7).  Never
decides what follows from an outcome.
"""

import asyncio
import inspect
import logging
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextvars import Context
from functools import partial
from typing import cast

from actors.model.attempts import Attempt, AttemptEnded, Ending
from actors.model.batch_executor import BatchOutcome
from actors.model.display import log_raised
from actors.model.errors import HourhandError
from actors.model.events import AttemptStarted, AttemptStuck
from actors.model.executor_attributes import timeout_ms_of
from actors.model.sealed import refuse_sealed
from actors.model.settings import ExecutionSettings
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry
from scheduler.node.async_loop import LoopThread
from scheduler.node.attempts import (
    RunningAttempt,
    broken_off,
    not_started,
)
from scheduler.node.current_attempt import tell_attempt
from scheduler.node.durable_starts import DurableStarts
from scheduler.node.limited_attempts import LimitedAttempts
from scheduler.node.node_limits import NO_LIMITS, NodeLimits
from scheduler.node.waiting_attempts import BatchGathering, FairTurns, worker_queue
from scheduler.node.worker_threads import WorkerThreads, own_clock
from scheduler.node.worker_watch import LoopAtHand, WorkerLoad, WorkerPool
from scheduler.ports.batches import BatchedAttempt, Batches, BatchMember
from scheduler.process.forking import end_child
from scheduler.process.user_code import runs_async

START_DEADLINE_S = 30.0
"""How long an overdue task waits for its start to become durable before it is given up."""
READY_PER_WORKER = 2
"""So many overdue attempts for each worker have a durable start and wait: workers never wait for
the store, and a process that dies leaves few suspects that did not run."""

logger = logging.getLogger("hourhand.runner")


class WorkerRunner(LimitedAttempts):
    """Implements ``actors.ports.runner.Runner`` with real threads."""

    def __init__(
        self,
        *,
        clock: Clock,
        gate: Callable[[Attempt], bool],
        telemetry: Telemetry,
        settings: ExecutionSettings,
        limits: NodeLimits = NO_LIMITS,
        require_codecs: Callable[[bytes], None] = refuse_sealed,
    ) -> None:
        self._settings = settings
        # Of their own: user code may block the other loop.
        self._timers = LoopThread(1, "hourhand-timers")
        super().__init__(
            clock=clock,
            gate=gate,
            telemetry=telemetry,
            limits=limits,
            wake_later=lambda ms: self._timers.call_later(ms, self._limits.look),
            require_codecs=require_codecs,
        )
        waiting = worker_queue(limits.rules)
        self._workers = WorkerThreads(self._run, settings.workers, "hourhand-worker", waiting)
        # Suspects of a node run one at a time: if one kills the process, it is known which.
        self._suspect_lane = WorkerThreads(self._run, 1, "hourhand-suspects")
        self._loop = LoopThread(settings.async_attempts_max)
        self._async_turns: FairTurns | None = None
        """Where kinds have rules the loop is handed no more than it runs at once."""
        if limits.rules:
            most = settings.async_attempts_max
            self._async_turns = FairTurns(limits.rules, most, self._submit_in_turn)
        self._batches_at_work: dict[int, object] = {}
        self._gathering = BatchGathering(
            monotonic_ms=clock.monotonic_ms,
            call_later=self._timers.call_later,
            begin=self._begin_batch,
        )
        self._starts = self._durable_starts(limits)

    def _durable_starts(self, limits: NodeLimits) -> DurableStarts:
        return DurableStarts(
            READY_PER_WORKER * self._settings.workers,
            gate=self._gate,
            submit=self._submit_to_workers,
            refuse=self._refuse,
            give_up_later=partial(self._timers.call_later, round(1000 * START_DEADLINE_S)),
            flow_rules=limits.rules,
        )

    def _submit_allowed(self, allowed: Sequence[RunningAttempt]) -> None:
        overdue = [each for each in allowed if self._needs_durable_start(each)]
        if overdue:
            self._starts.add(overdue)
            allowed = [each for each in allowed if not self._needs_durable_start(each)]
        self._submit_to_workers(allowed)

    def _needs_durable_start(self, running: RunningAttempt) -> bool:
        """Whether its start is made durable before it has a worker.

        A suspect does it there, as does what was given up before, once its policy was asked.
        """
        attempt = running.attempt
        by_others = attempt.suspect or attempt.was_given_up
        return attempt.record_starts is not None and not by_others

    def _submit_to_workers(self, ready: Sequence[RunningAttempt]) -> None:
        blocking: list[RunningAttempt] = []
        batched: defaultdict[Batches, list[RunningAttempt]] = defaultdict(list)
        for running in ready:
            if running.attempt.suspect:
                self._submit_to(self._suspect_lane, [running])
            elif isinstance(running.executor, BatchMember) and not running.attempt.was_given_up:
                batched[running.executor.batches].append(running)
            elif not runs_async(running.executor):
                blocking.append(running)
            elif self._async_turns is None:
                self._submit_async(running)
            else:
                self._async_turns.add(running)
        self._submit_to(self._workers, blocking)
        for batches, members in batched.items():
            self._gathering.add(batches, members)

    def _submit_async(self, running: RunningAttempt, *, slotted: bool = True) -> None:
        run, lost = partial(self._run_async, running), partial(self._refuse_all, [running])
        self._loop.submit(run, lost, slotted=slotted)

    def _submit_to(self, workers: WorkerThreads, ready: Sequence[RunningAttempt]) -> None:
        if ready and not workers.submit(ready):
            self._refuse_all(ready)

    def _refuse_all(self, members: Sequence[RunningAttempt]) -> None:
        """Have the tree start these again."""
        for running in members:
            self._leave_starts(running)
            self._refuse(running)

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """End what waits for something that others do, and all that can be ended."""
        super().drain(partitions, give_up=give_up)
        if partitions is None:
            self._starts.forget()

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return the attempts of a partition whose user code has been running for so long."""
        return self._registry.running_for(partition, at_least_ms, self._clock.monotonic_ms())

    def pools(self) -> tuple[WorkerPool, ...]:
        """Return the workers that attempts wait for, to be watched; suspects take turns anyway."""
        return (
            WorkerPool(
                "threads", self._settings.workers, "tree.execution.workers", self._workers.load
            ),
            WorkerPool(
                "async",
                self._settings.async_attempts_max,
                "tree.execution.async_attempts_max",
                self._async_load,
            ),
        )

    def loop_at_hand(self) -> LoopAtHand:
        """Return whose code the event loop is in, and where."""
        task, frame = self._loop.at_hand()
        attempt = None if task is None else self._registry.of_task(task)
        if frame is None:
            return LoopAtHand(attempt, "")
        code = frame.f_code
        return LoopAtHand(attempt, f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")

    def at_work(self) -> Mapping[int, object]:
        """Return what each thread that runs user code is at, by the clock of its processor time."""
        threads = {**self._workers.at_work, **self._suspect_lane.at_work}
        return {**threads, **self._batches_at_work, **self._loop.at_work()}

    @property
    def ask_turn(self) -> Callable[[Callable[[], object]], bool]:
        """Has something called in the event loop's next turn; False where there is no loop."""
        return self._loop.ask_turn

    def nudge(self) -> None:
        """Begin the threads that the machine did not have when they were needed."""
        for workers in (self._workers, self._suspect_lane):
            workers.nudge()
        for loop in (self._loop, self._timers):
            loop.nudge()

    def _async_load(self) -> WorkerLoad:
        submitted, waiting = self._loop.load()
        in_turn = 0 if self._async_turns is None else len(self._async_turns)
        return WorkerLoad(submitted + in_turn, waiting + in_turn)

    def close(self) -> None:
        """Take no more attempts; async ones are cancelled, blocking ones end by themselves."""
        self._workers.close()
        self._suspect_lane.close()
        if self._async_turns is not None:
            self._async_turns.close()
        self._loop.close()
        self._timers.close()

    # On a worker thread.

    def _run(self, running: RunningAttempt) -> None:
        try:
            # In a context of its own: what it sets there is no other attempt's.
            ended = Context().run(self._attempt, running)
        except BaseException as error:  # noqa: BLE001 - an attempt without an end blocks its id
            ended = self._broken_off(running, error)
        self._end(running, ended)

    def _broken_off(self, running: RunningAttempt, error: BaseException) -> AttemptEnded:
        log_raised(logger, "an attempt failed outside user code; please report this")
        return broken_off(running, error, self._clock.now_ms())

    def _attempt(self, running: RunningAttempt) -> AttemptEnded:
        attempt = running.attempt
        if not self._has_durable_start(running) or not self._may_begin(running):
            return not_started(attempt, self._clock.now_ms())
        uncalled = self._uncalled(running, self._clock.now_ms())
        if uncalled is not None:
            return uncalled
        if attempt.was_given_up and not self._recorded_start(attempt):
            return not_started(attempt, self._clock.now_ms())
        started_ms = self._begin(running)
        watch, awaits = None, False
        try:
            tell_attempt(attempt, running.executor)
            timeout_ms = self._timeout_ms(running)
            watch = self._watch(running, timeout_ms)
            outcome: object = running.executor.execute(attempt.task.to_task())
            if outcome is not None and inspect.isawaitable(outcome):
                awaits = True
                awaited = self._loop.begin(outcome, self._left_ms(running, timeout_ms))
                self._registry.let_cancel(running, awaited.cancel)
                outcome = awaited.result()
            ended = self._returned(running, outcome, started_ms, self._clock.now_ms())
        except FutureTimeoutError as error:
            end_child(self._born, error)
            ending = Ending.TIMED_OUT if awaits else Ending.FAILED
            ended = self._failed(running, error, started_ms, self._clock.now_ms(), ending)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_child(self._born, error)
            ended = self._failed(running, error, started_ms, self._clock.now_ms())
        end_child(self._born)
        if watch is not None:
            watch()
        return ended

    def _timeout_ms(self, running: RunningAttempt) -> int | None:
        """Return how long an attempt may take, by its executor, which is made here if need be."""
        return timeout_ms_of(running.executor, running.attempt.timeout_ms)

    def _left_ms(self, running: RunningAttempt, timeout_ms: int | None) -> float | None:
        """Return how much of its time an attempt has left: its constructor has taken some."""
        if timeout_ms is None:
            return None
        begun_ms = running.started_monotonic_ms
        assert begun_ms is not None, "only what has begun has a timeout"
        return max(0.0, begun_ms + timeout_ms - self._clock.monotonic_ms())

    def _has_durable_start(self, running: RunningAttempt) -> bool:
        """Write the start of a suspect just before it runs, never while it waits for others."""
        attempt = running.attempt
        if attempt.record_starts is None or attempt.was_given_up:
            return True
        if self._needs_durable_start(running):
            self._starts.leave()
            return True
        if running.withdrawn or not self._gate(attempt):
            return False
        return self._recorded_start(attempt)

    def _recorded_start(self, attempt: Attempt) -> bool:
        """Wait until a start is durable, if it must be; False where that cannot be had."""
        if attempt.record_starts is None:
            return True
        try:
            attempt.record_starts((attempt,)).result(timeout=START_DEADLINE_S)
        except (CancelledError, FutureTimeoutError, HourhandError):
            # The tree went away meanwhile; its successor starts the task again.
            return False
        return True

    def _begin(self, running: RunningAttempt) -> int:
        attempt = running.attempt
        started_ms = self._clock.now_ms()
        due_ms = max(attempt.task.key.scheduled_ms, attempt.task.attempts.next_attempt_ms)
        self._telemetry.emit(
            AttemptStarted(
                attempt.partition,
                attempt.task.key,
                attempt.number,
                started_ms - due_ms,
                running.limited_ms,
                attempt.is_beside_others,
            )
        )
        return started_ms

    def _watch(
        self, running: RunningAttempt, timeout_ms: int | None
    ) -> Callable[[], object] | None:
        """Report a blocking attempt that passes its timeout; return what calls that off."""
        left_ms = self._left_ms(running, timeout_ms)
        if timeout_ms is None or left_ms is None:
            return None
        attempt = running.attempt
        event = AttemptStuck(attempt.partition, attempt.task.key, timeout_ms)
        return self._timers.call_later(left_ms, lambda: self._telemetry.emit(event))

    # In batches, on a thread of its own or on the event loop.

    def _begin_batch(self, batches: Batches, members: Sequence[RunningAttempt]) -> None:
        if batches.runs_async:
            run = partial(self._run_batch_async, batches, members)
            self._loop.submit(run, partial(self._lose_batch, batches, members))
            return
        thread = threading.Thread(
            target=Context().run,
            args=(self._run_batch, batches, members),
            name="hourhand-batch",
            daemon=True,
        )
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            self._refuse_batch(batches, members)

    def _refuse_batch(self, batches: Batches, members: Sequence[RunningAttempt]) -> None:
        """Have the tree start these again: an error here would end it, for a lack that passes."""
        text = "the machine has no thread for a batch of %d tasks; they are tried again"
        log_raised(logger, text, len(members))
        self._refuse_all(members)
        # Later: the next batch would find no thread either.
        end = partial(self._gathering.end, batches)
        self._timers.call_later(self._settings.lease_retry_ms, end)

    def _lose_batch(self, batches: Batches, members: Sequence[RunningAttempt]) -> None:
        self._refuse_all(members)
        self._gathering.end(batches)

    def _run_batch(self, batches: Batches, members: Sequence[RunningAttempt]) -> None:
        def awaited(found: Awaitable[object]) -> object:
            return self._loop.begin(found, None).result()

        clock = own_clock()
        self._batches_at_work[clock] = members
        try:
            begun = self._begun(members)
            if begun:
                watches = self._watches(begun)
                outcomes = batches.run(self._batched(begun), awaited)
                for call_off in watches:
                    call_off()
                self._end_batch(begun, outcomes)
        except BaseException as error:  # noqa: BLE001 - an attempt without an end blocks its id
            self._break_off(members, error)
        del self._batches_at_work[clock]
        self._gathering.end(batches)

    async def _run_batch_async(self, batches: Batches, members: Sequence[RunningAttempt]) -> None:
        try:
            begun = self._begun(members)
            if begun:
                running = asyncio.create_task(batches.run_async(self._batched(begun)))
                self._let_cancel_together([each for each, _ in begun], running)
                self._end_batch(begun, await running)
        except BaseException as error:  # noqa: BLE001 - as for a thread
            self._break_off(members, error)
        self._gathering.end(batches)

    def _watches(
        self, begun: Sequence[tuple[RunningAttempt, int]]
    ) -> Sequence[Callable[[], object]]:
        """Report the attempts of a blocking batch that pass its timeout; return what calls off."""
        try:
            timeout_ms = self._timeout_ms(begun[0][0])
        except BaseException:  # noqa: BLE001 - the batch reads it too, and fails of it
            return ()
        watches = (self._watch(running, timeout_ms) for running, _ in begun)
        return [each for each in watches if each is not None]

    def _begun(self, members: Sequence[RunningAttempt]) -> list[tuple[RunningAttempt, int]]:
        """Begin those attempts that may; return them, each with its start."""
        begun: list[tuple[RunningAttempt, int]] = []
        attempts: set[Attempt | None] = {None}
        for running in members:
            self._leave_starts(running)
            # What follows another one is in its batch behind it, or it would overtake it (P4).
            if running.attempt.follows not in attempts or not self._may_begin(running):
                self._refuse(running)
            elif (uncalled := self._uncalled(running, self._clock.now_ms())) is not None:
                self._end(running, uncalled)
            else:
                begun.append((running, self._begin(running)))
                attempts.add(running.attempt)
        return begun

    def _leave_starts(self, running: RunningAttempt) -> None:
        if self._needs_durable_start(running):
            self._starts.leave()

    def _batched(self, begun: Sequence[tuple[RunningAttempt, int]]) -> Sequence[BatchedAttempt]:
        return [
            BatchedAttempt(
                each.attempt.task.to_task(),
                each.attempt.number,
                each.attempt.epoch,
                cast("BatchMember", each.executor).around,
            )
            for each, _ in begun
        ]

    def _let_cancel_together(
        self, members: Sequence[RunningAttempt], running: "asyncio.Task[Sequence[BatchOutcome]]"
    ) -> None:
        """Cancel a batch once that was asked for all of it: the others are waited for."""
        loop, asked = asyncio.get_running_loop(), set[int]()

        def cancel(number: int) -> None:
            asked.add(number)
            if len(asked) == len(members):
                running.cancel()

        for number, each in enumerate(members):
            each.task = running
            self._registry.let_cancel(each, partial(loop.call_soon_threadsafe, cancel, number))

    def _end_batch(
        self,
        begun: Sequence[tuple[RunningAttempt, int]],
        outcomes: Sequence[BatchOutcome],
    ) -> None:
        now_ms = self._clock.now_ms()
        for (running, started_ms), outcome in zip(begun, outcomes, strict=True):
            ended = self._ended_with(running, outcome, started_ms, now_ms)
            self._end(running, ended)

    def _break_off(self, members: Sequence[RunningAttempt], error: BaseException) -> None:
        for running in members:
            if running.ended is None:
                self._end(running, self._broken_off(running, error))

    # On the event loop.

    def _submit_in_turn(self, running: RunningAttempt) -> None:
        self._loop.submit(partial(self._run_in_turn, running), partial(self._lose_turn, running))

    def _lose_turn(self, running: RunningAttempt) -> None:
        assert self._async_turns is not None, "attempts take turns where kinds have rules"
        self._refuse_all([running])
        self._async_turns.end()

    async def _run_in_turn(self, running: RunningAttempt) -> None:
        assert self._async_turns is not None, "attempts take turns where kinds have rules"
        try:
            await self._run_async(running)
        finally:
            self._async_turns.end()

    async def _run_async(self, running: RunningAttempt) -> None:
        try:
            ended = await self._attempt_async(running)
        except GeneratorExit as error:
            # Raised by a task that user code awaits, it closes each frame up to the loop's own.
            ended = broken_off(running, error, self._clock.now_ms())
        except BaseException as error:  # noqa: BLE001 - as for a worker
            ended = self._broken_off(running, error)
        self._end(running, ended)

    async def _attempt_async(self, running: RunningAttempt) -> AttemptEnded:
        attempt = running.attempt
        self._leave_starts(running)
        if not self._may_begin(running):
            return not_started(attempt, self._clock.now_ms())
        running.task = task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        if task is not None:
            self._registry.let_cancel(running, lambda: loop.call_soon_threadsafe(task.cancel))
        uncalled = self._uncalled(running, self._clock.now_ms())
        if uncalled is not None:
            return uncalled
        if attempt.was_given_up and not await asyncio.to_thread(self._recorded_start, attempt):
            return not_started(attempt, self._clock.now_ms())
        started_ms = self._begin(running)
        return await self._execute_async(running, started_ms)

    async def _execute_async(self, running: RunningAttempt, started_ms: int) -> AttemptEnded:
        attempt = running.attempt
        limit = asyncio.timeout(None)
        try:
            tell_attempt(attempt, running.executor)
            left_ms = self._left_ms(running, self._timeout_ms(running))
            if left_ms is not None:
                limit = asyncio.timeout(left_ms / 1000)
            async with limit:
                outcome = running.executor.execute(attempt.task.to_task())
                if inspect.isawaitable(outcome):
                    outcome = await outcome
            end_child(self._born)
            return self._returned(running, outcome, started_ms, self._clock.now_ms())
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_child(self._born, error)
            ending = Ending.TIMED_OUT if limit.expired() else Ending.FAILED
            return self._failed(running, error, started_ms, self._clock.now_ms(), ending)
