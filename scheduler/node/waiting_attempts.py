"""Attempts that wait for a worker: in the order in which they came, or in that of their flows.

Decides which of them goes next, and of those that wait for company when their batch is full or has
waited long enough, and how many batches run at once.  Runs nothing, and does not know what they
wait for.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from actors.model.fair_order import FairOrder
from actors.model.flow import FlowRules
from scheduler.node.attempts import RunningAttempt
from scheduler.ports.batches import Batches


class WaitingAttempts(Protocol):
    """Not safe to use from several threads: its owner has a lock."""

    def __len__(self) -> int:
        """Return how many wait."""

    def extend(self, attempts: Iterable[RunningAttempt]) -> None:
        """Let attempts wait."""

    def popleft(self) -> RunningAttempt:
        """Take the one whose turn it is; there must be one."""

    def take_out(self, leaves: Callable[[RunningAttempt], bool]) -> Sequence[RunningAttempt]:
        """Take those that leave out of their turn."""


class AttemptsInTurn(deque[RunningAttempt]):
    """Waiting attempts in the order in which they came."""

    def take_out(self, leaves: Callable[[RunningAttempt], bool]) -> Sequence[RunningAttempt]:
        """Take those that leave out of their turn."""
        left = [each for each in self if leaves(each)]
        kept = [each for each in self if not leaves(each)]
        self.clear()
        self.extend(kept)
        return left


class AttemptsByFlow:
    """Waiting attempts in the order of their flows, and of one flow in that in which they came."""

    def __init__(self, rules: FlowRules) -> None:
        self._rules = rules
        self._order = FairOrder()
        self._flows: dict[str, deque[RunningAttempt]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, attempts: Iterable[RunningAttempt]) -> None:
        """Let attempts wait."""
        for running in attempts:
            task = running.attempt.task
            name = self._rules.flow_of(task)
            flow = self._flows.get(name)
            if flow is None:
                flow = self._flows[name] = deque()
            flow.append(running)
            self._count += 1
            if len(flow) == 1:
                self._enter(name, running)

    def popleft(self) -> RunningAttempt:
        """Take the one whose turn it is; there must be one."""
        assert self._count, "nothing waits"
        name = self._order.take()
        assert name is not None, "whatever waits has its place in the order"
        self._order.count_start()
        flow = self._flows[name]
        running = flow.popleft()
        self._count -= 1
        if flow:
            self._enter(name, flow[0])
        else:
            del self._flows[name]
        return running

    def take_out(self, leaves: Callable[[RunningAttempt], bool]) -> Sequence[RunningAttempt]:
        """Take those that leave out of their turn."""
        waiting = [each for flow in self._flows.values() for each in flow]
        self._flows.clear()
        self._order, self._count = FairOrder(), 0
        self.extend(each for each in waiting if not leaves(each))
        return [each for each in waiting if leaves(each)]

    def _enter(self, name: str, first: RunningAttempt) -> None:
        priority = self._rules.priority_of(first.attempt.task)
        self._order.enter(name, priority, self._rules.weight_of(name))


def waiting_attempts(rules: FlowRules) -> WaitingAttempts:
    """Return a place to wait at that keeps these rules."""
    return AttemptsByFlow(rules) if rules else AttemptsInTurn()


class WorkerQueue(Protocol):
    """Where threads wait for attempts; used from any thread, as ``queue.SimpleQueue`` is."""

    def put(self, item: RunningAttempt | None) -> None:
        """Hand an attempt to a thread; None ends one once nothing waits that came before."""

    def get(self) -> RunningAttempt | None:
        """Wait for an attempt."""

    def qsize(self) -> int:
        """Return how many wait."""


class FairWorkerQueue:
    """A ``WorkerQueue`` in the order of flows."""

    def __init__(self, rules: FlowRules) -> None:
        self._lock = threading.Lock()
        self._waiting = AttemptsByFlow(rules)
        self._turns: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """True for each attempt that waits: threads wait for these, and then choose."""

    def put(self, item: RunningAttempt | None) -> None:
        """Hand an attempt to a thread; None ends one once nothing waits that came before."""
        if item is not None:
            with self._lock:
                self._waiting.extend((item,))
        self._turns.put(item is not None)

    def get(self) -> RunningAttempt | None:
        """Wait for an attempt."""
        if not self._turns.get():
            return None
        with self._lock:
            return self._waiting.popleft()

    def qsize(self) -> int:
        """Return how many wait."""
        return self._turns.qsize()


def worker_queue(rules: FlowRules) -> WorkerQueue:
    """Return a queue for threads that keeps these rules."""
    return FairWorkerQueue(rules) if rules else queue.SimpleQueue()


class FairTurns:
    """Lets so many attempts at most run at once, the others in the order of their flows."""

    def __init__(
        self, rules: FlowRules, running_max: int, begin: Callable[[RunningAttempt], None]
    ) -> None:
        self._lock = threading.Lock()
        self._waiting = AttemptsByFlow(rules)
        assert running_max > 0, "something runs at once"
        self._running_max = running_max
        self._begin = begin
        self._running = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, running: RunningAttempt) -> None:
        """Begin an attempt at once, or when it is its turn."""
        with self._lock:
            if self._running >= self._running_max:
                self._waiting.extend((running,))
                return
            self._running += 1
        self._begin(running)

    def end(self) -> None:
        """An attempt that began has ended."""
        with self._lock:
            if not len(self._waiting):
                self._running -= 1
                return
            assert self._running == self._running_max, "nothing waits where there is room"
            following = self._waiting.popleft()
        self._begin(following)

    def close(self) -> None:
        """Begin nothing any more."""
        with self._lock:
            self._waiting.take_out(lambda _: True)


class _Gathered:
    """What waits of one kind."""

    __slots__ = ("go_ms", "has_timer", "running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[RunningAttempt] = deque()
        self.go_ms: deque[float] = deque()
        """When the batch of each begins at the latest, in monotonic time."""
        self.running = 0
        self.has_timer = False


class BatchGathering:
    """The batches of one node that have not begun."""

    def __init__(
        self,
        *,
        monotonic_ms: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
        begin: Callable[[Batches, Sequence[RunningAttempt]], None],
    ) -> None:
        """``begin`` has some attempts run together; ``end`` is called when they have."""
        self._monotonic_ms = monotonic_ms
        self._call_later = call_later
        self._begin = begin
        self._lock = threading.Lock()
        self._gathered: dict[Batches, _Gathered] = {}

    def add(self, batches: Batches, running: Sequence[RunningAttempt]) -> None:
        """Let attempts of one kind wait for their batch."""
        go_ms = self._monotonic_ms() + batches.limits.wait_ms
        with self._lock:
            gathered = self._gathered.get(batches)
            if gathered is None:
                gathered = self._gathered[batches] = _Gathered()
            gathered.waiting.extend(running)
            gathered.go_ms.extend([go_ms] * len(running))
        self._look(batches)

    def end(self, batches: Batches) -> None:
        """A batch has ended: another may begin."""
        with self._lock:
            gathered = self._gathered[batches]
            gathered.running -= 1
            assert gathered.running >= 0, "a batch ends once"
        self._look(batches)

    def _time_is_up(self, batches: Batches) -> None:
        with self._lock:
            self._gathered[batches].has_timer = False
        self._look(batches)

    def _look(self, batches: Batches) -> None:
        limits, now_ms = batches.limits, self._monotonic_ms()
        ready: list[Sequence[RunningAttempt]] = []
        wait_ms: float | None = None
        with self._lock:
            gathered = self._gathered[batches]
            waiting = gathered.waiting
            while waiting and gathered.running < limits.batches_max:
                left_ms = gathered.go_ms[0] - now_ms
                if len(waiting) < limits.tasks_max and left_ms > 0:
                    if not gathered.has_timer:
                        gathered.has_timer, wait_ms = True, left_ms
                    break
                count = min(len(waiting), limits.tasks_max)
                ready.append([waiting.popleft() for _ in range(count)])
                for _ in range(count):
                    gathered.go_ms.popleft()
                gathered.running += 1
        if wait_ms is not None:
            self._call_later(wait_ms, lambda: self._time_is_up(batches))
        for members in ready:
            self._begin(batches, members)
