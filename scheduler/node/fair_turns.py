"""Fair turns at workers: if kinds have rules, a pool gets no more attempts than it runs at once.

The others wait in the order of their flows.  Decides which of them goes next.  Runs no attempt.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hourhand.actors.model.flow.flow import FlowRules
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.stages import Following, Workers
from hourhand.scheduler.node.waiting_attempts import AttemptsByFlow


class FairTurns:
    """The stage before the workers, one ``PoolTurns`` for each pool."""

    def __init__(self, rules: FlowRules, rooms: Mapping[str, int], workers: Workers) -> None:
        """``rooms`` has the number of attempts that each pool runs at once.  Without rules all
        attempts pass.
        """
        self._workers = workers
        self._pools = {
            name: PoolTurns(rules, room, workers.run, partial(workers.ahead, name))
            for name, room in rooms.items()
            if rules
        }

    def enter(self, attempts: Sequence[RunningAttempt]) -> None:
        """Hand attempts on, at once or in their turn."""
        if not self._pools:
            self._workers.run(attempts)
            return
        for running in attempts:
            turns = self._pools.get(self._workers.pool_of(running) or "")
            if turns is None:
                self._workers.run((running,))
            else:
                turns.enter((running,))

    def waiting(self, pool: str) -> int:
        """Return the number of attempts that wait for their turn at a pool."""
        turns = self._pools.get(pool)
        return 0 if turns is None else len(turns)

    def close(self) -> None:
        """Begin nothing any more."""
        for turns in self._pools.values():
            turns.close()


class PoolTurns:
    """Lets a bounded number of attempts run at once; the others wait in their flows' order."""

    def __init__(
        self,
        rules: FlowRules,
        running_max: int,
        following: Following,
        ahead: Callable[[], int] = lambda: 0,
    ) -> None:
        """``ahead`` says how many are handed on beyond ``running_max``, as they begin at once."""
        assert running_max > 0, "something runs at once"
        self._lock = threading.Lock()
        self._waiting = AttemptsByFlow(rules)
        self._running_max, self._ahead = running_max, ahead
        self._following = following
        self._running = 0
        self._is_handing = False
        """True while a thread, or an outer call, hands on all attempts that may go."""

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, attempts: Sequence[RunningAttempt]) -> None:
        """Begin attempts at once, or in their turn."""
        with self._lock:
            self._waiting.extend(attempts)
        self._hand_on()

    def release(self) -> None:
        """Count an attempt that was handed on and has ended."""
        with self._lock:
            self._running -= 1
            assert self._running >= 0, "more end than began"
        self._hand_on()

    def close(self) -> None:
        """Begin nothing any more."""
        with self._lock:
            self._waiting.take_out(lambda _: True)

    def _hand_on(self) -> None:
        """Hand on attempts while there are free places; an outer call does it for inner ones."""
        while (running := self._taken()) is not None:
            running.freed = self.release
            try:
                self._following((running,))
            finally:
                self._is_handing = False

    def _taken(self) -> RunningAttempt | None:
        with self._lock:
            if self._is_handing or not len(self._waiting):
                return None
            if self._running >= self._running_max + self._ahead():
                return None
            self._is_handing = True
            self._running += 1
            return self._waiting.popleft()
