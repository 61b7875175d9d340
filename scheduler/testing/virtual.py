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
from typing import NamedTuple, Protocol, TypeVar

from hourhand.actors.kernel.simulated import SimulatedSystem, VirtualClock
from hourhand.actors.kernel.supervision import FailureListener
from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.backoff import JITTER
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.store import Stores
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.log import MemoryLog
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.settings import GroupSettings, Settings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls, batched
from hourhand.scheduler.node.current_attempt import tell_attempt
from hourhand.scheduler.node.lease import Lease
from hourhand.scheduler.node.limits.node_limits import NO_LIMITS, NodeLimits
from hourhand.scheduler.node.node import Node
from hourhand.scheduler.node.runner import NodeRunner
from hourhand.scheduler.node.silence import NEVER_STUCK, SilenceLimits
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.ports.processes import ProcessBatches, is_in_process
from hourhand.scheduler.runtime.forking import end_child
from hourhand.scheduler.runtime.light_future import resolve
from hourhand.scheduler.services.system_registry import SystemTaskRegistry
from hourhand.scheduler.services.timers.executor import CallbackFailed, Caller
from hourhand.scheduler.testing.hanging import HangingAttempts
from hourhand.scheduler.testing.scripted import Scripts

_FOR_EVER_MS = 10**15
_BOUNDLESS = 10**15

VIRTUAL_GROUP = GroupSettings.model_construct(
    # It is not validated: a clock that jumps by a year must not cost the only node its membership.
    session_timeout_ms=_FOR_EVER_MS,
    max_poll_interval_ms=_FOR_EVER_MS,
)


def virtual_tree(tree: TreeSettings | None) -> TreeSettings:
    """Return settings of the tree that suit a clock which jumps.

    All tasks are in memory, any number and any time ahead, and the clock is never set unseen:
    otherwise a node would look at its store and its clock all the time, for nothing.
    """
    tree = tree or TreeSettings()
    # It is not validated: no node has such a window.
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
"""A bound on the work between two moments, so that a task which reschedules itself for now fails
the test instead of hanging it."""

_CLAIM_ROUNDS = 3
"""A claim is requested, answered and handed over in rounds without messages to the tree."""


Result = TypeVar("Result")


def awaited(awaitable: Awaitable[Result]) -> Result:
    """Return the result of an awaitable, on an event loop of its own.

    If a loop already runs in this thread, as in a test that is a coroutine, the other one runs in
    another thread: one thread has one running loop.
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
    """A recorded callback."""

    uri: str
    body: bytes
    sequence_number: int
    at_ms: int
    of: str


class RecordingCaller:
    """Implements ``Caller``: records callbacks, and fails as configured."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made: list[Callback] = []
        self.failures = 0
        """Number of the next callbacks that fail."""

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """Record a callback; raises CallbackFailed if it should fail."""
        self.made.append(Callback(uri, body, sequence_number, self._clock.now_ms(), of))
        if self.failures:
            self.failures -= 1
            raise CallbackFailed("the test wants it to fail")


class ProcessStage(Protocol):
    """Runs what runs in processes, moved by hand."""

    @property
    def places(self) -> int:
        """The number of processes."""

    @property
    def hangs(self) -> bool:
        """True if user code of one of them hangs."""

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Run each attempt as soon as a process is free for it."""

    def run_batch(self, batch: RunningBatch) -> None:
        """Run some attempts together."""

    def drain(self, partitions: Collection[int] | None) -> None:
        """Let attempts of these partitions end in time."""

    def run_one(self) -> bool:
        """Do one thing that is due; return False if there is none."""

    def next_ms(self) -> float | None:
        """Return the monotonic time at which something is due; None for never."""


class VirtualWorkers:
    """The last stage: runs one attempt, or one batch, at a time in the caller's thread.

    User code takes no virtual time.  An ``async def execute`` is run to its end, as ``awaited``
    does.
    """

    def __init__(
        self,
        calls: Calls,
        processes: ProcessStage | None = None,
        hanging: HangingAttempts | None = None,
    ) -> None:
        """``processes`` run what runs in processes; None where nothing does, as for what hangs."""
        self._calls = calls
        self.processes = processes
        self.hanging = hanging
        self.note_start: Callable[[Attempt], object] = lambda _attempt: None
        """Called with each attempt, just before its user code."""
        self.ready: deque[RunningAttempt | RunningBatch] = deque()
        """Attempts and batches that may run now."""

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Queue attempts."""
        if self.processes is not None:
            there = [each for each in attempts if is_in_process(each.executor)]
            if there:
                self.processes.run(there)
                attempts = [each for each in attempts if not is_in_process(each.executor)]
        self.ready.extend(attempts)

    def run_at_once(self, running: RunningAttempt) -> bool:
        """Return False: there is no fast path."""
        del running
        return False

    def run_batch(self, batch: RunningBatch) -> None:
        """Queue a batch."""
        if self.processes is not None and isinstance(batch.batches, ProcessBatches):
            self.processes.run_batch(batch)
        else:
            self.ready.append(batch)

    def drain(self, partitions: Collection[int] | None) -> None:
        """Let attempts in processes end; no other outlives the call that runs it."""
        if self.processes is not None:
            self.processes.drain(partitions)

    def pool_of(self, running: RunningAttempt) -> str | None:
        """Name the workers that an attempt waits for: the only thread, or the processes."""
        in_process = self.processes is not None and is_in_process(running.executor)
        return "processes" if in_process else "threads"

    def ahead(self, pool: str) -> int:
        """Return 0: a virtual worker is handed its next attempt in no time."""
        del pool
        return 0

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Callable[[], object]:
        """Ignore the call: no start takes long, and no batch waits for others that cannot come."""
        del delay_ms, call
        return lambda: None

    wake_later = call_later

    def tell_later(self, delay_ms: float, call: Callable[[], object]) -> object:
        """Call at once: time stands still while an attempt runs."""
        del delay_ms
        return call()

    @property
    def hangs(self) -> bool:
        """True if user code hangs, wherever it runs."""
        in_process = self.processes is not None and self.processes.hangs
        return in_process or bool(self.hanging)

    def next_ms(self) -> float | None:
        """Return the monotonic time at which a process, or what hangs, is looked at; None for
        never.
        """
        return _earliest(*(each.next_ms() for each in (self.processes, self.hanging) if each))

    def run_one(self) -> bool:
        """Run one queued attempt, or one batch, to its end, or do one thing of the processes;
        return False if there is none.
        """
        if not self.ready:
            if self.hanging is not None and self.hanging.run_one():
                return True
            return self.processes is not None and self.processes.run_one()
        match self.ready.popleft():
            case RunningAttempt() as running:
                # In a context of its own, as on a node: variables that it sets are not the test's.
                Context().run(self._run_alone, running)
            case batch:
                self._run_batch(batch)
        return True

    def _run_alone(self, running: RunningAttempt) -> None:
        started_ms = self._calls.begin_or_end(running)
        if started_ms is not None:
            self.note_start(running.attempt)
            if self.hanging is not None and self.hanging.take([(running, started_ms)]):
                return
            outcome = self._executed(running)
            self._calls.end(running, self._calls.ended_with(running, outcome, started_ms))

    def _executed(self, running: RunningAttempt) -> object:
        """Return the result of user code, or its exception."""
        try:
            tell_attempt(running)
            outcome: object = running.executor.execute(running.attempt.task.to_task())
            if inspect.isawaitable(outcome):
                outcome = awaited(outcome)
        except KeyboardInterrupt:
            # A person who runs the test wants it to end.
            raise
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_child(self._calls.born, error)
            return error
        end_child(self._calls.born)
        return outcome

    def _run_batch(self, batch: RunningBatch) -> None:
        begun = self._calls.begin_batch(batch.members)
        for running, _ in begun:
            self.note_start(running.attempt)
        if begun and self.hanging is not None and self.hanging.take(begun, batch):
            return
        if begun:
            batches, attempts = batch.batches, batched(begun)
            if batches.runs_async:
                outcomes = Context().run(lambda: awaited(batches.run_async(attempts)))
            else:
                outcomes = Context().run(batches.run, attempts, awaited)
            for outcome in outcomes:
                if isinstance(outcome, KeyboardInterrupt):
                    raise outcome
            self._calls.end_batch(begun, outcomes)
        batch.ended()


MakeProcesses = Callable[[Calls, random.Random], ProcessStage]
"""Makes the processes of a node."""


class VirtualRunner(NamedTuple):
    """A node's runner, and the workers that are moved by hand."""

    runner: NodeRunner
    workers: VirtualWorkers

    def run_one(self) -> bool:
        """Run one attempt or batch, or let one pass a limit; return False if there is none."""
        if self.workers.run_one():
            return True
        next_ms = self.runner.limits.next_ms()
        if next_ms is not None and next_ms <= self.runner.calls.clock.monotonic_ms():
            self.runner.limits.look()
            # An attempt that passes may ask the tree for a durable start first.
            return True
        return self.runner.hurry()

    def next_timer_ms(self) -> float | None:
        """Return the monotonic time at which a limit lets an attempt pass, or what runs is looked
        at; None for never.
        """
        return _earliest(self.runner.limits.next_ms(), self.workers.next_ms())


def virtual_runner(
    *,
    clock: Clock,
    gate: Callable[[Attempt], bool],
    telemetry: Telemetry,
    limits: NodeLimits = NO_LIMITS,
    rng: random.Random = JITTER,
    users: "UserParts | None" = None,
) -> VirtualRunner:
    """Return a runner in the caller's thread."""
    users = users or UserParts()
    calls = Calls(
        clock=clock,
        gate=gate,
        telemetry=telemetry,
        rng=rng,
        silence_limits=users.silence_limits,
    )
    processes = None if users.make_processes is None else users.make_processes(calls, rng)
    hanging = None if users.scripts is None else HangingAttempts(calls, users.scripts)
    workers = VirtualWorkers(calls, processes, hanging)
    settings = ExecutionSettings(processes=None if processes is None else processes.places)
    return VirtualRunner(NodeRunner(calls, workers, settings, limits), workers)


class VirtualPorts(NamedTuple):
    """The ports that nodes on one virtual installation share."""

    broker: MemoryBroker
    stores: Stores
    telemetry: Telemetry


def virtual_kinds(
    settings: Settings, ports: VirtualPorts, messages: MessageWriter, caller: Caller
) -> SystemTaskRegistry:
    """Return the executors of system tasks on a virtual node; none waits in real time."""
    return SystemTaskRegistry(
        settings=settings,
        stores=ports.stores,
        writer=MemoryWriter(ports.broker),
        partition_count=len(ports.broker.partitions),
        clock=ports.broker.clock,
        telemetry=ports.telemetry,
        open_messages=lambda: messages,
        open_caller=lambda: caller,
        # A virtual process never pauses while another one goes on.
        lease_ends_ms=lambda: math.inf,
        looks_max=1,
    )


class UserParts(NamedTuple):
    """The parts of a virtual node that depend on its user code."""

    rules: FlowRules = FlowRules.NONE
    on_node: Mapping[str | None, int] = {}
    """Most attempts that run at once, by kinds with a limit."""
    make_processes: MakeProcesses | None = None
    silence_limits: SilenceLimits = NEVER_STUCK
    scripts: Scripts | None = None
    """Say which attempts hang; None where none does."""


class VirtualNode:
    """One real node on a shared virtual installation, stepped by hand."""

    system: SimulatedSystem

    def __init__(
        self,
        broker: MemoryBroker,
        effects_of: Callable[[VirtualRunner], Effects],
        *,
        settings: Settings,
        clock: VirtualClock,
        telemetry: Telemetry,
        rng: random.Random | None = None,
        users: UserParts = UserParts(),  # noqa: B008 - it cannot be changed
    ) -> None:
        chance = rng or random.Random(0)  # noqa: S311 - a repeatable test, no secret
        self.log = MemoryLog(broker, settings, clock)
        self.lease = Lease(clock, self.log.lease_ends_ms)
        self.virtual = virtual_runner(
            clock=clock,
            gate=self.lease.allows,
            telemetry=telemetry,
            limits=NodeLimits(users.rules, users.on_node, len(broker.partitions), self.lease),
            rng=chance,
            users=users,
        )
        self.runner = self.virtual.runner
        self.runner.made_ahead.owned_since_ms = self.lease.owned_since_ms
        self.lease.add_listener(self.runner.apply)

        def make_system(on_failure: FailureListener) -> SimulatedSystem:
            self.system = SimulatedSystem(clock, on_failure, rng)
            return self.system

        self.node = Node(
            log=self.log,
            lease=self.lease,
            clock=clock,
            effects=effects_of(self.virtual),
            make_system=make_system,
            commit_interval_ms=settings.group.commit_interval_ms,
            lease_ms=settings.group.session_timeout_ms - settings.group.lease_margin_ms,
            rng=chance,
        )

    def work(self) -> bool:
        """Do one round and all that follows from it now; return True if there was any work."""
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
            # The lease begins with the poll after the first commit; due tasks need it now.
            self.node.step(0)
        messages = 0
        while messages < ROUNDS_MAX and (self.system.run_one() or self.virtual.run_one()):
            messages += 1
        if messages == ROUNDS_MAX:
            raise RuntimeError(f"the tree is still busy after {ROUNDS_MAX} messages at one moment")
        # A round without work still asks the tree once, which is one message.
        return messages > 1

    def next_timer_ms(self) -> float | None:
        """Return the monotonic time at which the tree acts by itself."""
        return _earliest(self.system.next_timer_ms(), self.virtual.next_timer_ms())

    def next_deadline_ms(self) -> float | None:
        """Return the monotonic time of the next event without input; None for never.

        Looks and clean-ups may be late without harm, so they do not count.
        """
        return _earliest(self.system.next_deadline_ms(), self.virtual.next_timer_ms())


def _earliest(*moments_ms: float | None) -> float | None:
    return min((each for each in moments_ms if each is not None), default=None)
