"""Makes starts durable, in groups, before workers take the tasks: those of overdue tasks, and of
kinds whose policy allows one attempt.

Decides the size of the groups: as many tasks as workers take soon, because each of them is a
suspect if the process dies now.  One suspect at a time has a durable start, and keeps its place
until its end, so that a death of the process shows which one caused it.  Never runs an attempt.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial

from hourhand.actors.model.execution.attempts import Attempt, StartRecorder
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.stages import Following
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.node.waiting_attempts import waiting_attempts
from hourhand.scheduler.ports.processes import is_in_process

START_DEADLINE_S = 30.0
"""Longest wait for a start to become durable; then the attempt is refused."""
READY_PER_WORKER = 2
"""Attempts with a durable start that wait in each group, for each worker: workers do not wait for
the store, and a process that dies leaves few suspects that did not run."""


class DurableStarts:
    """The stage of attempts whose starts must be durable; the others pass."""

    def __init__(
        self,
        workers: int,
        *,
        gate: Callable[[Attempt], bool],
        following: Following,
        refuse: Callable[[RunningAttempt], None],
        call_later: Callable[[float, Callable[[], object]], Callable[[], object]],
        rules: FlowRules,
    ) -> None:
        """``call_later`` calls a function after some milliseconds, and returns a function that
        cancels the call.
        """
        self._following = following
        group = partial(
            StartGroups,
            gate=gate,
            submit=following,
            refuse=refuse,
            give_up_later=partial(call_later, 1000 * START_DEADLINE_S),
        )
        self._overdue = group(READY_PER_WORKER * workers, rules=rules)
        # They do not wait behind a backlog.
        self._on_time = group(READY_PER_WORKER * workers, rules=rules)
        self._suspects = group(1, until_end=True)

    def enter(self, attempts: Sequence[RunningAttempt]) -> None:
        """Hand attempts on, once their starts are durable where these must be.

        The start of a task that was given up before is recorded by its worker, after the policy was
        asked.  A start is written to find the task that ends the process, so system tasks need one
        only as suspects.
        """
        awaited = [each for each in attempts if each.attempt.record_starts is not None]
        if not awaited:
            self._following(attempts)
            return
        overdue: list[RunningAttempt] = []
        on_time: list[RunningAttempt] = []
        suspects: list[RunningAttempt] = []
        passed = [each for each in attempts if each.attempt.record_starts is None]
        for running in awaited:
            if running.attempt.was_given_up or is_in_process(running.executor):
                # A process for user code that dies shows itself which attempt it ran.
                passed.append(running)
            elif running.attempt.suspect:
                suspects.append(running)
            elif isinstance(running.executor, SystemExecutor):
                passed.append(running)
            elif running.attempt.task.overdue_when_loaded:
                overdue.append(running)
            else:
                on_time.append(running)
        self._suspects.add(suspects)
        self._on_time.add(on_time)
        self._overdue.add(overdue)
        self._following(passed)

    def drain(self, partitions: Collection[int] | None) -> None:
        """Refuse attempts without a durable start after their tree failed: it no longer answers."""
        if partitions is None:
            self._suspects.discard()
            self._on_time.discard()
            self._overdue.discard()


class StartGroups:
    """Attempts that wait for a durable start, or that have one and wait for a worker; a ``Room``.

    Used from any thread.
    """

    def __init__(
        self,
        ready_max: int,
        *,
        gate: Callable[[Attempt], bool],
        submit: Following,
        refuse: Callable[[RunningAttempt], None],
        give_up_later: Callable[[Callable[[], object]], Callable[[], object]],
        rules: FlowRules = FlowRules.NONE,
        until_end: bool = False,
    ) -> None:
        """At most ``ready_max`` attempts have a place here: from the request of their start to
        their begin, or with ``until_end`` to their end.

        ``submit`` hands attempts to the workers; ``refuse`` ends one whose user code is not called.
        ``give_up_later`` calls a function after the deadline of a start, and returns a function
        that cancels the call.
        """
        self._ready_max, self._until_end = ready_max, until_end
        self._gate = gate
        self._submit = submit
        self._refuse = refuse
        self._give_up_later = give_up_later
        self._lock = threading.Lock()
        self._waiting = waiting_attempts(rules)
        self._ready = 0
        self._asked: set[Future[None]] = set()
        """Requests without an answer."""

    def add(self, overdue: Sequence[RunningAttempt]) -> None:
        """Make the starts of these attempts durable in their turn, then hand them on."""
        if overdue:
            with self._lock:
                self._waiting.extend(overdue)
            self._record()

    def release(self) -> None:
        """Release the place of an attempt that was handed on."""
        self._make_room(1)
        self._record()

    def discard(self) -> None:
        """Refuse attempts without a durable start: their tree is gone, and no longer answers."""
        with self._lock:
            waiting = self._waiting.take_out(lambda _: True)
            asked = tuple(self._asked)
        for running in waiting:
            self._refuse(running)
        for recorded in asked:
            recorded.cancel()

    def _make_room(self, attempts: int) -> None:
        with self._lock:
            self._ready -= attempts
            assert self._ready >= 0, "more leave than came"

    def _take(self) -> Sequence[RunningAttempt]:
        """Take as many as there are free places, once half of the places is free: in groups."""
        with self._lock:
            if self._ready > self._ready_max // 2:
                return ()
            room = self._ready_max - self._ready
            taken = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            self._ready += len(taken)
            return taken

    def _record(self) -> None:
        while taken := self._take():
            groups: dict[StartRecorder, list[RunningAttempt]] = {}
            refused = []
            for running in taken:
                record_starts = running.attempt.record_starts
                assert record_starts is not None, "its start need not be durable"
                if running.withdrawn or not self._gate(running.attempt):
                    refused.append(running)
                else:
                    groups.setdefault(record_starts, []).append(running)
            self._make_room(len(refused))
            for running in refused:
                self._refuse(running)
            for record_starts, group in groups.items():
                self._ask(record_starts, group)

    def _ask(self, record_starts: StartRecorder, group: Sequence[RunningAttempt]) -> None:
        recorded = record_starts([running.attempt for running in group])
        with self._lock:
            self._asked.add(recorded)
        # A tree that ends may never read its messages, and so never answer.
        call_off = self._give_up_later(recorded.cancel)
        recorded.add_done_callback(lambda _: call_off())
        recorded.add_done_callback(partial(self._take_recorded, record_starts, group))

    def _take_recorded(
        self,
        record_starts: StartRecorder,
        group: Sequence[RunningAttempt],
        recorded: "Future[None]",
    ) -> None:
        """Hand on the attempts whose starts are durable.

        If the tree is gone, refuse all its attempts, including those that wait here: its successor
        starts them again.
        """
        self._asked.discard(recorded)
        if not recorded.cancelled() and recorded.exception() is None:
            for running in group:
                if self._until_end:
                    running.freed = self.release
                else:
                    running.starts = self
            self._submit(group)
            return
        with self._lock:
            lost = self._waiting.take_out(lambda each: each.attempt.record_starts == record_starts)
        self._make_room(len(group))
        for running in (*group, *lost):
            self._refuse(running)
        self._record()
