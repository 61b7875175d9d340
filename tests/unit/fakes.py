"""Ports in the hand of a test: what is asked of them waits until the test answers."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.executor_attributes import policy_of
from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.settings import WindowSettings
from hourhand.actors.ports.log import Position
from hourhand.actors.ports.runner import AttemptListener, CheckpointListener, Executable
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.runtime.future_group import FutureWriter
from tests.builders import NOW_MS

SLOW_MS = float(WindowSettings().slow_attempt_ms)
"""An attempt that runs for so long is slow, with the default settings."""


class HeldRequests:
    """Serves requests at once, except for the kinds it is told to hold."""

    def __init__(self) -> None:
        self._held_kinds: set[str] = set()
        self.held: list[Request[Any]] = []
        self.made: list[str] = []
        """Kind of every request so far."""

    def __call__(self, request: Request[Any]) -> None:
        """Implements ``Deliver``."""
        self.made.append(request.kind)
        if request.kind in self._held_kinds:
            self.held.append(request)
        else:
            request()

    def hold(self, *kinds: str) -> None:
        """Keep requests of these kinds until they are served."""
        self._held_kinds.update(kinds)

    def hold_nothing(self) -> None:
        """Serve at once from now on."""
        self._held_kinds.clear()

    def take(self, kind: str) -> Request[Any]:
        """Remove and return the oldest held request of this kind; there must be one."""
        for request in self.held:
            if request.kind == kind:
                self.held.remove(request)
                return request
        raise AssertionError(f"no {kind} among {[request.kind for request in self.held]}")

    def count(self, kind: str) -> int:
        """Return how many requests of this kind are held."""
        return sum(request.kind == kind for request in self.held)


@dataclass(slots=True)
class Started:
    """One attempt the runner was given."""

    attempt: Attempt
    executor: Executable | None
    listener: AttemptListener


class FakeRunner:
    """Starts nothing: the test ends each attempt.  Implements ``Runner``."""

    def __init__(self) -> None:
        self.started: list[Started] = []
        """Attempts not ended yet."""
        self.left: list[Attempt] = []
        """Attempts of an earlier tree that are not settled."""
        self.settled: list[Attempt] = []
        self.abandoned: list[int] = []
        self.drained: list[int] = []
        self.interrupted: list[Attempt] = []
        """Attempts that were asked to end."""
        self.slow: list[Attempt] = []
        self.slow_ms = SLOW_MS
        """For how long they run."""
        self.waits_for_a_worker = False
        """True if attempts can still be withdrawn."""
        self.is_limited = False
        """True if they wait for an allowance."""
        self.trees_failed = 0
        """So often it was told of."""
        self.waiting: list[Attempt] = []
        """Those that can be, where not all of them can."""
        self._ended: dict[int, AttemptEnded] = {}
        """How unsettled attempts ended, by their identity."""

    def start(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> None:
        """Keep the attempts until ``end``."""
        for attempt, executor in starts:
            places = {each.attempt.place for each in self.started}
            assert attempt.place not in places, "one attempt of an ordering id a time"
            self.started.append(Started(attempt, executor, listener))

    def end(
        self,
        ending: Ending = Ending.DONE,
        *,
        retry_after_ms: int | None = None,
        reason: str | None = None,
        at_ms: int = NOW_MS,
    ) -> Attempt:
        """End the oldest attempt."""
        started = self.started.pop(0)
        failed = ending in {Ending.FAILED, Ending.TIMED_OUT}
        # A runner asks the policy where an attempt ends.
        used = started.attempt.task.attempts.used + (ending is not Ending.USED_UP)
        held = ending is Ending.HELD
        asked = failed or ending in {Ending.RETRY, Ending.USED_UP}
        policy = policy_of(started.executor)
        ended = AttemptEnded(
            started.attempt,
            ending,
            at_ms,
            at_ms,
            retry_after_ms=retry_after_ms,
            reason=reason,
            error_class="ValueError" if failed else "PayloadSealed" if held else None,
            error_message="no" if failed or held else None,
            ruling=policy.ruling(used, after_ms=retry_after_ms) if asked else None,
        )
        self._ended[id(started.attempt)] = ended
        started.listener(ended)
        return started.attempt

    @property
    def only(self) -> Attempt:
        """The one attempt that runs."""
        assert len(self.started) == 1, f"{len(self.started)} attempts run"
        return self.started[0].attempt

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return what the test says to be slow, where that is long enough."""
        found = [each for each in self.slow if each.partition == partition]
        return dict.fromkeys(found, self.slow_ms) if self.slow_ms >= at_least_ms else {}

    def tell_checkpoints(self, partition: int, listener: CheckpointListener) -> None:
        """Tell nothing: no attempt here makes a checkpoint."""

    def unsettled(self, partition: int, *, given_up: bool = True) -> Sequence[Attempt]:
        """Return what an earlier tree left."""
        return [attempt for attempt in self.left if attempt.partition == partition]

    def adopt(self, attempt: Attempt, listener: AttemptListener) -> None:
        """Tell the end to this listener; at once where it ended."""
        if ended := self._ended.get(id(attempt)):
            listener(ended)
            return
        self.started = [each for each in self.started if each.attempt is not attempt]
        self.started.append(Started(attempt, None, listener))

    def withdraw(
        self, attempt: Attempt, *, limited: bool = False, interrupts: bool = False
    ) -> bool:
        """Drop an attempt where the test says that none has a worker yet."""
        if limited and not self.is_limited:
            return False
        waits = self.waits_for_a_worker or attempt in self.waiting
        if waits:
            self.started = [each for each in self.started if each.attempt is not attempt]
        elif interrupts:
            self.interrupted.append(attempt)
        return waits

    def settle(self, attempts: Sequence[Attempt]) -> None:
        """Note that the outcomes are of no use any more."""
        self.settled.extend(attempts)
        for attempt in attempts:
            self._ended.pop(id(attempt), None)

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """Note the partitions."""
        if partitions is None:
            self.trees_failed += 1
            return
        (self.abandoned if give_up else self.drained).extend(partitions)


class FakeWriter(FutureWriter):
    """Keeps what is appended; the test acknowledges it.  Implements ``LogWriter``."""

    def __init__(self) -> None:
        self.letters: list[tuple[LogRecord, str, Future[Position]]] = []
        self.appended: list[tuple[int, bytes, Future[Position]]] = []

    def partition_count(self) -> int:
        """Return the number the harness works with."""
        return 1

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        """Keep the record."""
        future: Future[Position] = Future()
        self.appended.append((partition, value, future))
        return future

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Keep the record and its reason."""
        future: Future[Position] = Future()
        self.letters.append((record, reason, future))
        return future

    def flush(self, timeout_ms: int) -> int:
        """Nothing is ever under way."""
        return 0

    def close(self) -> None:
        """Nothing to let go of."""
