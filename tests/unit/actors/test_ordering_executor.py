"""OrderingExecutor: one task at a time, in key order, and every slot given back exactly once."""

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import DrainTasks, LoadOrdering, OrderingLoaded, UpdateTask
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.task.codec import decode_record, encode_task
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.links import with_then
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.ordering_executor import OrderingExecutor
from tests.builders import NOW_MS, a_completion, a_record, a_task
from tests.unit.actors.execution_bench import ID, QUEUE_MAX, Bench, holding_of, task_named
from tests.unit.fakes import SLOW_MS


def later(name: str, offset: int = 9, text: str = "x") -> StoredTask:
    """Return a later record of a task."""
    return replace(task_named(name, offset), body=b'{"text":"%b"}' % text.encode())


def slow(bench: Bench) -> None:
    """Let the attempt that runs take long."""
    bench.runner.slow = [bench.runner.only]
    bench.advance(SLOW_MS)


def test_p3_the_next_task_starts_when_the_one_before_is_durably_closed() -> None:
    """One at a time."""
    bench = Bench()

    bench.send("a", "b")
    bench.end()
    before = bench.running
    bench.record()
    bench.answer_check()

    assert (before, bench.running) == ([], ["b"])


def test_p4_a_task_with_an_earlier_sibling_waits() -> None:
    """In key order, in whatever order they came."""
    bench, ran = Bench(), []

    bench.send("a", "d", "b", "c")
    for _ in range(4):
        ran += bench.running
        bench.finish()

    assert ran == ["a", "b", "c", "d"] and bench.is_over


def test_one_instance_serves_all_tasks_of_a_busy_id() -> None:
    """What runs its tasks lives as long as the id is busy."""
    bench = Bench()

    bench.send("a", "b")
    bench.finish()
    bench.finish()
    bench.send("c")

    assert bench.made == [None, None]


def test_p6_a_later_record_of_the_task_at_hand_takes_no_slot() -> None:
    """It closes with the key."""
    bench = Bench()
    bench.send("a")

    bench.send("a", offset=9)
    slots = bench.slots
    bench.end()

    assert (slots, bench.record_completion().offset) == (1, 9)
    assert bench.is_over


def test_p6_a_later_record_without_a_slot_is_for_what_is_here_alone() -> None:
    """At hand or waiting; anything else is read from the store in its turn."""
    bench = Bench()
    bench.send("a", "b")

    for name in "abc":
        bench.tell(UpdateTask(task_named(name, offset=9)))
    slots = bench.slots
    bench.finish()

    assert slots == 2 and bench.runner.only.task.offset == 9
    bench.finish()
    assert bench.is_over


def test_p6_of_records_of_a_waiting_task_the_latest_counts() -> None:
    """Whatever comes first."""
    bench = Bench()
    bench.send("a")

    bench.send("b", offset=9)
    bench.send("b", offset=5)
    slots = bench.slots
    bench.finish()

    assert bench.runner.only.task.offset == 9 and slots == 2


def test_p13_what_is_held_in_memory_is_counted_by_the_newest_record() -> None:
    """However many of a key come."""
    bench = Bench()
    bench.send("a", "b")

    for offset, text in ((9, "x" * 500), (10, "y" * 20)):
        for name in "ab":
            bench.execute(later(name, offset, text))
            held = bench.budget.due_bytes
            assert held >= later(name, offset, text).size_bytes
    expected = sum(later(name, 10, "y" * 20).size_bytes for name in "ab")

    assert bench.budget.due_bytes == expected and bench.slots == 2


def test_p13_what_does_not_fit_in_the_queue_is_left_to_the_store() -> None:
    """It is read when the queue is empty, and its range is exact."""
    bench = Bench()

    bench.send("a", "b", "c", "d", "e", "f")
    slots = bench.slots
    for _ in range(4):
        bench.finish()
    request = bench.loaded("e", "f")

    assert slots == 1 + QUEUE_MAX
    assert (request.after, request.up_to) == (
        first_key_at(task_named("e").key.scheduled_ms),
        task_named("f").key,
    )
    assert bench.running == ["e"] and bench.slots == 2


def test_p4_once_tasks_are_in_the_store_later_ones_join_them_there() -> None:
    """Or they would overtake."""
    bench = Bench()
    bench.send("a", "b", "c", "d", "e")
    bench.finish()

    bench.send("f")
    for _ in range(3):
        bench.finish()
    request = bench.loaded("e", "f")

    assert request.up_to == task_named("f").key and bench.running == ["e"]


def test_p7_what_waits_behind_a_task_that_takes_long_is_left_to_the_store() -> None:
    """It costs one slot, and what arrives later joins the rest."""
    bench = Bench()
    bench.send("a", "b", "c")

    slow(bench)
    bench.send("d")
    slots, is_slow = bench.slots, bench.is_slow
    bench.finish()
    request = bench.loaded("b", "c", "d")

    assert (slots, is_slow) == (1, True)
    assert (request.after, request.up_to) == (
        first_key_at(task_named("b").key.scheduled_ms),
        task_named("d").key,
    )
    assert bench.running == ["b"] and bench.slots == 3


def test_p7_what_waits_behind_a_retry_is_left_to_the_store() -> None:
    """As behind one that takes long."""
    bench = Bench()
    bench.send("a", "b")

    bench.fail_once()

    assert bench.slots == 1 and bench.is_slow


def test_p7_what_waits_behind_a_suspect_is_left_to_the_store() -> None:
    """A suspect waits for the others of its node, however long these run."""
    bench, suspect = Bench(), task_named("a", last=1)
    state = replace(suspect.attempts, suspect=True)

    bench.execute(replace(suspect, attempts=state), task_named("b"))
    bench.send("c")
    slots, is_slow = bench.slots, bench.is_slow
    bench.finish()
    bench.loaded("b", "c")

    assert (slots, is_slow) == (1, True)
    assert bench.running == ["b"] and bench.slots == 2


def test_p7_what_waits_behind_a_follower_that_is_not_taken_is_left_to_the_store() -> None:
    """The log may be unavailable for long."""
    bench = Bench()
    follower = encode_task(a_task(ordering_id="b"))
    row = decode_record(a_record(value=with_then(encode_task(a_task()), follower, "any")))
    assert isinstance(row, StoredTask)
    bench.execute(replace(task_named("a"), body=row.body))
    bench.send("b")

    bench.end()
    bench.advance(SLOW_MS)

    assert bench.harness.writer.appended and bench.slots == 1 and bench.is_slow


def test_what_was_slow_and_has_ended_says_nothing_of_the_next() -> None:
    """Its queue stays in memory."""
    bench = Bench()
    bench.send("a", "b", "c")
    bench.runner.slow = [bench.runner.only]
    bench.finish()

    bench.advance(SLOW_MS)

    assert bench.slots == 2 and not bench.is_slow


def test_a_task_that_arrives_during_a_read_is_left_to_the_store() -> None:
    """It may lie in the range that is read, or behind it."""
    bench = Bench()
    bench.send("a", "b")
    slow(bench)
    bench.finish()

    bench.send("c")
    bench.loaded("b")
    bench.finish()
    request = bench.loaded("c")

    assert request.up_to == task_named("c").key and bench.running == ["c"]


def test_p7_ids_that_read_together_do_not_take_the_same_slots() -> None:
    """What one may bring is kept until its answer, or until nobody waits for it any more."""
    bench = Bench(slots=40)
    budget = bench.budget
    bench.send("a", "b")
    slow(bench)

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
    assert bench.running == []


def test_a_long_range_is_read_page_by_page() -> None:
    """Each from where the one before ended."""
    bench = Bench()
    bench.send("a", "b", "c", "d", "e", "f")
    slow(bench)
    bench.finish()

    first = bench.loaded("b", "c", "d", next_after=task_named("d").key)
    for _ in range(3):
        bench.finish()
    second = bench.loaded("e", "f")

    assert (first.limit, second.after) == (QUEUE_MAX, task_named("d").key)
    assert second.up_to == task_named("f").key and bench.running == ["e"]


def test_an_id_whose_range_holds_nothing_open_is_idle() -> None:
    """Everything in it was closed by commands."""
    bench = Bench()
    bench.send("a", "b")
    slow(bench)
    bench.finish()
    is_over = bench.is_over

    bench.loaded()

    assert not is_over and bench.is_over


def test_p5_a_queue_of_closed_tasks_is_passed_in_one_turn() -> None:
    """However long it is, no call waits for another."""
    bench = Bench(known_since_ms=0, slots=5_000)
    closed = [replace(task_named("b"), key=_numbered(number)) for number in range(1_500)]
    bench.send("a")
    for task in closed:
        bench.execute(task)
    for task in closed:
        bench.harness.siblings.known_completions.remember(a_completion(key=task.key))

    bench.finish()

    assert bench.is_over and not bench.runner.started


def _numbered(number: int) -> TaskKey:
    return task_named("b").key._replace(uniqueness_key=f"{number:04}")


# Commands.


@pytest.mark.parametrize("withdrawal", Withdrawal)
def test_a_task_that_waits_is_withdrawn_and_read_again_where_it_may_stay_open(
    withdrawal: Withdrawal,
) -> None:
    """Before what waits behind it (P4)."""
    bench = Bench()
    bench.send("a", "b", "c")

    result = holding_of(bench.withdraw(withdrawal, task_named("b").key))
    slots = bench.slots
    bench.finish()

    may_be_open = withdrawal is not Withdrawal.CLOSE
    assert result is WithdrawalResult.WITHDRAWN
    assert slots == (1 if may_be_open else 2)
    assert bench.asks_store is may_be_open
    assert bench.running == ([] if may_be_open else ["c"])


def test_a_task_that_waits_and_ran_before_is_not_moved() -> None:
    """It belongs to its key."""
    bench = Bench()
    bench.send("a")
    bench.execute(task_named("b", last=1))

    result = holding_of(bench.withdraw(Withdrawal.MOVE, task_named("b").key))

    assert result is WithdrawalResult.RAN and bench.slots == 2


def test_a_withdrawal_of_what_runs_gives_no_slot_back() -> None:
    """It is in use until the task has ended."""
    bench = Bench()
    bench.send("a", "b")

    asker = bench.withdraw(Withdrawal.CLOSE, task_named("a").key)

    assert bench.slots == 2 and holding_of(asker) is WithdrawalResult.RUNNING


@pytest.mark.parametrize("withdrawal", [Withdrawal.MOVE, Withdrawal.RETRY])
def test_p6_a_task_at_hand_is_read_again_where_its_withdrawal_may_leave_it_open(
    withdrawal: Withdrawal,
) -> None:
    """It is let go of before the command is durable, which may still fail."""
    bench = Bench()
    bench.send("a", "b")

    bench.withdraw(withdrawal, task_named("a").key)
    bench.finish()

    request = bench.loaded("a", "b")
    assert request.after < task_named("a").key <= request.up_to
    assert bench.running == ["a"]


# What is not due yet, as an earlier owner's clock was ahead.

UP_TO_MS = NOW_MS + 150_000


def due_in(due_in_ms: int, offset: int = 0) -> StoredTask:
    """Return a task of the id, named after its time."""
    key = task_named("a").key._replace(
        scheduled_ms=NOW_MS + due_in_ms, uniqueness_key=str(due_in_ms)
    )
    return replace(task_named("a", offset), key=key)


def early_bench(*due_in_ms: int) -> Bench:
    """Return a bench whose id is a straggler and has read these tasks."""
    bench = Bench()
    bench.load_straggler(ID, NOW_MS - 10_000, UP_TO_MS)
    bench.load(*map(due_in, due_in_ms))
    return bench


def test_p4_what_is_not_due_is_read_again_when_it_is() -> None:
    """To the millisecond, and all behind it, which may stand on further pages."""
    bench = early_bench(-1_000, 5_000, 6_000)
    bench.finish()

    bench.advance(4_999)
    early = bench.asks_store
    bench.advance(1)
    request = bench.load(due_in(5_000))

    assert not early
    assert (request.after, request.up_to) == (
        first_key_at(NOW_MS + 5_000),
        first_key_at(UP_TO_MS),
    )
    assert bench.running == ["5000"]


def test_p8_what_is_waited_for_counts_as_open_and_takes_no_slot() -> None:
    """So the watermark does not pass it."""
    bench = early_bench(5_000)

    assert bench.slots == 0 and bench.progress().earliest_ms == NOW_MS + 5_000


def test_p4_a_task_that_falls_due_before_it_runs_before_it() -> None:
    """It waits neither for the store nor for the time of the later one."""
    bench = early_bench(60_000)

    bench.advance(5_000)
    bench.begin(due_in(5_000))
    running = bench.running
    bench.finish()
    bench.advance(55_000)
    bench.load(due_in(60_000))

    assert running == ["5000"] and bench.running == ["60000"]


def test_a_clock_that_is_stepped_is_noticed_within_the_check_interval() -> None:
    """No timer sleeps longer, and none reads too early."""
    bench = early_bench(60_000)

    bench.harness.clock.step_wall(-10_000)
    bench.advance(60_000)
    early = bench.asks_store
    bench.harness.clock.step_wall(10_000)
    bench.advance(1_000)

    assert not early and bench.asks_store


def test_p15_a_drain_ends_the_wait() -> None:
    """What waits is open in the store, for the next owner."""
    bench = early_bench(5_000)

    bench.tell(DrainTasks())
    bench.advance(10_000)

    assert not bench.asks_store and bench.is_drained
    assert bench.progress().earliest_ms == NOW_MS + 5_000


def test_p14_a_drain_begins_nothing_that_waits() -> None:
    """Also where it is known to be open: others own the partition soon."""
    bench = Bench(known_since_ms=0)
    bench.send("a", "b")

    bench.tell(DrainTasks())
    bench.finish()

    assert not bench.running and bench.is_drained
    assert not bench.harness.persistence.has(LoadOrdering)


def test_p8_a_task_that_a_drain_ended_open_is_left_to_the_next_owner() -> None:
    """Nobody else says from where on it has to read; what was closed is not read again."""
    bench = Bench()
    bench.send("a", "b")

    bench.tell(DrainTasks())
    bench.end(Ending.FAILED)
    bench.record()

    assert bench.is_drained
    assert bench.progress().earliest_ms == task_named("a").key.scheduled_ms


def test_p8_what_a_drain_finds_slow_is_left_as_that() -> None:
    """The watermark of the next owner may pass it."""
    bench = Bench()
    bench.send("a")
    bench.fail_once()

    bench.tell(DrainTasks())

    assert bench.is_drained
    assert [each.ordering_id for each in bench.progress().stragglers] == [ID]


def test_a_task_of_another_id_is_refused() -> None:
    """The tree is thrown away and rebuilt from the store, as for every bug (P16)."""
    bench = Bench()
    bench.send("a", "b")
    ordering = OrderingExecutor(bench.actor._turn, "another")

    with pytest.raises(AssertionError):
        ordering.update(task_named("a"))


def test_an_answer_that_nobody_waits_for_any_more_is_passed_over() -> None:
    """A pause came, and ended: what was asked since has all of it."""
    bench = Bench()
    bench.send("a", "b")
    slow(bench)
    bench.finish()
    stale = bench.harness.persistence.messages[-1]
    assert isinstance(stale, LoadOrdering)
    bench.harness.persistence.messages.clear()
    bench.pause(ID)
    bench.pause()

    bench.tell(OrderingLoaded(stale, (task_named("b"),), None))
    before = bench.running
    bench.loaded("b")

    assert (before, bench.running) == ([], ["b"])
