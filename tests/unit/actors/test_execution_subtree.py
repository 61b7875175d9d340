"""PartitionExecutor with its real children, messages delivered in a random order of actors.

Whatever the order, every slot is given back exactly once, every task is closed exactly once,
no ordering id runs two at a time, and a drain ends.  The seed is in the test's name.
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from hourhand.actors.messages import (
    CheckTasks,
    DrainTasks,
    ExecuteTasks,
    LoadOrdering,
    MeetSiblings,
    OrderingLoaded,
    OutcomesRecorded,
    RecordOutcomes,
    SlotsReleased,
    TasksChecked,
    TasksDrained,
    TaskWithdrawn,
    WithdrawTask,
)
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.settings import TreeSettings, WindowSettings
from hourhand.actors.partition_executor import PartitionExecutor
from tests.builders import a_completion, a_stored_task
from tests.unit.probes import NOTHING_KNOWN_BEFORE_MS, Harness, Probe

STEPS = 400
IDS = 3
TASKS_PER_ID = 8
SEEDS = [*range(20), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(20, 60))]


class Job(TaskExecutor):
    """The fake runner never calls it."""

    retry = RetryPolicy(attempts_max=3, wait=lambda _state: 0.05)  # type: ignore[arg-type]

    def execute(self, task: Task) -> Outcome | None:
        """Never called here."""
        raise AssertionError(f"{task.key} was run")


class World:
    """A subtree, and a stand-in for store and tracker that answers when it is drawn to."""

    def __init__(self, seed: int, mode: str) -> None:
        self.rng = random.Random(seed)
        known_since_ms = NOTHING_KNOWN_BEFORE_MS if mode == "nothing known" else 0
        window = WindowSettings(
            ordering_queue_tasks_max=2, executing_tasks_max=1, slow_attempt_ms=1_000
        )
        self.harness = Harness(
            TreeSettings(window=window),
            rng=self.rng,
            make_executor=Job,
            known_since_ms=known_since_ms,
            run_tasks_max={None: 3} if mode == "runs" else None,
        )
        self.ref = self.harness.system.spawn_root(
            PartitionExecutor(self.harness.effects, self.harness.ownership)
        )
        self.ref.tell(MeetSiblings(self.harness.siblings))
        self.known = self.harness.siblings.known_completions
        # Something waits for a slot, so each that is released is told.
        self.harness.siblings.budget.keep_waiting(1)
        self.stored: dict[TaskKey, StoredTask] = {}
        self.closed: Counter[TaskKey] = Counter()
        self.cancelled: dict[TaskKey, int] = {}
        self.asked: list[tuple[TaskKey, Probe]] = []
        self.slots = 0
        self.offset = 0

    def act(self, *, sends: bool) -> None:
        """Do one thing at random, and deliver a few messages."""
        acts = [self._end_attempt, self._answer_tracker, self._answer_store, self._let_time_pass]
        if sends:
            acts += [self._send, self._send, self._cancel]
        self.rng.choice(acts)()
        for _ in range(self.rng.randrange(6)):
            self.harness.system.run_one()
        self._note()

    def settle(self, is_over: Callable[[], bool]) -> None:
        """Answer everything until it is over, and for a while longer: nothing is done twice."""
        for _ in range(STEPS * 20):
            if is_over():
                break
            self.act(sends=False)
        for _ in range(STEPS):
            self.act(sends=False)
        self.harness.run()
        self._note()

    def still_open(self) -> list[TaskKey]:
        """Return the tasks that neither ran to an end nor were cancelled."""
        return [key for key, task in self.stored.items() if not self._is_closed(task)]

    def _note(self) -> None:
        if self.harness.failures:
            raise self.harness.failures.pop(0)
        for message in self.harness.scheduler.take_all(SlotsReleased):
            self.slots -= message.slots
        waiting = []
        for key, asker in self.asked:
            if not asker.messages:
                waiting.append((key, asker))
            else:
                assert asker.take(TaskWithdrawn).result is not WithdrawalResult.RAN
                self.cancelled[key] = self.offset
                cancelled = CompletionResult.CANCELLED
                if not self.closed[key]:
                    self.known.remember(a_completion(key=key, result=cancelled, offset=self.offset))
        self.asked = waiting

    def _send(self) -> None:
        if self.asked:
            # The schedule is written one operation at a time: a command ends before a batch.
            return
        self.offset += 1
        number = self.rng.randrange(TASKS_PER_ID)
        task = a_stored_task(
            due_in_ms=number - 1_000,
            ordering_id=f"id-{self.rng.randrange(IDS)}",
            uniqueness_key=str(number),
            offset=self.offset,
        )
        self.stored[task.key] = task
        self.slots += 1
        self.harness.siblings.budget.run((task,))
        self.ref.tell(ExecuteTasks((task,)))

    def _cancel(self) -> None:
        if self.stored and not self.asked:
            key = self.rng.choice(sorted(self.stored))
            self.asked.append((key, Probe()))
            self.ref.tell(WithdrawTask(key, Withdrawal.CLOSE, self.asked[-1][1]))

    def _end_attempt(self) -> None:
        """End one attempt, and with it the others of its ordering id that are in its batch."""
        runner, now_ms = self.harness.runner, self.harness.clock.now_ms()
        endings = [Ending.DONE, Ending.DONE, Ending.FAILED, Ending.NOT_STARTED, Ending.DROPPED]
        ending, ended = Ending.DONE, None
        while runner.started and (ended is None or runner.started[0].attempt.follows is ended):
            # What follows an attempt that did not start does not start either.
            ending = ending if ending is Ending.NOT_STARTED else self.rng.choice(endings)
            ended = runner.end(ending, at_ms=now_ms)

    def _answer_tracker(self) -> None:
        if not self.harness.tracker.messages:
            return
        match self.harness.tracker.messages.pop(0):
            case CheckTasks(tasks=tasks, reply_to=asker):
                asker.tell(TasksChecked(tuple((t, self._is_closed(t)) for t in tasks)))
            case RecordOutcomes(completions=completions, records=records, reply_to=asker):
                for completion in completions:
                    self._close(completion)
                asker.tell(OutcomesRecorded(completions, records))
            case message:
                raise AssertionError(f"no executor tells a tracker {message!r}")

    def _close(self, completion: Completion) -> None:
        self.closed[completion.key] += 1
        self.known.remember(completion)

    def _is_closed(self, task: StoredTask) -> bool:
        return self.closed[task.key] > 0 or self.cancelled.get(task.key, -1) >= task.offset

    def _answer_store(self) -> None:
        if self.harness.persistence.has(LoadOrdering):
            ask = self.harness.persistence.take(LoadOrdering)
            rows = [
                self.stored[key]
                for key in sorted(self.stored)
                if key.ordering_id == ask.ordering_id and ask.after < key <= ask.up_to
            ]
            page = rows[: ask.limit]
            next_after = page[-1].key if len(rows) > ask.limit else None
            fresh = tuple(row for row in page if not self._is_closed(row))
            ask.reply_to.tell(OrderingLoaded(ask, fresh, next_after))

    def _let_time_pass(self) -> None:
        self.harness.clock.advance(self.rng.choice((1, 100, 1_000)))


@pytest.mark.parametrize("mode", ["known", "nothing known", "runs"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_task_is_closed_once_and_every_slot_given_back(seed: int, mode: str) -> None:
    """Nothing is left behind, whatever the order of messages."""
    world = World(seed, mode)
    for _ in range(STEPS):
        world.act(sends=True)

    world.settle(lambda: not world.still_open() and not world.slots and not world.asked)

    assert not world.still_open()
    assert not [key for key, times in world.closed.items() if times > 1]
    assert world.slots == 0 and not world.asked
    assert world.harness.siblings.budget.due_bytes == 0


@pytest.mark.parametrize("mode", ["known", "nothing known", "runs"])
@pytest.mark.parametrize("seed", SEEDS)
def test_p14_a_drain_ends_whatever_it_interrupts(seed: int, mode: str) -> None:
    """Once, and nothing is started after it."""
    world = World(1_000 + seed, mode)
    for _ in range(world.rng.randrange(STEPS)):
        world.act(sends=True)

    world.ref.tell(DrainTasks())
    world.settle(lambda: world.harness.supervisor.has(TasksDrained))
    world.harness.advance(10_000)

    assert len(world.harness.supervisor.take_all(TasksDrained)) == 1
    assert not world.harness.runner.started and not world.asked
