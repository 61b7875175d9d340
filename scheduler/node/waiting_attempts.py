"""Attempts that wait: in the order in which they came, or in that of their flows.

Decides which of them goes next.  Does not know what they wait for.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from actors.model.fair_order import FairOrder
from actors.model.flow import FlowRules
from scheduler.node.attempts import RunningAttempt


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
