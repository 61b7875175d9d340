"""A node without threads: the real tree and node code, run round by round under a clock that
only moves when told to.

Only the log, the store, the clock and the running of user code are replaced.  The test kit
and the simulation are built from it.
"""

import asyncio
import contextvars
import inspect
import math
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from typing import NamedTuple, TypeVar, cast

from actors.kernel.simulated import SimulatedSystem, VirtualClock
from actors.kernel.supervision import FailureListener
from actors.model.attempts import Attempt, AttemptEnded
from actors.model.backoff import JITTER
from actors.model.bucket import HOUR_MS
from actors.model.events import AttemptStarted
from actors.model.flow import FlowRules
from actors.model.instant import INSTANT_MAX_MS
from actors.model.settings import TreeSettings
from actors.ports.clock import Clock
from actors.ports.effects import Effects
from actors.ports.store import Stores
from actors.ports.telemetry import Telemetry
from scheduler.adapters.memory.broker import MemoryBroker
from scheduler.adapters.memory.log import MemoryLog
from scheduler.adapters.memory.writer import MemoryWriter
from scheduler.configuration.settings import GroupSettings, Settings
from scheduler.futures.light_future import resolve
from scheduler.node.attempts import (
    RunningAttempt,
)
from scheduler.node.current_attempt import tell_attempt
from scheduler.node.lease import Lease
from scheduler.node.limited_attempts import LimitedAttempts
from scheduler.node.node import Node
from scheduler.node.node_limits import NO_LIMITS, NodeLimits
from scheduler.ports.batches import BatchedAttempt, Batches, BatchMember
from scheduler.ports.messages import MessageWriter
from scheduler.process.forking import end_child
from scheduler.services.system_registry import SystemTaskRegistry
from scheduler.services.timers.executor import CallbackFailed, Caller

_FOR_EVER_MS = 10**15
_BOUNDLESS = 10**15

VIRTUAL_GROUP = GroupSettings.model_construct(
    # Not validated: a clock that jumps by a year must not cost the only node its membership.
    session_timeout_ms=_FOR_EVER_MS,
    max_poll_interval_ms=_FOR_EVER_MS,
)


def virtual_tree(tree: TreeSettings | None) -> TreeSettings:
    """Return settings of the tree that suit a clock which jumps.

    All tasks are in memory, however far ahead and however many, and nobody sets the clock unseen:
    else a node would look at its store and its clock all the time, for nothing.
    """
    tree = tree or TreeSettings()
    # Not validated: no node has such a window.
    window = tree.window.model_copy(
        update={
            "look_ahead_ms": INSTANT_MAX_MS,
            "tasks_max": _BOUNDLESS,
            "memory_bytes_max": _BOUNDLESS,
            "clock_check_ms": _FOR_EVER_MS,
            "slow_attempt_ms": HOUR_MS,
        }
    )
    watermark = tree.watermark.model_copy(update={"interval_ms": HOUR_MS})
    return tree.model_copy(update={"window": window, "watermark": watermark})


ROUNDS_MAX = 1_000_000
"""A bound on the work between two moments, so that a task which reschedules itself for now
fails the test instead of hanging it."""

_CLAIM_ROUNDS = 3
"""A claim is asked for, answered and handed over in rounds the tree hears nothing of."""


Result = TypeVar("Result")


def awaited(awaitable: Awaitable[Result]) -> Result:
    """Return what an awaitable comes to, on an event loop of its own, whose end is waited for.

    Where a loop runs in this thread already, as in a test that is a coroutine, the other one runs
    in another thread: one thread has one running loop.
    """

    async def wait() -> Result:
        return await awaitable

    if not _runs_a_loop():
        return asyncio.run(wait())
    outcome: Future[Result] = Future()
    context = contextvars.copy_context()
    work = partial(context.run, asyncio.run, wait())
    threading.Thread(
        target=resolve, args=(outcome, work), name="hourhand-virtual-loop", daemon=True
    ).start()
    return outcome.result()


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Callback(NamedTuple):
    """A callback as it was made."""

    uri: str
    body: bytes
    sequence_number: int
    at_ms: int
    of: str


class RecordingCaller:
    """Implements ``Caller``: keeps what it is asked for, and fails as it is told to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made: list[Callback] = []
        self.failures = 0
        """So many of the next callbacks fail."""

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """Keep a callback; raises CallbackFailed where it is to fail."""
        self.made.append(Callback(uri, body, sequence_number, self._clock.now_ms(), of))
        if self.failures:
            self.failures -= 1
            raise CallbackFailed("the test wants it to fail")


class VirtualRunner(LimitedAttempts):
    """Runs one attempt at a time in the caller's thread; implements ``Runner``.

    User code takes no virtual time.  An ``async def execute`` is run to its end, as ``awaited``
    does.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        gate: Callable[[Attempt], bool],
        telemetry: Telemetry,
        limits: NodeLimits = NO_LIMITS,
        rng: random.Random = JITTER,
    ) -> None:
        super().__init__(
            clock=clock,
            gate=gate,
            telemetry=telemetry,
            limits=limits,
            # Asked for by ``next_timer_ms``.
            wake_later=lambda _: None,
            rng=rng,
        )
        self.note_start: Callable[[Attempt], object] = lambda _attempt: None
        """Told of each attempt whose user code is called, just before."""
        self._ready: deque[RunningAttempt] = deque()
        self._asked: set[Future[None]] = set()
        """Starts that are not durable yet."""

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """End what waits for something that others do, and all that can be ended."""
        super().drain(partitions, give_up=give_up)
        if partitions is None:
            for recorded in tuple(self._asked):
                recorded.cancel()

    def _submit_allowed(self, allowed: Sequence[RunningAttempt]) -> None:
        for running in allowed:
            self._submit_one(running)

    def next_timer_ms(self) -> float | None:
        """Return the monotonic time at which a limit lets something through; None for never."""
        return self._limits.next_ms()

    def _submit_one(self, running: RunningAttempt) -> None:
        attempt = running.attempt
        if attempt.record_starts is None or attempt.was_given_up:
            self._ready.append(running)
            return
        if not self._gate(attempt):
            self._refuse(running)
            return
        recorded = attempt.record_starts((attempt,))
        self._asked.add(recorded)
        recorded.add_done_callback(lambda done: self._take_start(running, done))

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return nothing: no user code runs between two calls."""
        del partition, at_least_ms
        return {}

    def run_one(self) -> bool:
        """Run one queued attempt, or one batch, to its end; return False where there is none."""
        next_ms = self.next_timer_ms()
        if not self._ready and next_ms is not None and next_ms <= self._clock.monotonic_ms():
            self._limits.look()
            # What it let through may ask the tree for a durable start first.
            return True
        if not self._ready:
            return False
        running = self._ready.popleft()
        if isinstance(running.executor, BatchMember):
            self._run_batch([running, *self._take_others(running.executor.batches)])
        else:
            self._run_alone(running)
        return True

    def _run_alone(self, running: RunningAttempt) -> None:
        # In a context of its own, as on a node: what it sets there is not the test's.
        context = Context()
        started_ms = context.run(self._begin, running)
        if started_ms is not None:
            outcome = context.run(self._executed, running)
            ended = context.run(self._ended_now, running, outcome, started_ms)
            self._end(running, ended)

    def _executed(self, running: RunningAttempt) -> object:
        """Return what user code returned, or the exception that it raised."""
        try:
            tell_attempt(running.attempt, running.executor)
            outcome: object = running.executor.execute(running.attempt.task.to_task())
            if inspect.isawaitable(outcome):
                outcome = awaited(outcome)
        except KeyboardInterrupt:
            # A person who runs the test wants it to end.
            raise
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_child(self._born, error)
            return error
        end_child(self._born)
        return outcome

    def _take_others(self, batches: Batches) -> Sequence[RunningAttempt]:
        """Take what else is ready and fits into a batch."""
        fitting = [
            each
            for each in self._ready
            if isinstance(each.executor, BatchMember) and each.executor.batches is batches
        ][: batches.limits.tasks_max - 1]
        for each in fitting:
            self._ready.remove(each)
        return fitting

    def _run_batch(self, members: Sequence[RunningAttempt]) -> None:
        begun: list[tuple[RunningAttempt, int]] = []
        before: set[Attempt | None] = {None}
        for each in members:
            # What follows another one is in its batch behind it, or it would overtake it.
            if each.attempt.follows not in before:
                self._refuse(each)
            elif (started_ms := self._begin(each)) is not None:
                begun.append((each, started_ms))
                before.add(each.attempt)
        if not begun:
            return
        attempts = [
            BatchedAttempt(each.attempt.task.to_task(), each.attempt.number, each.attempt.epoch)
            for each, _ in begun
        ]
        batches = cast("BatchMember", members[0].executor).batches
        if batches.runs_async:
            outcomes = Context().run(lambda: awaited(batches.run_async(attempts)))
        else:
            outcomes = Context().run(batches.run, attempts, awaited)
        for (running, started_ms), outcome in zip(begun, outcomes, strict=True):
            if isinstance(outcome, KeyboardInterrupt):
                raise outcome
            self._end(running, self._ended_now(running, outcome, started_ms))

    def _begin(self, running: RunningAttempt) -> int | None:
        """Return when user code is called, now; None where it may not be."""
        attempt = running.attempt
        if not self._may_begin(running):
            self._refuse(running)
            return None
        started_ms = self._clock.now_ms()
        uncalled = self._uncalled(running, started_ms)
        if uncalled is not None:
            self._end(running, uncalled)
            return None
        due_ms = max(attempt.task.key.scheduled_ms, attempt.task.attempts.next_attempt_ms)
        event = AttemptStarted(
            attempt.partition,
            attempt.task.key,
            attempt.number,
            started_ms - due_ms,
            running.limited_ms,
            attempt.is_beside_others,
        )
        self._telemetry.emit(event)
        self.note_start(attempt)
        return started_ms

    def _ended_now(self, running: RunningAttempt, outcome: object, started_ms: int) -> AttemptEnded:
        """Return the end of an attempt from what user code returned or raised."""
        return self._ended_with(running, outcome, started_ms, self._clock.now_ms())

    def _take_start(self, running: RunningAttempt, recorded: "Future[None]") -> None:
        """Queue an attempt whose start is durable; its tree may have gone meanwhile."""
        self._asked.discard(recorded)
        if recorded.cancelled() or recorded.exception() is not None:
            self._refuse(running)
        else:
            self._ready.append(running)


class VirtualPorts(NamedTuple):
    """What nodes on one virtual installation share."""

    broker: MemoryBroker
    stores: Stores
    telemetry: Telemetry


def virtual_kinds(
    settings: Settings, ports: VirtualPorts, messages: MessageWriter, caller: Caller
) -> SystemTaskRegistry:
    """Return what runs system tasks on a virtual node; nothing there waits in real time."""
    return SystemTaskRegistry(
        settings=settings,
        stores=ports.stores,
        writer=MemoryWriter(ports.broker),
        partition_count=len(ports.broker.partitions),
        clock=ports.broker.clock,
        telemetry=ports.telemetry,
        open_messages=lambda: messages,
        open_caller=lambda: caller,
        # A virtual process never stands still while another one goes on.
        lease_ends_ms=lambda: math.inf,
        looks_max=1,
    )


class VirtualNode:
    """One real node on a shared virtual installation, stepped by hand."""

    def __init__(
        self,
        broker: MemoryBroker,
        effects_of: Callable[[VirtualRunner], Effects],
        *,
        settings: Settings,
        clock: VirtualClock,
        telemetry: Telemetry,
        rng: random.Random | None = None,
        rules: FlowRules = FlowRules.NONE,
        on_node: Mapping[str | None, int] | None = None,
    ) -> None:
        chance = rng or random.Random(0)  # noqa: S311 - a repeatable test, no secret
        self.log = MemoryLog(broker, settings, clock)
        self.lease = Lease(clock, self.log.lease_ends_ms)
        self.runner = VirtualRunner(
            clock=clock,
            gate=self.lease.allows,
            telemetry=telemetry,
            limits=NodeLimits(rules, on_node or {}, len(broker.partitions), self.lease),
            rng=chance,
        )
        self.lease.also_tell(self.runner.heed)
        self.system: SimulatedSystem

        def make_system(on_failure: FailureListener) -> SimulatedSystem:
            self.system = SimulatedSystem(clock, on_failure, rng)
            return self.system

        self.node = Node(
            log=self.log,
            lease=self.lease,
            clock=clock,
            effects=effects_of(self.runner),
            make_system=make_system,
            commit_interval_ms=settings.group.commit_interval_ms,
            lease_ms=settings.group.session_timeout_ms - settings.group.lease_margin_ms,
            rng=chance,
        )

    def work(self) -> bool:
        """Do one round and all that follows from it now; return whether there was any work."""
        was_ready = self.node.is_ready
        worked = self._work_round()
        for _ in range(_CLAIM_ROUNDS):
            if self.node.is_ready or not self.node.partitions:
                break
            worked = self._work_round() or worked
        return worked or self.node.is_ready != was_ready

    def _work_round(self) -> bool:
        was_ready = self.node.is_ready
        self.node.step(0)
        if self.node.is_ready and not was_ready:
            # The lease begins with the poll after the first commit; what is due needs it now.
            self.node.step(0)
        messages = 0
        while messages < ROUNDS_MAX and (self.system.run_one() or self.runner.run_one()):
            messages += 1
        if messages == ROUNDS_MAX:
            raise RuntimeError(f"the tree is still busy after {ROUNDS_MAX} messages at one moment")
        # A round without work still asks the tree once, which is one message.
        return messages > 1

    def next_timer_ms(self) -> float | None:
        """Return the monotonic time at which the tree wants to go on by itself."""
        return _earliest(self.system.next_timer_ms(), self.runner.next_timer_ms())

    def next_deadline_ms(self) -> float | None:
        """Return the monotonic time at which something happens by itself; None for never.

        What only looks, and tidies, comes late without harm.
        """
        return _earliest(self.system.next_deadline_ms(), self.runner.next_timer_ms())


def _earliest(*moments_ms: float | None) -> float | None:
    return min((each for each in moments_ms if each is not None), default=None)
