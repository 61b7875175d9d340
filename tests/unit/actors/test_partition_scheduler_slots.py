"""PartitionScheduler: no more due tasks are handed on than there are slots, and room in memory."""

from hourhand.actors.messages import ExecuteTasks, ScheduleTasks, UpdateTask
from tests.unit.actors.partition_scheduler_bench import SLOTS, Bench, task_due_in


def test_no_more_is_handed_on_than_there_are_slots() -> None:
    """The next when some are given back."""
    bench = Bench()

    bench.schedule(-5, -4, -3, -2, -1)
    first = bench.executed()
    bench.harness.advance(10_000)
    waiting = bench.executed()
    bench.release(1)

    assert (first, waiting, bench.executed()) == (["-5", "-4", "-3"], [], ["-2"])


def test_p13_more_slots_than_memory_may_hold_are_not_used() -> None:
    """What is handed on is in memory too, however many due records the log brings."""
    bench = Bench(slots=1_000)

    bench.schedule(*range(-25, -1))

    assert len(bench.executed()) == 10


def test_slots_that_an_id_took_by_loading_count_too() -> None:
    """Negative: it read tasks of its own."""
    bench = Bench()

    bench.release(-SLOTS - 2)
    bench.schedule(-5)
    full = bench.executed()
    bench.release(3)

    assert (full, bench.executed()) == ([], ["-5"])


def test_p6_a_later_record_without_a_slot_reaches_whoever_was_handed_an_older_one() -> None:
    """A due one does, at once, by a record or an update; what is not due was handed to nobody."""
    bench = Bench()
    bench.schedule(-5, -4, -3)
    newer, newest = task_due_in(-4, offset=8), task_due_in(-4, offset=9)

    bench.tell(ScheduleTasks((newer, task_due_in(1_000))))
    bench.tell(UpdateTask(newest))

    assert bench.executor.take_all(UpdateTask) == [UpdateTask(newer), UpdateTask(newest)]
    assert bench.executed() == ["-5", "-4", "-3"]


def test_p6_what_has_a_slot_is_told_once() -> None:
    """An update beside it would cost every due record a message."""
    bench = Bench()

    bench.schedule(-5, 1_000)

    assert not bench.executor.has(UpdateTask)


def test_p4_what_is_due_when_it_comes_goes_at_once_in_key_order() -> None:
    """In one message, and it counts in memory until its ordering id lets go of it."""
    bench = Bench()
    bench.schedule(60_000)

    bench.schedule(-1, -3, -2)

    tasks = tuple(task_due_in(due) for due in (-3, -2, -1))
    assert bench.executor.take(ExecuteTasks).tasks == tasks
    budget = bench.harness.siblings.budget
    assert budget.due_bytes == sum(task.size_bytes for task in tasks)
    assert budget.waiting_bytes == task_due_in(60_000).size_bytes


def test_p4_what_waits_for_room_goes_before_a_later_one_that_comes() -> None:
    """Also where the room came without a word, because another partition was let go of."""
    bench = Bench()
    bench.schedule(-5)
    budget = bench.harness.siblings.budget
    budget.resize(budget.due_bytes, budget.share_bytes)
    bench.schedule(-4)
    waiting = bench.executed()
    budget.resize(budget.due_bytes, 0)

    bench.schedule(-3)

    assert (waiting, bench.executed()) == (["-5"], ["-4", "-3"])


def test_p13_of_what_is_due_when_it_comes_no_more_goes_than_there_is_room_for() -> None:
    """The last one that goes may take more than is left."""
    bench = Bench()
    bench.schedule(-5)
    budget = bench.harness.siblings.budget
    budget.resize(budget.due_bytes, budget.share_bytes - 1)

    bench.schedule(-4, -3)

    assert bench.executed() == ["-5", "-4"]


def test_what_waits_is_still_heard_of_when_another_went_at_once() -> None:
    """A clock that is set back may leave it without a timer."""
    bench = Bench()
    bench.schedule(-5)
    budget = bench.harness.siblings.budget
    budget.resize(budget.due_bytes, budget.share_bytes)
    bench.schedule(-4)
    bench.harness.clock.step_wall(-10)
    budget.resize(budget.due_bytes, 0)

    bench.schedule(-20)
    at_once = bench.executed()
    bench.harness.advance(6)

    assert (at_once, bench.executed()) == (["-5", "-20"], ["-4"])
