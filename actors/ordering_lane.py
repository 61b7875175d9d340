"""A lane: an OrderingExecutor that has no mailbox of its own yet.

Most tasks are plain: a first attempt that ends well, and nothing else comes for its ordering id
meanwhile.  Such ids need no conversation.  Decides which tasks are plain, starts those of many
ids at once, and has the completions of many recorded at once; the next task of an id starts when
the completion of the one before is durable (P3), in key order (P4).  Never decides anything
else: whatever is not plain is an OrderingExecutor's and a TaskExecutor's, to which the lane goes
over with all that it has.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from actors.held_executors import HeldExecutors, is_plain
from actors.kernel.ref import Recipient
from actors.messages import AdoptLane, RecordCompletions, Siblings
from actors.model.attempts import (
    Attempt,
    AttemptEnded,
    Ending,
    closing_completion,
    finished_event,
)
from actors.model.errors import CannotRunHere
from actors.model.events import TasksSucceeded
from actors.model.key import TaskKey
from actors.model.ordering_queue import OrderingQueue
from actors.model.ownership import Ownership
from actors.model.status import Completion, CompletionResult
from actors.model.task import StoredTask
from actors.ports.effects import Effects
from actors.ports.runner import Executable
from actors.task_executor import record_starts


class OrderingLane:
    """One busy ordering id: the task at hand, its attempt, and what waits behind it."""

    __slots__ = ("attempt", "ended", "executors", "tasks")

    def __init__(self, executors: HeldExecutors) -> None:
        self.executors = executors
        self.attempt: Attempt | None = None
        """Of the task at hand; None where the next one turned out not to be plain."""
        self.ended: AttemptEnded | None = None
        """The attempt ended well, and its completion is on its way to the store."""
        self.tasks: OrderingQueue | None = None

    @property
    def first_ms(self) -> int:
        """Scheduled time of the first open task."""
        waiting_ms = self.tasks.first_ms() if self.tasks is not None else None
        if self.attempt is None:
            assert waiting_ms is not None, "a lane has a task"
            return waiting_ms
        busy_ms = self.attempt.task.key.scheduled_ms
        return busy_ms if waiting_ms is None else min(busy_ms, waiting_ms)

    def holds(self, key: TaskKey) -> bool:
        """Whether it has this key."""
        if self.attempt is not None and self.attempt.task.key == key:
            return True
        return self.tasks is not None and key in self.tasks

    def handed_over(self) -> AdoptLane:
        """Return all that it has, for a mailbox."""
        tasks = OrderingQueue() if self.tasks is None else self.tasks
        return AdoptLane(tasks, self.attempt, self.executors, self.ended is not None)

    def end(self) -> None:
        """Let go of the task at hand, which is durably closed."""
        assert self.ended is not None, "nothing of it was being recorded"
        self.attempt = self.ended = None

    def queue(self, task: StoredTask, tasks_max: int) -> bool:
        """Let a task wait; False where it is left to the store."""
        if self.tasks is None:
            self.tasks = OrderingQueue()
        return self.tasks.take(task, tasks_max)


class EndedAttempts:
    """Where workers leave the ends of attempts: one message tells of all that are there."""

    __slots__ = ("_ended", "_is_told", "_tell")

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._ended: deque[AttemptEnded] = deque()
        self._is_told = False

    def add(self, ended: AttemptEnded) -> None:
        """Take an end, from any thread."""
        self._ended.append(ended)
        if not self._is_told:
            self._is_told = True
            self._tell()

    def take(self) -> Iterator[AttemptEnded]:
        """Return all that are here; what comes from now on is told again."""
        # First: an end that is added after the last look must be told of.
        self._is_told = False
        ended = self._ended
        while ended:
            yield ended.popleft()


class Closed(NamedTuple):
    """What became of tasks that are durably closed."""

    tasks: int
    """How many of them lanes had."""
    waiting: Sequence[str]
    """The ids that have more to do."""


class OrderingLanes:
    """The lanes of one partition."""

    def __init__(
        self,
        effects: Effects,
        ownership: Ownership,
        siblings: Siblings,
        ended: EndedAttempts,
    ) -> None:
        self._effects = effects
        self._ownership = ownership
        self._siblings = siblings
        self._ended = ended
        self._lanes: dict[str, OrderingLane] = {}
        self._starts: list[tuple[Attempt, Executable]] = []
        """What ``start`` hands to the runner."""
        self._spilled = 0

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._lanes))

    def __contains__(self, ordering_id: str) -> bool:
        return ordering_id in self._lanes

    def progress(self) -> Iterable[tuple[str, int]]:
        """Return each ordering id with the scheduled time of its first open task."""
        return ((ordering_id, lane.first_ms) for ordering_id, lane in self._lanes.items())

    def holds(self, key: TaskKey) -> bool:
        """Whether a lane has this key."""
        lane = self._lanes.get(key.ordering_id)
        return lane is not None and lane.holds(key)

    def remove(self, ordering_id: str) -> OrderingLane | None:
        """Let go of a lane, whose ordering id gets a mailbox."""
        # Who takes an attempt over asks the runner for it.
        self.start()
        lane = self._lanes.pop(ordering_id, None)
        if lane is not None and lane.ended is not None:
            # The mailbox will say that its task is closed, and not how the attempt ended.
            self._effects.telemetry.emit(finished_event(lane.ended))
        return lane

    # Plain tasks.

    def is_plain(self, task: StoredTask) -> bool:
        """Whether a lane may begin a task."""
        return is_plain(task, self._siblings.known_completions, self._effects)

    def _may_wait(self, lane: OrderingLane, task: StoredTask) -> bool:
        """Whether a task is plain and has to wait for the one at hand, as both have an order."""
        at_hand = lane.attempt
        if task.kind in self._effects.concurrency_per_id or not self.is_plain(task):
            return False
        return at_hand is None or not at_hand.is_unordered

    def take(self, task: StoredTask, queue_max: int) -> bool:
        """Begin a due task, or let it wait behind at most ``queue_max`` others of its id; False
        where it is not plain.
        """
        ordering_id = task.key.ordering_id
        lane = self._lanes.get(ordering_id)
        if lane is None:
            lane = OrderingLane(HeldExecutors(self._effects))
            if not self._begin(lane, task):
                return False
            self._lanes[ordering_id] = lane
            return True
        if lane.holds(task.key) or not self._may_wait(lane, task):
            return False
        if not lane.queue(task, queue_max):
            self._spilled += 1
            self._siblings.budget.release((task,))
        return True

    def take_back(self, ordering_id: str, tasks: OrderingQueue, executors: HeldExecutors) -> bool:
        """Go on with what an id's mailbox had; False where its next task is not plain."""
        assert ordering_id not in self._lanes, "an ordering id has a lane or a mailbox"
        lane = self._lanes[ordering_id] = OrderingLane(executors)
        lane.tasks = tasks
        is_taken = self.go_on(ordering_id)
        if not is_taken:
            del self._lanes[ordering_id]
        return is_taken

    def take_spilled(self) -> int:
        """Return how many tasks were left to the store since this was asked."""
        spilled, self._spilled = self._spilled, 0
        return spilled

    def start(self) -> None:
        """Hand what began to the runner, which still starts one by one (P7)."""
        if self._starts:
            starts, self._starts = self._starts, []
            self._effects.runner.start(starts, self._ended.add)

    def _begin(self, lane: OrderingLane, task: StoredTask) -> bool:
        assert lane.attempt is None, "strictly one task at a time (P3)"
        if not self.is_plain(task):
            return False
        executors = lane.executors
        try:
            executable = executors.of(task)
        except CannotRunHere:
            return False
        start = executors.attempt(
            task,
            executable,
            self._ownership,
            self._record_starts,
            is_unordered=task.kind in self._effects.concurrency_per_id,
        )
        assert start[0].number == 1, "a lane makes first attempts"
        lane.attempt = start[0]
        self._starts.append(start)
        return True

    def _record_starts(self, attempts: Sequence[Attempt]) -> "Future[None]":
        return record_starts(self._siblings.completion_tracker, attempts)

    def record(self, found: Iterable[AttemptEnded], reply_to: Recipient) -> Sequence[str]:
        """Have what ended well recorded; return the ids whose attempts ended otherwise."""
        others: list[str] = []
        completions: list[Completion] = []
        lanes = self._lanes
        for ended in found:
            ordering_id = ended.attempt.task.key.ordering_id
            lane = lanes.get(ordering_id)
            if lane is None or lane.attempt is not ended.attempt:
                # Its id has a mailbox since, and was told there.
                continue
            assert lane.ended is None, "an attempt ends once"
            if ended.ending is not Ending.DONE:
                others.append(ordering_id)
                continue
            lane.ended = ended
            completions.append(
                closing_completion(ended.attempt.task, CompletionResult.SUCCESS, None, ended)
            )
        if completions:
            message = RecordCompletions(tuple(completions), reply_to)
            self._siblings.completion_tracker.tell(message)
        return others

    def close(self, completions: Sequence[Completion]) -> Closed:
        """Let go of tasks that are durably closed, and of ids that have no other.

        A completion of an id that has a mailbox since is passed over.
        """
        lanes, closed = self._lanes, list[AttemptEnded]()
        waiting: list[str] = []
        for completion in completions:
            ordering_id = completion.key.ordering_id
            lane = lanes.get(ordering_id)
            if lane is None:
                continue
            ended = lane.ended
            assert ended is not None, "a lane closes what ended well"
            assert ended.attempt.task.key == completion.key, "another task is at hand"
            closed.append(ended)
            lane.end()
            if lane.tasks is not None and not lane.tasks.is_empty:
                waiting.append(ordering_id)
            else:
                del lanes[ordering_id]
        if closed:
            self._settle(closed)
        return Closed(len(closed), waiting)

    def _settle(self, closed: Sequence[AttemptEnded]) -> None:
        self._siblings.budget.release([ended.attempt.task for ended in closed])
        finished = tuple(map(finished_event, closed))
        self._effects.telemetry.emit(TasksSucceeded(self._ownership.partition, finished))
        self._effects.runner.settle([ended.attempt for ended in closed])

    def go_on(self, ordering_id: str) -> bool:
        """Begin the next task of an id; False where it is not plain, or must be read first."""
        lane = self._lanes[ordering_id]
        assert lane.tasks is not None, "an id without a task has no lane"
        task = lane.tasks.first_task()
        if task is None or not self._may_wait(lane, task) or not self._begin(lane, task):
            return False
        lane.tasks.pop()
        return True
