"""Tasks of one ordering id that need no order: places, what waits for them, and the store."""

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import (
    DrainTasks,
    LoadOrdering,
    OrderingLoaded,
    StartTasks,
    UpdateTask,
)
from hourhand.actors.model.execution.attempts import AttemptEnded, Ending
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.task import StoredTask
from tests.builders import NOW_MS, an_attempt
from tests.unit.actors.execution_bench import ID, QUEUE_MAX, Bench, Job, holding_of, task_named
from tests.unit.fakes import SLOW_MS
from tests.unit.probes import EPOCH

PAIR, SWARM = "pair", "swarm"
PLACES: dict[str | None, int | None] = {PAIR: 2, SWARM: None}


class Unordered(Bench):
    """One ordering id with kinds of which it runs several at once."""

    def __init__(self, *names: str, epoch: int = EPOCH) -> None:
        """An earlier tree has left attempts of these tasks, of the first kind."""
        left = [
            replace(an_attempt(task=of_kind(name, PAIR), epoch=epoch), is_unordered=True)
            for name in names
        ]
        super().__init__(known_since_ms=0, concurrency_per_id=PLACES, left=left)
        self.kinds.update({PAIR: self.role, SWARM: self.role})

    def send_all(self, names: str, kind: str | None, offset: int = 0) -> None:
        """Send due tasks of a kind, one after another."""
        for name in names:
            self.execute(of_kind(name, kind, offset))

    @property
    def begun(self) -> str:
        """The names of all tasks that run."""
        return "".join(sorted(self.running))

    def end_of(self, name: str, ending: Ending = Ending.DONE) -> None:
        """Let the attempt of a task end."""
        started = self.runner.started
        each = next(e for e in started if e.attempt.task.key.uniqueness_key == name)
        started.remove(each)
        started.insert(0, each)
        self.end(ending)

    def close(self, names: str) -> None:
        """Let tasks at hand be closed."""
        for name in names:
            self.end_of(name)
            self.record()

    def make_slow(self, names: str) -> None:
        """Let attempts take long."""
        self.runner.slow = [
            each.attempt
            for each in self.runner.started
            if each.attempt.task.key.uniqueness_key in names
        ]
        self.advance(SLOW_MS)

    def asked(self, kind: str | None = PAIR) -> LoadOrdering:
        """Return what was asked of the store for a kind."""
        asked = self.harness.persistence.take_all(LoadOrdering)
        (request,) = (each for each in asked if each.kind == kind)
        return request

    def answer(self, request: LoadOrdering, *tasks: StoredTask) -> None:
        """Answer for the store, to the end of the range."""
        self.tell(OrderingLoaded(request, tasks, None))


def of_kind(name: str, kind: str | None, offset: int = 0) -> StoredTask:
    """Return a task of a kind whose due time follows from its one-letter name."""
    task = task_named(name, offset)
    body = b"{}" if kind is None else b'{"hourhand.kind":"%b"}' % kind.encode()
    return replace(task, body=body)


def test_as_many_run_at_once_as_their_kind_says() -> None:
    """The next begins when any of them is closed, whichever that is."""
    bench = Unordered()

    bench.send_all("abcd", PAIR)
    first = bench.begun
    bench.close("b")

    assert (first, bench.begun, bench.slots) == ("ab", "ac", 3)


def test_without_a_limit_all_of_them_run() -> None:
    """No task of the id waits for another one."""
    bench = Unordered()

    bench.send_all("abc", SWARM)

    assert bench.begun == "abc"


def test_tasks_with_and_without_order_do_not_wait_for_each_other() -> None:
    """Nor do kinds without order; those that have one stay one after another."""
    bench = Unordered()

    bench.send_all("ab", None)
    bench.send_all("cde", PAIR)
    bench.send_all("f", SWARM)
    bench.send_all("g", None)
    before = bench.begun
    bench.close("a")

    assert (before, bench.begun) == ("acdf", "bcdf")


def test_a_slow_task_with_an_order_leaves_those_behind_it_to_the_store_and_no_other() -> None:
    """A task without order that comes then begins at once."""
    bench = Unordered()
    bench.send_all("ab", None)

    bench.make_slow("a")
    bench.send_all("c", PAIR)

    assert (bench.begun, bench.slots) == ("ac", 2) and bench.is_slow


def test_each_task_at_hand_has_an_executor_of_its_own_which_serves_the_next() -> None:
    """An instance of the user's runs one task at a time."""
    bench = Unordered()
    bench.kinds[PAIR] = Job()

    bench.send_all("abc", PAIR)
    bench.close("a")
    bench.close("b")
    bench.send_all("d", PAIR)

    assert bench.made == [PAIR, PAIR] and bench.begun == "cd"


def test_what_has_no_place_waits_in_memory_up_to_the_most_and_is_then_left_to_the_store() -> None:
    """It is read when there is a place and nothing waits."""
    bench = Unordered()
    names = "abcdefg"
    assert len(names) == 2 + QUEUE_MAX + 2

    bench.send_all(names, PAIR)
    slots = bench.slots
    bench.close("abcde")
    request = bench.asked()
    bench.answer(request, of_kind("f", PAIR), of_kind("g", PAIR))
    begun = bench.begun
    bench.close("fg")

    assert request.after < task_named("f").key and request.up_to == task_named("g").key
    assert (slots, begun) == (2 + QUEUE_MAX, "fg") and bench.is_over


def test_without_a_limit_memory_bounds_what_runs_and_what_waits_for_a_retry() -> None:
    """One that waits makes room for another, up to twice as many."""
    bench = Unordered()
    bench.send_all("abcd", SWARM)
    first = bench.begun

    bench.make_slow("abc")
    bench.send_all("efgh", SWARM)
    bench.make_slow("abcdef")
    bench.send_all("ijkl", SWARM)

    assert first == "abc" and len(bench.begun) == 2 * QUEUE_MAX


def test_where_all_at_hand_are_slow_what_waits_is_left_to_the_store() -> None:
    """It gives its slots to other ids (P7, P13), and so does what comes later."""
    bench = Unordered()
    bench.send_all("abcd", PAIR)

    bench.make_slow("a")
    one = bench.slots
    bench.make_slow("ab")
    bench.send_all("e", PAIR)

    assert (one, bench.slots) == (4, 2)


def test_p8_the_first_open_task_of_all_is_what_the_watermark_waits_for() -> None:
    """True if others that came later are closed."""
    bench = Unordered()
    bench.send_all("abc", PAIR)

    bench.close("b")

    assert bench.progress().earliest_ms == task_named("a").key.scheduled_ms


@pytest.mark.parametrize(("first", "then"), [(PAIR, None), (None, PAIR)])
def test_p8_a_task_that_a_drain_ended_open_counts_while_others_are_at_hand(
    first: str | None, then: str | None
) -> None:
    """Nobody else says to the next owner from where on it has to read."""
    bench = Unordered()
    bench.send_all("a", first)
    bench.send_all("b", then)

    bench.tell(DrainTasks())
    bench.end_of("a", Ending.FAILED)
    bench.record()
    early = bench.progress().earliest_ms
    bench.close("b")

    assert early == bench.progress().earliest_ms == task_named("a").key.scheduled_ms
    assert bench.is_drained


def test_p14_a_drain_waits_for_all_that_are_at_hand() -> None:
    """And begins none of those that wait."""
    bench = Unordered()
    bench.send_all("abc", PAIR)

    bench.tell(DrainTasks())
    bench.close("a")
    early = bench.is_drained
    bench.close("b")

    assert not early and bench.is_drained and bench.begun == ""


def test_a_pause_leaves_what_waits_and_ends_with_the_last_at_hand() -> None:
    """The partition has all of it read when the pause is over."""
    bench = Unordered()
    bench.send_all("abcd", PAIR)

    bench.pause(ID)
    paused = bench.slots
    bench.close("ab")

    assert (paused, bench.slots, bench.begun) == (2, 0, "")


@pytest.mark.parametrize("kind", [None, PAIR], ids=["in order", "without order"])
def test_p8_a_read_under_way_ends_with_a_pause(kind: str | None) -> None:
    """It takes no slot and is taken from no answer."""
    bench = Unordered()
    bench.send_all("ab", kind)
    bench.withdraw(Withdrawal.RETRY, task_named("a").key)
    bench.close("a" if kind is None else "ab")
    request = bench.asked(kind)

    bench.pause(ID)
    bench.answer(request, of_kind("a", kind))

    assert (bench.begun, bench.slots, bench.budget.slots_reserved) == ("", 0, 0)


@pytest.mark.parametrize("kind", [None, PAIR], ids=["in order", "without order"])
def test_p13_a_read_under_way_brings_nothing_into_a_pause_that_an_attempt_outlives(
    kind: str | None,
) -> None:
    """It would keep slots for as long as the pause lasts; the rows are read after it."""
    bench = Unordered()
    bench.send_all("z", SWARM)
    bench.send_all("a", kind)
    bench.withdraw(Withdrawal.RETRY, task_named("a").key)
    bench.close("a")
    request = bench.asked(kind)

    bench.pause(ID)
    bench.answer(request, of_kind("a", kind))
    assert (bench.slots, bench.budget.slots_reserved) == (1, 0)

    bench.pause()
    bench.answer(bench.asked(kind), of_kind("a", kind))
    assert bench.begun == "az"


@pytest.mark.parametrize("kind", [None, PAIR], ids=["in order", "without order"])
def test_p8_an_answer_from_before_a_pause_is_not_taken_for_that_to_a_later_read(
    kind: str | None,
) -> None:
    """It says nothing of what came during the pause."""
    bench = Unordered()
    bench.send_all("a", kind)
    bench.withdraw(Withdrawal.RETRY, task_named("a").key)
    bench.close("a")
    stale = bench.asked(kind)
    bench.pause(ID)
    bench.send_all("b", kind)
    bench.pause()
    request = bench.asked(kind)

    bench.answer(stale)
    bench.answer(request, of_kind("b", kind))

    assert bench.begun == "b" and bench.slots == 1


def test_what_was_left_behind_is_read_for_each_kind() -> None:
    """Each takes its own of the range, and what another knows is not taken twice."""
    bench = Unordered()
    rows = (of_kind("a", None), of_kind("b", PAIR), of_kind("c", SWARM))

    bench.load_straggler(ID, rows[0].key.scheduled_ms, NOW_MS)
    asked = bench.harness.persistence.take_all(LoadOrdering)
    for request in asked:
        bench.answer(request, *rows)

    assert {request.kind for request in asked} == {None, *PLACES}
    assert bench.begun == "abc" and bench.slots == 3


def test_what_is_not_due_yet_is_read_when_it_is() -> None:
    """The watermark of an owner whose clock was ahead left it."""
    bench = Unordered()
    bench.load_straggler(ID, NOW_MS - 500, NOW_MS + 100_000)
    key = task_named("z").key
    far = replace(of_kind("z", PAIR), key=key._replace(scheduled_ms=NOW_MS + 60_000))

    for request in bench.harness.persistence.take_all(LoadOrdering):
        bench.answer(request, far)
    early = bench.harness.persistence.has(LoadOrdering)
    bench.advance(60_000)
    request = bench.asked()

    assert not early and request.after == first_key_at(NOW_MS + 60_000)


def test_a_row_that_was_read_is_not_run_beside_itself() -> None:
    """It came from the log and began while the read was under way."""
    bench = Unordered()
    bench.send_all("bc", PAIR)
    bench.withdraw(Withdrawal.RETRY, task_named("b").key)
    bench.close("b")
    request = bench.asked()
    bench.send_all("b", PAIR)

    bench.answer(request, of_kind("b", PAIR))

    assert bench.begun == "bc" and bench.slots == 2


def test_p6_a_later_record_reaches_the_task_wherever_it_is() -> None:
    """At hand for its next attempt; waiting it is replaced; neither takes a slot."""
    bench = Unordered()
    bench.send_all("abc", PAIR)

    bench.send_all("ac", PAIR, offset=9)
    slots = bench.slots
    bench.close("b")
    offsets = {
        e.attempt.task.key.uniqueness_key: e.attempt.task.offset for e in bench.runner.started
    }
    bench.end_of("a")

    assert slots == 3 and offsets == {"a": 0, "c": 9}
    assert bench.record_completion().offset == 9


@pytest.mark.parametrize("kind", [None, PAIR], ids=["in order", "without order"])
@pytest.mark.parametrize("is_late", [False, True], ids=["while it runs", "once it has ended"])
def test_p6_a_record_after_the_cancel_of_a_running_task_opens_it_again(
    kind: str | None, *, is_late: bool
) -> None:
    """The command allows no further attempt, the record does: the key is read again."""
    bench = Unordered()
    bench.send_all("a", kind)
    bench.withdraw(Withdrawal.CLOSE, task_named("a").key)

    if is_late:
        bench.end_of("a", Ending.FAILED)
    bench.send_all("a", kind, offset=9)
    if not is_late:
        bench.end_of("a", Ending.FAILED)
    bench.record()
    bench.answer(bench.asked(kind), of_kind("a", kind, offset=9))

    assert [each.attempt.task.offset for each in bench.runner.started] == [9]
    assert bench.slots == 1


@pytest.mark.parametrize("withdrawal", Withdrawal)
def test_a_command_withdraws_what_waits_and_reads_again_what_may_stay_open(
    withdrawal: Withdrawal,
) -> None:
    """What runs is not stopped by it."""
    bench = Unordered()
    bench.send_all("abc", PAIR)

    result = holding_of(bench.withdraw(withdrawal, task_named("c").key))
    slots = bench.slots
    bench.close("a")

    assert (result, slots) == (WithdrawalResult.WITHDRAWN, 2)
    assert bench.asks_store is (withdrawal is not Withdrawal.CLOSE)


@pytest.mark.parametrize("withdrawal", Withdrawal)
def test_p6_a_task_at_hand_is_read_again_where_its_withdrawal_may_leave_it_open(
    withdrawal: Withdrawal,
) -> None:
    """It is let go of before the command is durable, which may still fail."""
    bench = Unordered()
    bench.send_all("ab", PAIR)

    bench.withdraw(withdrawal, task_named("a").key)
    bench.close("a")

    assert bench.asks_store is (withdrawal is not Withdrawal.CLOSE)


def test_attempts_of_an_earlier_tree_hold_their_places() -> None:
    """Nothing begins before the partition may start, and then only beside them (P16)."""
    bench = Unordered("a", "b")
    bench.send_all("c", PAIR)
    before = bench.begun
    bench.tell(StartTasks())
    full = bench.begun

    bench.close("a")

    assert (before, full, bench.begun) == ("ab", "ab", "bc")


def test_p4_a_refused_attempt_of_an_earlier_tree_begins_anew_when_the_partition_may_start() -> None:
    """The log may hold more of its key, which is read then."""
    bench = Unordered("a")

    bench.end_of("a", Ending.NOT_STARTED)
    bench.advance(60_000)
    early = bench.begun, bench.asks_store
    bench.tell(StartTasks())
    bench.answer(bench.asked(), of_kind("a", PAIR))

    assert (early, bench.begun) == (("", False), "a")


def test_p16_a_key_waits_for_its_attempt_of_an_earlier_ownership() -> None:
    """Its outcome proves nothing, so the key runs again, and never beside itself."""
    bench = Unordered("a", epoch=0)
    bench.tell(StartTasks())
    bench.send_all("a", PAIR)
    beside = [each.attempt.epoch for each in bench.runner.started]

    bench.end_of("a")
    bench.answer(bench.asked(), of_kind("a", PAIR))

    assert beside == [0]
    assert [each.attempt.epoch for each in bench.runner.started] == [EPOCH]


def test_a_key_that_waits_for_such_an_attempt_keeps_no_other_task_of_its_kind_waiting() -> None:
    """One place is taken by that attempt, the other one is free."""
    bench = Unordered("a", epoch=0)
    bench.tell(StartTasks())

    bench.send_all("abc", PAIR)

    assert bench.begun == "ab"


@pytest.mark.parametrize("is_read", [True, False])
def test_p4_a_key_that_has_an_order_by_now_waits_for_such_an_attempt(*, is_read: bool) -> None:
    """It is not read in a circle, and what is behind it waits as well."""
    bench = Unordered("a", epoch=0)
    bench.tell(StartTasks())
    if is_read:
        bench.load_straggler(ID, NOW_MS - 2_000, NOW_MS)
        for request in bench.harness.persistence.take_all(LoadOrdering):
            bench.answer(request, of_kind("a", None, 9), of_kind("b", None))
    else:
        bench.send_all("ab", None)
    waits = bench.begun, bench.asks_store

    bench.end_of("a")
    bench.answer(bench.asked(), of_kind("a", None, 9))
    begun = [(each.attempt.epoch, each.attempt.is_unordered) for each in bench.runner.started]
    bench.close("a")

    assert waits == ("a", False)
    assert begun == [(EPOCH, False)]
    assert bench.begun == "b"


def test_a_task_whose_kind_has_an_order_by_now_is_read_in_its_place() -> None:
    """It waited as one that needs none."""
    bench = Unordered()
    bench.send_all("abc", PAIR)
    bench.tell(UpdateTask(of_kind("c", None, offset=9)))

    bench.close("a")
    request = bench.asked(None)
    bench.answer(request, of_kind("c", None, offset=9))

    assert request.up_to == task_named("c").key
    assert bench.begun == "bc" and bench.slots == 2


def test_p3_a_key_whose_later_record_needs_no_order_never_runs_beside_itself() -> None:
    """It runs as one that has an order, and ends there."""
    bench = Unordered()
    bench.send_all("a", None)

    bench.send_all("a", PAIR, offset=9)
    bench.load_straggler(ID, NOW_MS - 2_000, NOW_MS)
    for request in bench.harness.persistence.take_all(LoadOrdering):
        bench.answer(request, of_kind("a", PAIR, offset=9))

    assert bench.begun == "a" and bench.slots == 1


def test_an_end_that_was_told_before_its_task_was_withdrawn_changes_nothing() -> None:
    """The place is another task's by now."""
    bench = Unordered()
    bench.send_all("abc", PAIR)
    bench.runner.waits_for_a_worker = True
    left = bench.runner.started[0]
    bench.withdraw(Withdrawal.CLOSE, task_named("a").key)

    left.listener(AttemptEnded(left.attempt, Ending.NOT_STARTED, NOW_MS, NOW_MS))
    bench.run()

    assert bench.begun == "bc" and bench.slots == 2


def test_p13_a_task_at_hand_is_counted_once_by_its_newest_record() -> None:
    """However many there are."""
    bench = Unordered()
    bench.send_all("a", PAIR)

    bench.send_all("a", PAIR, offset=9)

    assert (bench.slots, bench.budget.due_bytes) == (1, of_kind("a", PAIR).size_bytes)
