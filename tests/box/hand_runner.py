"""A runner whose attempts begin and end when the box says so.

It keeps the contract of ``Runner`` and tells its observer of each step; it judges nothing.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.executor_attributes import policy_of
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.ports.runner import AttemptListener, CheckpointListener, Executable


class Step(Enum):
    """The progress of an attempt."""

    WAITING = auto()
    """For a worker, or an allowance of a limit."""
    STARTING = auto()
    """Its start is being made durable."""
    RUNNING = auto()
    """User code was called."""
    ENDED = auto()


@dataclass(eq=False, slots=True)
class HandRun:
    """One attempt that the subtree asked for."""

    attempt: Attempt
    executor: Executable
    listener: AttemptListener | None
    limited: bool
    is_async: bool
    step: Step = Step.WAITING
    begun_ms: float = 0.0
    recorded: "Future[None] | None" = None
    """Future of its durable start."""
    ended: AttemptEnded | None = None
    abandoned: bool = False
    void: bool = False
    """It ended behind one that is not done, so nothing that comes of it counts."""

    @property
    def key(self) -> TaskKey:
        """The task's."""
        return self.attempt.task.key


class RunObserver(Protocol):
    """Hears of each step."""

    def run_asked(self, run: HandRun) -> None:
        """Note that the subtree wants this attempt."""

    def run_begun(self, run: HandRun) -> None:
        """Note that user code is called."""

    def run_ended(self, run: HandRun) -> None:
        """Note that user code ended."""

    def run_settled(self, run: HandRun) -> None:
        """Note that the subtree has no more use of the outcome."""


class HandRunner:
    """Implements ``Runner``."""

    def __init__(
        self,
        clock: VirtualClock,
        rng: random.Random,
        observer: RunObserver,
        *,
        gate: Callable[[Attempt], bool],
        is_limited: Callable[[Attempt], bool],
    ) -> None:
        self._clock, self._rng, self._observer = clock, rng, observer
        self._gate, self._is_limited = gate, is_limited
        self._runs: dict[str | TaskKey, HandRun] = {}
        """Runs that are not settled, by their place."""

    # Asked by the subtree.

    def start(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> None:
        """Keep the attempts until they are let go on."""
        assert starts, "nothing is started"
        for attempt, executor in starts:
            there = self._runs.get(attempt.place)
            assert there is None, f"P3: {attempt.task.key} beside an attempt of {there}"
            is_async = self._rng.random() < 0.5
            run = HandRun(attempt, executor, listener, self._is_limited(attempt), is_async)
            self._runs[attempt.place] = run
            self._observer.run_asked(run)

    def withdraw(
        self, attempt: Attempt, *, limited: bool = False, interrupts: bool = False
    ) -> bool:
        """Forget an attempt whose user code was not called."""
        assert not interrupts, "no command reaches the box"
        run = self._find(attempt)
        if run is None or run.step in (Step.RUNNING, Step.ENDED) or (limited and not run.limited):
            return False
        self._remove(run)
        self._refuse_behind(run)
        return True

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return what has been running for so long."""
        now_ms = self._clock.monotonic_ms()
        return {
            run.attempt: now_ms - run.begun_ms
            for run in self._runs.values()
            if run.step is Step.RUNNING and now_ms - run.begun_ms >= at_least_ms
        }

    def tell_checkpoints(self, partition: int, listener: CheckpointListener) -> None:
        """Tell nothing: no attempt here makes a checkpoint."""

    def unsettled(self, partition: int, *, given_up: bool = True) -> Sequence[Attempt]:
        """Return what runs or is not settled."""
        return [
            run.attempt
            for run in self._runs.values()
            if given_up or not run.abandoned or run.step is not Step.ENDED
        ]

    def adopt(self, attempt: Attempt, listener: AttemptListener) -> None:
        """Tell the end to this listener; at once where it ended, or was settled."""
        run = self._find(attempt)
        if run is None:
            listener(_not_started(attempt, 0))
            return
        run.listener = listener
        if run.ended is not None:
            listener(run.ended)

    def settle(self, attempts: Sequence[Attempt]) -> None:
        """Forget ended attempts."""
        for attempt in attempts:
            run = self._find(attempt)
            if run is not None:
                self._observer.run_settled(run)
                self._remove(run)

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """Forget what waits for others where the tree failed; give up what runs."""
        if partitions is None:
            for run in self._of(Step.WAITING, Step.STARTING):
                waits_for_tree = run.attempt.record_starts is not None
                if self._find(run.attempt) is run and (run.limited or waits_for_tree):
                    self._remove(run)
                    self._refuse_behind(run)
        elif give_up is not None:
            for run in tuple(self._runs.values()):
                run.abandoned, run.listener = True, None
                if run.ended is not None and run.ended.ending is Ending.NOT_STARTED:
                    self._remove(run)
                elif run.step is Step.RUNNING and run.is_async:
                    self._end(run, _not_started(run.attempt, self._clock.now_ms()))

    # Caused by the box.

    def die(self) -> None:
        """Forget everything: the process is gone."""
        self._runs.clear()

    @property
    def can_begin(self) -> list[HandRun]:
        """First attempts of batches that wait for a worker, or whose start was asked for."""
        return [run for run in self._of(Step.WAITING, Step.STARTING) if run.attempt.follows is None]

    @property
    def can_end(self) -> list[HandRun]:
        """Attempts that run, of a batch the first one."""
        running = self._of(Step.RUNNING)
        ids = {id(run.attempt) for run in running}
        return [run for run in running if id(run.attempt.follows) not in ids]

    @property
    def unended(self) -> list[HandRun]:
        """Attempts that wait or run."""
        return self._of(Step.WAITING, Step.STARTING, Step.RUNNING)

    def begin(self, run: HandRun) -> None:
        """Let an attempt, and what follows it, have a worker, or look after their durable starts.

        A batch begins as a whole or as far as there is room for it.
        """
        chain = [run, *self._behind(run)]
        if run.attempt.was_given_up and self._is_used_up(run) and self._gate(run.attempt):
            self._use_up(run)
            return
        if run.step is Step.WAITING and run.attempt.record_starts is not None:
            if not self._gate(run.attempt):
                self._refuse(run)
                return
            recorded = run.attempt.record_starts([each.attempt for each in chain])
            for each in chain:
                each.step, each.recorded = Step.STARTING, recorded
            return
        if run.recorded is not None and not run.recorded.done():
            return
        for each in chain:
            if not self._begin(each, is_first=each is run):
                if each.step is not Step.ENDED:
                    self._refuse(each)
                return

    def _is_used_up(self, run: HandRun) -> bool:
        used = run.attempt.task.attempts.used
        return bool(used) and used >= policy_of(run.executor).attempts_max

    def _use_up(self, run: HandRun) -> None:
        """End an attempt that its policy does not allow, and what follows it."""
        behind, now_ms, used = (
            self._behind(run),
            self._clock.now_ms(),
            run.attempt.task.attempts.used,
        )
        ruling = policy_of(run.executor).ruling(used, after_ms=0)
        self._end(run, AttemptEnded(run.attempt, Ending.USED_UP, now_ms, now_ms, ruling=ruling))
        for each in behind:
            self._end(each, _not_started(each.attempt, now_ms))

    def end(self, run: HandRun, pick: Callable[[], Ending]) -> None:
        """Let user code end, that of a whole batch at once; ``pick`` says how."""
        for each in self.batch_of(run):
            self._end(each, self._ended(each, pick()))

    def put_off(self, run: HandRun, after_ms: int) -> bool:
        """Let user code ask for its next attempt after so long; False where it has none left."""
        used = run.attempt.task.attempts.used + 1
        ruling = policy_of(run.executor).ruling(used, after_ms=after_ms)
        if used >= ruling.attempts_max:
            return False
        now_ms = self._clock.now_ms()
        for each in self.batch_of(run):
            if each is run:
                asked = AttemptEnded(
                    run.attempt,
                    Ending.RETRY,
                    now_ms,
                    now_ms,
                    retry_after_ms=after_ms,
                    ruling=ruling,
                )
                self._end(run, asked)
            else:
                self._end(each, self._ended(each, Ending.DONE))
        return True

    def batch_of(self, run: HandRun) -> list[HandRun]:
        """Return an attempt that runs, and what runs behind it."""
        followers = {id(each.attempt.follows): each for each in self._of(Step.RUNNING)}
        batch = [run]
        while (following := followers.get(id(batch[-1].attempt))) is not None:
            batch.append(following)
        return batch

    def _ended(self, run: HandRun, ending: Ending) -> AttemptEnded:
        attempt, executor = run.attempt, run.executor
        now_ms = self._clock.now_ms()
        failed = ending in {Ending.FAILED, Ending.TIMED_OUT}
        is_retry = ending is Ending.RETRY
        after_ms = self._rng.choice((None, 0, 30)) if is_retry else None
        used = attempt.task.attempts.used + 1
        ruling = policy_of(executor).ruling(used, after_ms=after_ms) if failed or is_retry else None
        return AttemptEnded(
            attempt,
            ending,
            now_ms,
            now_ms,
            retry_after_ms=after_ms,
            ruling=ruling,
            reason="of no use" if ending is Ending.DROPPED else None,
            error_class="ValueError" if failed else None,
            error_message="no" if failed else None,
        )

    def _begin(self, run: HandRun, *, is_first: bool) -> bool:
        started = run.recorded is None or not run.recorded.cancelled()
        if run.attempt.record_starts is not None and run.recorded is None:
            started = False
        has_room = is_first or self._rng.random() < 0.8
        if not (started and has_room and self._gate(run.attempt)):
            return False
        if self._is_used_up(run):
            self._use_up(run)
            return False
        run.step, run.begun_ms = Step.RUNNING, self._clock.monotonic_ms()
        self._observer.run_begun(run)
        return True

    def _end(self, run: HandRun, ended: AttemptEnded) -> None:
        assert run.step is not Step.ENDED, "an attempt ends once"
        before = None if run.attempt.follows is None else self._find(run.attempt.follows)
        if before is not None and before.ended is not None:
            run.void = before.void or before.ended.ending not in {Ending.DONE, Ending.DROPPED}
        run.step, run.ended = Step.ENDED, ended
        self._observer.run_ended(run)
        if run.listener is not None:
            run.listener(ended)
        elif ended.ending is Ending.NOT_STARTED:
            self._remove(run)

    def _refuse(self, run: HandRun) -> None:
        """End what may not begin, and what follows it."""
        chain = [run, *self._behind(run)]
        for each in chain:
            self._end(each, _not_started(each.attempt, self._clock.now_ms()))

    def _refuse_behind(self, run: HandRun) -> None:
        for each in self._behind(run):
            self._end(each, _not_started(each.attempt, self._clock.now_ms()))

    def _behind(self, run: HandRun) -> list[HandRun]:
        """Return what follows an attempt and has not begun, the next one first."""
        found: list[HandRun] = []
        waiting = {id(each.attempt.follows): each for each in self._of(Step.WAITING, Step.STARTING)}
        while (following := waiting.get(id(run.attempt))) is not None:
            found.append(following)
            run = following
        return found

    def _of(self, *steps: Step) -> list[HandRun]:
        return [run for run in self._runs.values() if run.step in steps]

    def _find(self, attempt: Attempt) -> HandRun | None:
        run = self._runs.get(attempt.place)
        return run if run is not None and run.attempt is attempt else None

    def _remove(self, run: HandRun) -> None:
        if self._runs.get(run.attempt.place) is run:
            del self._runs[run.attempt.place]


def batch_before(attempt: Attempt) -> Iterator[Attempt]:
    """Yield what an attempt follows in its batch, the next one first."""
    while (before := attempt.follows) is not None:
        yield before
        attempt = before


def _not_started(attempt: Attempt, now_ms: int) -> AttemptEnded:
    return AttemptEnded(attempt, Ending.NOT_STARTED, now_ms, now_ms)
