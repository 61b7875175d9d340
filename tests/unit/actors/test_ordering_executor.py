"""OrderingExecutor: one task at a time, in key order, and every slot given back exactly once."""

import pytest

from actors.messages import (
    AttemptTask,
    DrainTasks,
    HoldOrdering,
    SpillQueue,
    TaskPostponed,
    UpdateTask,
)
from actors.model.key import first_key_at
from actors.ordering_executor import OrderingExecutor
from tests.builders import NOW_MS
from tests.unit.actors.ordering_executor_bench import QUEUE_MAX, Bench, task_named


def test_p3_the_next_task_starts_when_the_one_before_is_closed() -> None:
    """One at a time."""
    bench = Bench()

    bench.execute("a", "b")
    before = bench.attempted
    bench.finish()

    assert (before, bench.attempted) == (["a"], ["a", "b"])


def test_p4_a_task_with_an_earlier_sibling_waits() -> None:
    """In key order, in whatever order they came."""
    bench = Bench()

    bench.execute("a", "d", "b", "c")
    for _ in range(4):
        bench.finish()

    assert bench.attempted == ["a", "b", "c", "d"]
    assert bench.slots == 0 and bench.last is not None and bench.last.first_ms is None


def test_one_instance_serves_all_tasks_of_a_busy_id() -> None:
    """What runs its tasks lives as long as the id is busy."""
    bench = Bench()

    bench.execute("a", "b")
    bench.finish()

    assert len(bench.role.children) == 1


def test_p6_the_latest_record_of_a_task_at_hand_counts_in_whatever_order_they_come() -> None:
    """It may pass an older one on the way here."""
    bench = Bench()

    bench.execute("a")
    bench.execute("a", offset=9)
    bench.tell(UpdateTask(task_named("a", offset=5)))
    bench.finish(offset=0)

    attempts = [m.task for m in bench.role.children[0].messages if isinstance(m, AttemptTask)]
    assert [task.offset for task in attempts] == [0, 9]


def test_a_later_record_of_the_task_at_hand_updates_it() -> None:
    """It takes no slot of its own."""
    bench = Bench()

    bench.execute("a")
    bench.execute("a", offset=9)
    slots = bench.slots
    bench.finish(offset=9)

    assert bench.told(UpdateTask) == 1 and slots == 1
    assert bench.attempted == ["a"] and bench.slots == 0


def test_a_later_record_that_came_too_late_for_the_task_at_hand_is_run_behind_it() -> None:
    """The task had ended already; whether the key is closed is asked anew."""
    bench = Bench()

    bench.execute("a")
    bench.execute("a", offset=9)
    bench.finish(offset=0)
    slots = bench.slots
    bench.finish(offset=9)

    assert bench.attempted == ["a", "a"] and (slots, bench.slots) == (1, 0)


def test_p6_a_later_record_without_a_slot_is_for_what_is_here_alone() -> None:
    """At hand or waiting; anything else is read from the store in its turn."""
    bench = Bench()

    bench.execute("a", "b")
    for name in "abc":
        bench.tell(UpdateTask(task_named(name, offset=9)))
    told, slots = bench.told(UpdateTask), bench.slots
    bench.finish(offset=9)
    bench.finish(offset=9)

    assert (told, slots, bench.slots) == (1, 2, 0)
    assert bench.attempted == ["a", "b"]
    assert bench.role.children[0].messages[-1] == AttemptTask(task_named("b", offset=9))


def test_records_of_a_waiting_task_are_merged() -> None:
    """The one with the higher offset wins, whatever comes first."""
    bench = Bench()

    bench.execute("a")
    bench.execute("b", offset=9)
    bench.execute("b", offset=5)
    bench.finish()
    attempt = bench.role.children[0].messages[-1]

    assert isinstance(attempt, AttemptTask) and attempt.task.offset == 9
    assert bench.slots == 1


def test_p13_what_does_not_fit_in_the_queue_is_left_to_the_store() -> None:
    """It is read when the queue is empty, and its range is exact."""
    bench = Bench()

    bench.execute("a", "b", "c", "d", "e", "f")
    slots = bench.slots
    for _ in range(4):
        bench.finish()
    request = bench.loaded("e", "f")

    assert slots == 1 + QUEUE_MAX
    assert (request.after, request.up_to) == (
        first_key_at(task_named("e").key.scheduled_ms),
        task_named("f").key,
    )
    assert bench.running() == "e" and bench.slots == 2


def test_once_tasks_are_in_the_store_later_ones_join_them_there() -> None:
    """Or they would overtake."""
    bench = Bench()
    bench.execute("a", "b", "c", "d", "e")
    bench.finish()

    bench.execute("f")
    for _ in range(3):
        bench.finish()
    request = bench.loaded("e", "f")

    assert request.up_to == task_named("f").key and bench.running() == "e"


def test_p7_what_waits_behind_a_task_that_takes_long_is_forgotten() -> None:
    """A blocked id costs one slot."""
    bench = Bench()
    bench.execute("a", "b", "c")

    bench.tell(TaskPostponed(task_named("a").key))
    bench.tell(TaskPostponed(task_named("a").key))
    bench.execute("d")

    assert bench.slots == 1
    assert bench.last is not None and bench.last.held
    bench.finish()
    request = bench.loaded("b", "c", "d")
    assert (request.after, request.up_to) == (
        first_key_at(task_named("b").key.scheduled_ms),
        task_named("d").key,
    )
    assert bench.running() == "b" and bench.slots == 3


def test_a_task_that_arrives_while_loading_is_left_to_the_store() -> None:
    """It may lie in the range that is read, or behind it."""
    bench = Bench()
    bench.execute("a", "b")
    bench.tell(TaskPostponed(task_named("a").key))
    bench.finish()

    bench.execute("c")
    bench.loaded("b")
    bench.finish()
    request = bench.loaded("c")

    assert request.up_to == task_named("c").key and bench.running() == "c"


def test_p7_ids_that_read_together_do_not_take_the_same_slots() -> None:
    """What one may bring is kept until its answer, or until nobody waits for it any more."""
    bench = Bench(executing_tasks_max=42)
    budget = bench.harness.siblings.budget

    bench.execute("a", "b")
    bench.tell(TaskPostponed(task_named("a").key))
    bench.finish()
    reserved = [budget.slots_reserved]
    request = bench.loaded("b", next_after=task_named("b").key)
    reserved.append(budget.slots_reserved)
    bench.finish()
    reserved.append(budget.slots_reserved)
    bench.tell(DrainTasks())
    reserved.append(budget.slots_reserved)
    bench.loaded("c")

    assert request.limit == 20 and reserved == [20, 0, 20, 0] and budget.slots_reserved == 0


def test_a_long_range_is_read_page_by_page() -> None:
    """Each from where the one before ended."""
    bench = Bench()
    bench.execute("a", "b", "c")
    bench.execute("d", "e", "f")
    bench.tell(TaskPostponed(task_named("a").key))
    bench.finish()

    first = bench.loaded("b", "c", "d", next_after=task_named("d").key)
    for _ in range(3):
        bench.finish()
    second = bench.loaded("e", "f")

    assert (first.limit, second.after, second.up_to) == (
        QUEUE_MAX,
        task_named("d").key,
        task_named("f").key,
    )
    assert bench.running() == "e"


def test_an_id_whose_range_holds_nothing_open_is_idle() -> None:
    """Everything in it was closed by commands."""
    bench = Bench()
    bench.execute("a", "b")
    bench.tell(TaskPostponed(task_named("a").key))
    bench.finish()
    busy = bench.last

    bench.loaded()

    assert busy is not None and busy.first_ms is not None
    assert bench.last is not None and bench.last.first_ms is None and bench.slots == 0


def test_a_straggler_reads_what_the_watermark_left_before_anything_else() -> None:
    """Nothing of the id overtakes it."""
    bench = Bench()

    bench.tell(HoldOrdering(first_key_at(NOW_MS - 1_000), first_key_at(NOW_MS - 500)))
    bench.execute("z")
    attempted = bench.attempted
    request = bench.loaded("a")

    assert not attempted and bench.running() == "a"
    assert request.up_to == first_key_at(NOW_MS - 500)


def test_the_queue_behind_a_slow_task_is_left_to_the_store() -> None:
    """But not where the task that was slow has ended meanwhile."""
    bench = Bench()
    bench.execute("a", "b")

    bench.tell(SpillQueue(task_named("b").key))
    other = bench.slots
    bench.tell(SpillQueue(task_named("a").key))

    assert (other, bench.slots) == (2, 1)


def test_it_is_started_by_its_parent_only() -> None:
    """On its own it would have no tree to fail with."""
    with pytest.raises(TypeError, match="spawn"):
        OrderingExecutor.start()
