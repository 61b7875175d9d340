"""Queues of waiting attempts: in the order of arrival, or in the order of their flows.

Decides which of them goes next.  Does not know the reason of their wait.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from hourhand.actors.model.flow.fair_order import FairOrder
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.scheduler.node.attempts import RunningAttempt


class WaitingAttempts(Protocol):
    """A queue of waiting attempts; its owner has a lock, because it is not thread-safe."""

    def __len__(self) -> int:
        """Return the number of waiting attempts."""

    def extend(self, attempts: Iterable[RunningAttempt]) -> None:
        """Add waiting attempts."""

    def popleft(self) -> RunningAttempt:
        """Remove the next attempt and return it; there must be one."""

    def take_out(self, leaves: Callable[[RunningAttempt], bool]) -> Sequence[RunningAttempt]:
        """Remove the attempts for which ``leaves`` is true, and return them."""


class AttemptsInTurn(deque[RunningAttempt]):
    """Waiting attempts in the order of arrival."""

    def take_out(self, leaves: Callable[[RunningAttempt], bool]) -> Sequence[RunningAttempt]:
        """Remove the attempts for which ``leaves`` is true, and return them."""
        left = [each for each in self if leaves(each)]
        kept = [each for each in self if not leaves(each)]
        self.clear()
        self.extend(kept)
        return left


class AttemptsByFlow:
    """Waiting attempts in the order of their flows, and within a flow in the order of arrival."""

    def __init__(self, rules: FlowRules) -> None:
        self._rules = rules
        self._order = FairOrder()
        self._flows: dict[str, deque[RunningAttempt]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, attempts: Iterable[RunningAttempt]) -> None:
        """Add waiting attempts."""
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
        """Remove the next attempt and return it; there must be one."""
        assert self._count, "nothing waits"
        name = self._order.pop()
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
        """Remove the attempts for which ``leaves`` is true, and return them."""
        waiting = [each for flow in self._flows.values() for each in flow]
        self._flows.clear()
        self._order, self._count = FairOrder(), 0
        self.extend(each for each in waiting if not leaves(each))
        return [each for each in waiting if leaves(each)]

    def _enter(self, name: str, first: RunningAttempt) -> None:
        priority = self._rules.priority_of(first.attempt.task)
        self._order.enter(name, priority, self._rules.weight_of(name))


def waiting_attempts(rules: FlowRules) -> WaitingAttempts:
    """Return an empty queue that follows these rules."""
    return AttemptsByFlow(rules) if rules else AttemptsInTurn()
