"""A lane: plain tasks run without a mailbox, and go over to one with all that they have."""

from collections.abc import Callable

import pytest

from actors.held_executors import HeldExecutors
from actors.messages import (
    AdoptLane,
    CompletionRecorded,
    CompletionsRecorded,
    DrainTasks,
    ExecuteTask,
    ExecuteTasks,
    HoldOrdering,
    HoldOrderings,
    KeepLane,
    PauseOrdering,
    PauseTasks,
    RecordCompletions,
    RecordStarts,
    ReturnLane,
    SlotsReleased,
    SpillQueue,
    TasksDrained,
    UpdateTask,
    WithdrawTask,
)
from actors.model.attempts import Attempt, AttemptEnded, Ending
from actors.model.commands import Withdrawal
from actors.model.events import AttemptFinished, TaskClosed
from actors.model.key import first_key_at
from actors.model.operator_sheet import OperatorSheet
from actors.model.ordering_queue import OrderingQueue
from actors.model.ownership import Straggler
from actors.model.pauses import Pause, PauseScope
from actors.model.settings import TreeSettings, WindowSettings
from actors.model.status import CompletionResult
from actors.model.task import AttemptState, StoredTask
from actors.ordering_lane import EndedAttempts
from tests.builders import NOW_MS, a_completion, a_stored_task, an_attempt
from tests.unit.actors.partition_executor_bench import Bench
from tests.unit.probes import PARTITION, Harness, Probe

QUEUE_MAX = 3
SLOTS = 2 * QUEUE_MAX


def _task(ordering_id: str = "x", due_in_ms: int = -10, *, offset: int = 0) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, ordering_id=ordering_id, offset=offset)


class LaneBench(Bench):
    """A PartitionExecutor that knows of every key whether it is closed."""

    def __init__(self, slots: int = SLOTS) -> None:
        window = WindowSettings(
            ordering_queue_tasks_max=QUEUE_MAX, executing_tasks_max=slots, slow_attempt_ms=1_000
        )
        super().__init__(Harness(TreeSettings(window=window), known_since_ms=0))
        self.runner = self.harness.runner
        self.budget = self.harness.siblings.budget

    @property
    def running(self) -> list[Attempt]:
        """The attempts that were started and have not ended."""
        return [started.attempt for started in self.runner.started]

    def end(self, ending: Ending = Ending.DONE) -> Attempt:
        """End the oldest attempt."""
        ended = self.runner.end(ending, at_ms=self.harness.clock.now_ms())
        self.harness.run()
        return ended

    def record(self) -> RecordCompletions:
        """Make the next completions durable."""
        message = self.harness.tracker.take(RecordCompletions)
        for completion in message.completions:
            self.harness.siblings.known_completions.remember(completion)
        self.tell(CompletionsRecorded(message.completions))
        return message

    @property
    def taken(self) -> AdoptLane:
        """What the one mailbox was handed over first."""
        (child,) = self.children
        first = child.messages[0]
        assert isinstance(first, AdoptLane)
        return first


def _command(bench: LaneBench, task: StoredTask) -> object:
    del bench
    return WithdrawTask(task.key, Withdrawal.CLOSE, Probe())


def _hold(bench: LaneBench, task: StoredTask) -> object:
    del bench
    straggler = Straggler(task.key.ordering_id, task.key.scheduled_ms - 5)
    return HoldOrderings((straggler,), task.key.scheduled_ms)


def _update(bench: LaneBench, task: StoredTask) -> object:
    del bench
    return UpdateTask(a_stored_task(due_in_ms=-10, ordering_id="x", offset=9))


def _pause(bench: LaneBench, task: StoredTask) -> object:
    place = bench.harness.ownership.partition
    return PauseTasks(OperatorSheet(1, (Pause(PauseScope.ORDERING, place, task.key.ordering_id),)))


def _execute_more(bench: LaneBench, task: StoredTask) -> object:
    more = _task(task.key.ordering_id, -7)
    bench.budget.run((more,))
    return ExecuteTasks((more,))


def test_plain_tasks_run_without_an_actor() -> None:
    """Those of other ids at once, those of one id one after the other (P3)."""
    bench = LaneBench()
    first, second, other = _task("x", -10), _task("x", -5), _task("y")

    bench.execute(first, second, other)

    assert [attempt.task for attempt in bench.running] == [first, other]
    assert not bench.children and all(attempt.number == 1 for attempt in bench.running)


def test_p3_the_next_task_starts_when_the_completion_before_it_is_durable() -> None:
    """Not when the attempt ended: it would run again after a crash, behind its successor."""
    bench = LaneBench()
    first, second = _task("x", -10), _task("x", -5)
    bench.execute(first, second)

    bench.end()
    early = list(bench.running)
    bench.record()

    assert not early and [attempt.task for attempt in bench.running] == [second]
    assert not bench.children


def test_p4_what_waits_starts_in_key_order() -> None:
    """Also what came later and is earlier."""
    bench = LaneBench()
    tasks = [_task("x", due_in_ms) for due_in_ms in (-10, -5, -20)]
    for task in tasks:
        bench.execute(task)

    ran = []
    for _ in tasks:
        ran.append(bench.end().task)
        bench.record()

    assert ran == [tasks[0], tasks[2], tasks[1]]


def test_many_that_ended_are_recorded_and_settled_together() -> None:
    """One message to the tracker, one back, one event; slots and bytes are given back once."""
    bench = LaneBench()
    tasks = [_task(name) for name in "xyz"]
    bench.execute(*tasks)

    for _ in tasks:
        bench.runner.end(at_ms=NOW_MS)
    bench.harness.run()
    held_bytes = bench.budget.due_bytes
    recorded = bench.record()

    assert [each.key for each in recorded.completions] == [task.key for task in tasks]
    assert {each.result for each in recorded.completions} == {CompletionResult.SUCCESS}
    assert [attempt.task for attempt in bench.runner.settled] == tasks
    assert held_bytes > 0 and bench.budget.due_bytes == 0
    released = bench.harness.scheduler.take_all(SlotsReleased)
    assert sum(message.slots for message in released) == 3
    assert bench.harness.telemetry.of(TaskClosed) == [
        TaskClosed(PARTITION, task.key, CompletionResult.SUCCESS) for task in tasks
    ]
    assert len(bench.harness.telemetry.of(AttemptFinished)) == 3


def test_p5_a_success_that_is_not_durable_is_not_settled() -> None:
    """A tree that takes this one's place asks the runner how its attempts ended (P16)."""
    bench = LaneBench()
    bench.execute(_task())

    bench.end()

    assert not bench.runner.settled and not bench.harness.scheduler.has(SlotsReleased)


@pytest.mark.parametrize("ending", [each for each in Ending if each is not Ending.DONE])
def test_an_attempt_that_did_not_end_well_goes_on_with_a_mailbox(ending: Ending) -> None:
    """Which asks the runner how it ended; the lane has recorded nothing."""
    bench = LaneBench()
    task, behind = _task("x", -10), _task("x", -5)
    bench.execute(task, behind)
    attempt = bench.running[0]

    bench.end(ending)

    assert bench.taken.attempt is attempt and not bench.taken.is_recording
    assert list(bench.taken.tasks) == [behind.key]
    assert not bench.harness.tracker.has(RecordCompletions) and not bench.runner.settled


def test_p6_a_later_record_of_the_task_that_runs_gives_its_id_a_mailbox() -> None:
    """Only there is it known what becomes of two records of one key."""
    bench = LaneBench()
    task, later = _task(offset=1), _task(offset=2)
    bench.execute(task)

    bench.execute(later)

    assert bench.taken.attempt is not None and bench.taken.attempt.task is task
    assert bench.children[0].messages[1:] == [ExecuteTask(later)]


def _filled(bench: LaneBench) -> list[StoredTask]:
    """Return tasks of one id, of which the lane has left the last two to the store."""
    tasks = [_task("x", -10 + number) for number in range(QUEUE_MAX + 3)]
    bench.execute(*tasks)
    return tasks


def test_p13_a_lane_leaves_to_the_store_what_its_queue_does_not_hold() -> None:
    """Their slots and bytes are given back; once there is room, later ones do not overtake."""
    bench = LaneBench()
    tasks = _filled(bench)
    released = bench.harness.scheduler.take_all(SlotsReleased)
    held = [tasks[0].held_bytes for _ in range(QUEUE_MAX + 1)]

    bench.end()
    bench.record()
    bench.execute(_task("x", -1))

    assert not bench.children and sum(message.slots for message in released) == 2
    assert bench.budget.due_bytes == sum(held[1:])
    assert bench.progress().earliest_ms == tasks[1].key.scheduled_ms


def test_p7_a_lane_takes_half_of_the_slots_that_nobody_uses() -> None:
    """What is left to the store is read again; what others hold counts, and what is given back."""
    bench = LaneBench(slots=20)
    for number in range(7):
        bench.execute(_task("x", -20 + number))
    kept = not bench.harness.scheduler.has(SlotsReleased)

    bench.execute(_task("x", -10))

    assert kept and len(bench.harness.scheduler.take_all(SlotsReleased)) == 1
    assert bench.budget.slots == 7
    bench.end()
    bench.record()
    assert bench.budget.slots == 6


def test_p8_the_watermark_stays_before_what_a_lane_left_to_the_store() -> None:
    """Also while all that it had in memory is done, and its mailbox reads on."""
    bench = LaneBench()
    tasks = _filled(bench)

    for _ in range(QUEUE_MAX):
        bench.end()
        bench.record()
    busy_ms = bench.progress().earliest_ms
    bench.end()
    bench.record()

    assert busy_ms == tasks[QUEUE_MAX].key.scheduled_ms
    assert bench.progress().earliest_ms == tasks[-2].key.scheduled_ms
    assert bench.taken.attempt is None and not len(bench.taken.tasks)
    assert bench.taken.tasks.spilled == (
        first_key_at(tasks[-2].key.scheduled_ms),
        tasks[-1].key,
    )


def _returned(bench: LaneBench, *tasks: StoredTask, received: int = 1) -> ReturnLane:
    """Return what a mailbox offers that has these tasks."""
    queue = OrderingQueue()
    for task in tasks:
        queue.add(task)
    held = HeldExecutors(bench.harness.effects)
    return ReturnLane("x", received, queue, held)


def test_a_lane_goes_on_when_only_plain_tasks_are_left() -> None:
    """With the executors that the mailbox made, and with what is left to the store."""
    bench = LaneBench()
    first, second = _task("x", -9), _task("x", -8)
    bench.execute(a_stored_task(due_in_ms=-10, ordering_id="x", attempts=AttemptState(1, 1)))
    bench.budget.run((first, second))
    offer = _returned(bench, first, second)

    bench.tell(offer)

    (attempt,) = bench.running
    assert attempt.task is first and offer.executors.of(first) is bench.runner.started[0].executor
    assert not bench.children[0].actor_ref.is_alive()
    bench.end()
    bench.record()
    assert [running.task for running in bench.running] == [second]


@pytest.mark.parametrize("make", [_command, _hold, _update, _pause, _execute_more])
def test_p6_a_mailbox_that_has_not_seen_everything_is_kept(
    make: Callable[[LaneBench, StoredTask], object],
) -> None:
    """A lane that went on would not know of a command, or of a later record."""
    bench = LaneBench()
    tried = a_stored_task(due_in_ms=-10, ordering_id="x", attempts=AttemptState(1, 1))
    bench.execute(tried)
    bench.tell(make(bench, tried))

    bench.tell(_returned(bench, _task("x", -9)))

    assert not bench.running and bench.children[0].messages[-1] == KeepLane()


def test_p5_a_mailbox_whose_next_task_is_not_plain_is_kept() -> None:
    """It may have become so on the way."""
    bench = LaneBench()
    bench.execute(a_stored_task(due_in_ms=-10, ordering_id="x", attempts=AttemptState(1, 1)))
    closed = _task("x", -9)
    bench.harness.siblings.known_completions.remember(a_completion(key=closed.key))

    bench.tell(_returned(bench, closed))

    assert not bench.running and bench.children[0].messages[-1] == KeepLane()


def test_p14_nothing_is_given_back_to_a_lane_while_the_partition_is_given_up() -> None:
    """The mailbox was told to end."""
    bench = LaneBench()
    bench.execute(a_stored_task(due_in_ms=-10, ordering_id="x", attempts=AttemptState(1, 1)))
    bench.tell(DrainTasks())

    bench.tell(_returned(bench, _task("x", -9)))

    assert not bench.running and bench.children[0].messages[-1] == DrainTasks()


def test_what_was_tried_before_gets_a_mailbox_at_once() -> None:
    """Its attempts count, and it may have to wait for the next."""
    bench = LaneBench()
    task = a_stored_task(due_in_ms=0, attempts=AttemptState(used=1, last=1))

    bench.execute(task)

    assert bench.children[0].messages == [ExecuteTask(task)] and not bench.running


def test_p7_an_overdue_task_asks_for_a_durable_start() -> None:
    """If it kills the process it is known which it was; a task that is on time does not ask."""
    bench = LaneBench()
    bench.execute(a_stored_task(due_in_ms=-20, overdue_when_loaded=True), _task("y"))
    overdue, punctual = bench.running
    assert overdue.record_starts is not None

    recorded = overdue.record_starts((overdue,))
    asked = bench.harness.tracker.take(RecordStarts)

    assert (asked.attempts, asked.recorded) == ((overdue,), recorded)
    assert punctual.record_starts is None


def test_p5_a_key_that_may_be_closed_gets_a_mailbox() -> None:
    """Also where it became so while it waited."""
    bench = LaneBench()
    known = bench.harness.siblings.known_completions
    closed, first, second = _task("closed"), _task("x", -10), _task("x", -5)
    known.remember(a_completion(key=closed.key))

    bench.execute(closed, first, second)
    known.remember(a_completion(key=second.key))
    bench.end()
    bench.record()

    assert bench.children[0].messages == [ExecuteTask(closed)]
    taken = bench.children[1].messages[0]
    assert isinstance(taken, AdoptLane)
    assert taken.attempt is None and list(taken.tasks) == [second.key]


@pytest.mark.parametrize("is_recording", [True, False])
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_command, WithdrawTask),
        (_hold, HoldOrdering),
        (_update, UpdateTask),
        (_pause, PauseOrdering),
    ],
)
def test_whatever_else_comes_for_an_id_finds_its_mailbox(
    make: Callable[[LaneBench, StoredTask], object], told: type[object], *, is_recording: bool
) -> None:
    """Behind what the lane hands over, whatever the lane was about."""
    bench = LaneBench()
    task = _task("x", -10)
    bench.execute(task, _task("x", -5), _task("y"))
    if is_recording:
        bench.end()

    bench.tell(make(bench, task))

    assert bench.taken.is_recording is is_recording
    assert [type(message) for message in bench.children[0].messages] == [AdoptLane, told]


def test_a_completion_under_way_finds_the_mailbox_of_its_id() -> None:
    """The lane asked for it, and the role that took the lane over is answered; others go on."""
    bench = LaneBench()
    task = _task("x")
    bench.execute(task, _task("y"))
    bench.end()
    bench.tell(WithdrawTask(task.key, Withdrawal.CLOSE, Probe()))
    bench.end()

    bench.record()
    bench.record()

    recorded = CompletionRecorded(task.key, CompletionResult.SUCCESS)
    assert bench.children[0].messages[-1] == recorded
    assert [attempt.task.key.ordering_id for attempt in bench.runner.settled] == ["y"]
    assert len(bench.harness.telemetry.of(AttemptFinished)) == 2, "each end is told once"


def test_an_end_that_the_mailbox_was_told_of_is_passed_over() -> None:
    """It ended, and before the lane looked its id got a mailbox."""
    bench = LaneBench()
    task = _task("x")
    bench.execute(task)
    bench.ref.tell(WithdrawTask(task.key, Withdrawal.CLOSE, Probe()))
    bench.runner.end(at_ms=NOW_MS)

    bench.harness.run()

    assert len(bench.children) == 1 and not bench.harness.tracker.has(RecordCompletions)


def test_p7_a_lane_whose_attempt_takes_long_gets_a_mailbox() -> None:
    """Its queue goes to the store, and the watermark may pass it."""
    bench = LaneBench()
    task = _task("x")
    bench.execute(task)
    bench.runner.slow = list(bench.running)

    bench.harness.advance(1_000)

    assert bench.children[0].messages[1:] == [SpillQueue(task.key)]


def test_p8_the_watermark_stays_before_what_lanes_hold() -> None:
    """What runs, and what waits behind it though it is earlier."""
    bench = LaneBench()
    bench.execute(_task("x", -10))
    bench.execute(_task("x", -20), _task("y", -5))

    assert bench.progress().earliest_ms == NOW_MS - 20
    held = bench.progress(watermark_ms=NOW_MS).held
    assert held == (Straggler("x", NOW_MS - 20), Straggler("y", NOW_MS - 5))


def test_p14_a_lane_that_drains_ends_its_attempt_and_leaves_the_rest() -> None:
    """The next owner loads it: the watermark stays before it."""
    bench = LaneBench()
    bench.execute(_task("x", -10), _task("x", -5), _task("y", -7))
    bench.tell(DrainTasks())
    early = bench.harness.supervisor.has(TasksDrained)

    bench.end()
    bench.end()
    bench.record()
    bench.record()

    assert not early and bench.harness.supervisor.take_all(TasksDrained) == [TasksDrained()]
    assert not bench.running and not bench.children
    assert bench.progress().earliest_ms == NOW_MS - 5


def test_p14_an_attempt_that_fails_while_its_partition_drains_is_ended_by_a_mailbox() -> None:
    """It is told at once that nothing more begins."""
    bench = LaneBench()
    bench.execute(_task("x"))
    bench.tell(DrainTasks())

    bench.end(Ending.FAILED)

    assert bench.children[0].messages == [bench.taken, DrainTasks()]


def test_ends_are_told_once_until_they_are_looked_at() -> None:
    """Any thread adds them; none is left behind."""
    told: list[int] = []
    ended = EndedAttempts(lambda: told.append(1))
    ends = [AttemptEnded(an_attempt(), Ending.DONE, NOW_MS, NOW_MS) for _ in range(3)]

    ended.add(ends[0])
    ended.add(ends[1])
    taken = ended.take()
    first = next(taken)
    ended.add(ends[2])

    assert [first, *taken] == ends and len(told) == 2
