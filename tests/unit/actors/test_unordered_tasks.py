"""Tasks of one ordering id that need no order: beside those that have one, and bounded."""

import pytest
from msgspec.structs import replace

from actors.held_executors import HeldExecutors
from actors.messages import (
    AdoptAttempt,
    AdoptLane,
    AttemptTask,
    CompletionRecorded,
    DrainTasks,
    ExecuteTask,
    HoldOrdering,
    KeepLane,
    LoadOrdering,
    OrderingDrained,
    OrderingLoaded,
    PauseOrdering,
    ReturnLane,
    SpillQueue,
    StartTasks,
    TaskExecuted,
    TaskPostponed,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.key import first_key_at
from actors.model.ordering_queue import OrderingQueue
from actors.model.status import CompletionResult
from actors.model.task import StoredTask
from tests.builders import an_attempt
from tests.unit.actors.ordering_executor_bench import (
    QUEUE_MAX,
    Bench,
    task_named,
)
from tests.unit.probes import NOTHING_KNOWN_BEFORE_MS, Probe

PAIR, SWARM = "pair", "swarm"
PLACES: dict[str | None, int | None] = {PAIR: 2, SWARM: None}


class Unordered(Bench):
    """One whose tasks have kinds: two of a pair run at once, of a swarm all."""

    def __init__(self, known_since_ms: int = NOTHING_KNOWN_BEFORE_MS) -> None:
        super().__init__(known_since_ms=known_since_ms, concurrency_per_id=PLACES)

    def send(self, names: str, kind: str | None, offset: int = 0) -> None:
        """Send due tasks of a kind; each occupies a slot until it is released."""
        for name in names:
            self.slots += 1
            self.tell(ExecuteTask(of_kind(name, kind, offset)))

    @property
    def begun(self) -> str:
        """The names of all tasks that executors were given."""
        told = [m for child in self.role.children for m in child.messages]
        keys = sorted(m.task.key for m in told if isinstance(m, AttemptTask))
        return "".join(key.uniqueness_key for key in keys)

    def end(self, names: str, offset: int = 0, *, in_doubt: bool = False) -> None:
        """Let tasks at hand be closed."""
        for name in names:
            self.tell(TaskExecuted(task_named(name).key, offset, in_doubt))

    def asked(self, kind: str | None = PAIR) -> LoadOrdering:
        """Return what was asked of the store."""
        request = self.harness.persistence.take(LoadOrdering)
        assert request.kind == kind
        return request

    def answer(self, kind: str | None, *tasks: StoredTask) -> None:
        """Answer for the store, to the end of the range."""
        self.tell(OrderingLoaded(tasks, None, kind))


def of_kind(name: str, kind: str | None, offset: int = 0) -> StoredTask:
    """Return a task of a kind whose due time follows from its one-letter name."""
    task = task_named(name, offset)
    return task if kind is None else with_kind(task, kind)


def with_kind(task: StoredTask, kind: str) -> StoredTask:
    """Return the same task of another kind."""
    return StoredTask(task.key, b'{"hourhand.kind":"%b"}' % kind.encode(), task.offset)


def test_as_many_run_at_once_as_their_kind_says() -> None:
    """The next begins when any of them is closed, whichever that is."""
    bench = Unordered()

    bench.send("abcd", PAIR)
    first = bench.begun
    bench.end("b")

    assert (first, bench.begun, bench.slots) == ("ab", "abc", 3)


def test_without_a_limit_all_of_them_run() -> None:
    """No task of the id waits for another one."""
    bench = Unordered()

    bench.send("abc", SWARM)

    assert bench.begun == "abc"


def test_tasks_with_and_without_order_do_not_wait_for_each_other() -> None:
    """Nor do kinds without order; those that have one stay one after another."""
    bench = Unordered()

    bench.send("ab", None)
    bench.send("cde", PAIR)
    bench.send("f", SWARM)
    bench.send("g", None)
    before = bench.begun
    bench.end("a")

    assert (before, bench.begun) == ("acdf", "abcdf")


def test_a_held_task_with_an_order_leaves_its_followers_to_the_store_and_no_other() -> None:
    """A task without order that comes then begins at once."""
    bench = Unordered()
    bench.send("ab", None)

    bench.tell(TaskPostponed(task_named("a").key))
    bench.send("c", PAIR)

    assert (bench.begun, bench.slots) == ("ac", 2)
    assert bench.last is not None and bench.last.held


def test_each_task_at_hand_has_an_executor_of_its_own_which_serves_the_next() -> None:
    """An instance of the user's runs one task at a time."""
    bench = Unordered()

    bench.send("abc", PAIR)
    bench.end("a")
    bench.end("bc")
    bench.send("d", PAIR)

    assert len(bench.role.children) == 2 and bench.begun == "abcd"


def test_what_has_no_place_waits_in_memory_up_to_the_most_and_is_then_left_to_the_store() -> None:
    """It is read when there is a place and nothing waits."""
    bench = Unordered()
    names = "abcdefg"
    assert len(names) == 2 + QUEUE_MAX + 2

    bench.send(names, PAIR)
    assert bench.slots == 2 + QUEUE_MAX
    bench.end("abcde")
    request = bench.asked()
    bench.answer(PAIR, of_kind("f", PAIR), of_kind("g", PAIR))
    bench.end("fg")

    assert request.after < task_named("f").key and request.up_to == task_named("g").key
    assert bench.begun == names and bench.slots == 0
    assert bench.last is not None and bench.last.first_ms is None


def test_without_a_limit_memory_bounds_what_runs_and_what_waits_for_a_retry() -> None:
    """One that waits makes room for another, up to twice as many."""
    bench = Unordered()
    bench.send("abcd", SWARM)
    first = bench.begun

    for name in "abcdef":
        bench.send("efghijkl"["abcdef".index(name)], SWARM)
        bench.tell(TaskPostponed(task_named(name).key))

    assert first == "abc"
    assert bench.begun == "abcdef" and len(bench.begun) == 2 * QUEUE_MAX
    assert bench.last is not None and bench.last.first_ms == task_named("a").key.scheduled_ms


def test_where_all_at_hand_are_slow_what_waits_is_left_to_the_store() -> None:
    """It gives its slots to other ids (P7, P13)."""
    bench = Unordered()
    bench.send("abcd", PAIR)

    bench.tell(SpillQueue(task_named("a").key))
    one = bench.slots
    bench.tell(SpillQueue(task_named("b").key))

    assert (one, bench.slots) == (4, 2)


def test_the_first_open_task_of_all_is_what_the_watermark_waits_for() -> None:
    """Whether others that came later are closed (P8)."""
    bench = Unordered()
    bench.send("abc", PAIR)

    bench.end("b")

    assert bench.last is not None
    assert bench.last.first_ms == task_named("a").key.scheduled_ms


@pytest.mark.parametrize(("first", "then"), [(PAIR, None), (None, PAIR)])
def test_p8_a_task_that_a_drain_ended_open_counts_while_others_are_at_hand(
    first: str | None, then: str | None
) -> None:
    """Nobody else says to the next owner from where on it has to read."""
    bench = Unordered()
    bench.send("a", first)
    bench.send("b", then)

    bench.tell(DrainTasks())
    bench.end("a")
    assert bench.last is not None
    assert bench.last.first_ms == task_named("a").key.scheduled_ms
    bench.end("b")

    assert bench.harness.executor.take_all(OrderingDrained)


def test_a_drain_waits_for_all_that_are_at_hand() -> None:
    """Each of them is told."""
    bench = Unordered()
    bench.send("abc", PAIR)

    bench.tell(DrainTasks())
    told = [m for child in bench.role.children for m in child.messages]
    bench.end("a")
    early = bench.harness.executor.take_all(OrderingDrained)
    bench.end("b")

    assert sum(isinstance(message, DrainTasks) for message in told) == 2
    assert not early and bench.harness.executor.take_all(OrderingDrained)
    assert bench.begun == "ab"


def test_a_pause_leaves_what_waits_and_ends_with_the_last_at_hand() -> None:
    """The parent reads all of it when the pause is over."""
    bench = Unordered()
    bench.send("abcd", PAIR)

    bench.tell(PauseOrdering())
    paused = bench.slots
    bench.end("ab")

    assert (paused, bench.slots, bench.begun) == (2, 0, "ab")
    assert bench.last is not None and bench.last.first_ms is None


@pytest.mark.parametrize("kind", [None, PAIR], ids=["in order", "without order"])
def test_p8_a_read_under_way_ends_with_a_pause(kind: str | None) -> None:
    """What the id holds back no watermark, takes no slot and is taken from no answer: the parent
    reads it when the pause is over.
    """
    bench = Unordered()
    bench.send("a", kind)
    bench.end("a", in_doubt=True)
    bench.asked(kind)
    reading = bench.last

    bench.tell(PauseOrdering())
    paused = bench.last
    bench.answer(kind, of_kind("a", kind))

    assert reading is not None and reading.first_ms is not None
    assert paused is not None and paused.first_ms is None
    assert (bench.begun, bench.slots, bench.harness.siblings.budget.slots_reserved) == ("a", 0, 0)


def test_what_was_left_behind_is_read_for_each_kind() -> None:
    """Each takes its own of the range, and what another knows is not taken twice."""
    bench = Unordered()
    rows = (of_kind("a", None), of_kind("b", PAIR), of_kind("c", SWARM))
    hold = HoldOrdering(first_key_at(rows[0].key.scheduled_ms), rows[-1].key)

    bench.tell(hold)
    asked = bench.harness.persistence.take_all(LoadOrdering)
    for request in asked:
        bench.answer(request.kind, *rows)

    assert {request.kind for request in asked} == {None, *PLACES}
    assert bench.begun == "abc" and bench.slots == 3


def test_what_is_not_due_yet_is_read_when_it_is() -> None:
    """The watermark of an owner whose clock was ahead left it."""
    bench = Unordered()
    bench.send("a", PAIR)
    early = with_kind(task_named("z"), PAIR)
    far = StoredTask(
        early.key._replace(scheduled_ms=early.key.scheduled_ms + 60_000), early.data, 0
    )

    bench.tell(HoldOrdering(first_key_at(task_named("b").key.scheduled_ms), far.key))
    for request in bench.harness.persistence.take_all(LoadOrdering):
        found = (far,) if request.kind == PAIR else ()
        bench.answer(request.kind, *found)
    assert not bench.harness.persistence.take_all(LoadOrdering) and bench.begun == "a"
    bench.harness.advance(60_000)

    assert bench.asked().up_to == far.key


def test_a_row_that_was_read_is_not_run_beside_itself() -> None:
    """It came from the log and began while the read was under way."""
    bench = Unordered()
    bench.send("bc", PAIR)
    bench.end("b", in_doubt=True)
    request = bench.asked()
    bench.send("b", PAIR)

    bench.answer(PAIR, of_kind("b", PAIR))

    assert request.up_to == task_named("b").key
    assert bench.begun == "bbc" and bench.slots == 2


def test_p6_a_later_record_reaches_the_task_wherever_it_is() -> None:
    """At hand its executor hears of it; waiting it is replaced; neither takes a slot."""
    bench = Unordered()
    bench.send("abc", PAIR)

    bench.send("ac", PAIR, offset=9)
    bench.end("b")
    bench.end("a", offset=9)

    told = [m for child in bench.role.children for m in child.messages]
    assert [m.task.offset for m in told if isinstance(m, UpdateTask)] == [9]
    assert [m.task.offset for m in told if isinstance(m, AttemptTask)] == [0, 0, 9]
    assert bench.slots == 1


@pytest.mark.parametrize("kind", [None, PAIR], ids=["in order", "without order"])
def test_p13_a_task_at_hand_counts_once_with_the_largest_of_its_records(kind: str | None) -> None:
    """However many there are; its executor may still have the larger one."""
    bench, small = Unordered(), of_kind("a", kind)
    budget = bench.harness.siblings.budget
    bench.send("a", kind)
    named = b'"hourhand.kind":"pair",' if kind else b""
    large = StoredTask(small.key, b'{%b"text":"%b"}' % (named, b"x" * 1_000), 0)
    assert budget.due_bytes == small.held_bytes < large.held_bytes
    held: list[int] = []

    for offset, task in enumerate((large, large, small, large), start=1):
        bench.slots += 1
        bench.tell(ExecuteTask(replace(task, offset=offset)))
        held.append(budget.due_bytes)
    bench.end("a", offset=4)

    assert held == [large.held_bytes] * 4
    assert (budget.due_bytes, bench.slots) == (0, 0)


def test_p6_a_record_that_came_too_late_for_the_attempt_runs_again() -> None:
    """The executor had ended before it heard of it."""
    bench = Unordered()
    bench.send("a", PAIR)
    bench.send("a", PAIR, offset=9)
    # A task that is on time may pass an older record.
    bench.tell(UpdateTask(of_kind("a", PAIR, offset=5)))

    bench.end("a", offset=0)

    told = [m for child in bench.role.children for m in child.messages]
    assert [m.task.offset for m in told if isinstance(m, AttemptTask)] == [0, 9]
    assert bench.slots == 1


def test_a_key_in_doubt_is_read_again() -> None:
    """The store may know more of it."""
    bench = Unordered()
    bench.send("a", PAIR)

    bench.end("a", in_doubt=True)

    assert bench.asked().up_to == task_named("a").key


def test_a_command_withdraws_what_waits_and_asks_the_executor_of_what_is_at_hand() -> None:
    """What it may leave open is read again."""
    bench, asker = Unordered(), Probe()
    bench.send("abc", PAIR)

    for name in "ca":
        bench.tell(WithdrawTask(task_named(name).key, Withdrawal.MOVE, asker))

    assert [each.result for each in asker.take_all(TaskWithdrawn)] == [WithdrawalResult.WITHDRAWN]
    told = [m for child in bench.role.children for m in child.messages]
    assert [m.key for m in told if isinstance(m, WithdrawTask)] == [task_named("a").key]
    bench.end("a")
    assert bench.asked().up_to == task_named("c").key


@pytest.mark.parametrize("kind", [None, PAIR], ids=["in order", "without order"])
@pytest.mark.parametrize("withdrawal", Withdrawal)
def test_p6_a_task_at_hand_is_read_again_where_its_withdrawal_may_leave_it_open(
    withdrawal: Withdrawal, kind: str | None
) -> None:
    """The executor lets it go before the command is durable, which may still fail."""
    bench = Unordered()
    bench.send("ab", kind)

    bench.tell(WithdrawTask(task_named("a").key, withdrawal, Probe()))
    bench.end("a")

    asked = bench.harness.persistence.take_all(LoadOrdering)
    key = task_named("a").key
    may_be_open = withdrawal is not Withdrawal.CLOSE
    assert [each.after < key <= each.up_to for each in asked] == [True] * may_be_open


def test_attempts_of_an_earlier_tree_hold_their_places() -> None:
    """Nothing begins before the partition may start, and then only beside them (P16)."""
    bench = Unordered()
    for name in "ab":
        old = an_attempt(task=of_kind(name, PAIR))
        bench.tell(AdoptAttempt(replace(old, is_unordered=True)))
    bench.send("c", PAIR)
    bench.tell(StartTasks())
    held = bench.begun

    bench.end("a")

    assert (held, bench.begun) == ("", "c")


def test_p16_a_key_waits_for_its_attempt_of_an_earlier_ownership() -> None:
    """Its outcome proves nothing, so the key runs again, and never beside itself."""
    bench = Unordered()
    old = an_attempt(task=of_kind("a", PAIR), epoch=0)
    bench.tell(AdoptAttempt(replace(old, is_unordered=True)))
    bench.tell(StartTasks())
    bench.send("a", PAIR)
    beside = bench.begun

    bench.end("a")

    assert (beside, bench.begun) == ("", "a")


def test_a_lane_that_runs_a_task_without_order_goes_on_beside_others() -> None:
    """Its executor is the lane's, and is told what the lane asked for."""
    bench = Unordered()
    task = of_kind("a", PAIR)
    attempt = replace(an_attempt(task=task), is_unordered=True)
    executors = HeldExecutors(bench.harness.effects)
    bench.harness.siblings.budget.run((task,))

    bench.tell(AdoptLane(OrderingQueue(), attempt, executors, is_recording=True))
    bench.tell(CompletionRecorded(task.key, CompletionResult.SUCCESS))
    bench.send("b", PAIR)
    told = bench.role.children[0].messages
    bench.end("ab")

    assert [type(message) for message in told] == [AdoptLane, CompletionRecorded]
    assert bench.begun == "b" and bench.slots == -1
    assert bench.last is not None and bench.last.first_ms is None


def test_a_task_whose_kind_has_an_order_by_now_is_read_in_its_place() -> None:
    """It waited as one that needs none."""
    bench = Unordered()
    bench.send("abc", PAIR)
    bench.tell(UpdateTask(of_kind("c", None, offset=9)))

    bench.end("a")
    request = bench.asked(None)
    bench.answer(None, of_kind("c", None, offset=9))

    assert request.up_to == task_named("c").key
    assert bench.begun == "abc" and bench.slots == 2


def test_an_id_goes_back_to_its_lane_when_no_task_without_order_is_left() -> None:
    """A lane runs one at a time."""
    bench = Unordered(known_since_ms=0)
    bench.send("abc", None)
    bench.send("d", PAIR)

    bench.end("a")
    stays = bench.harness.executor.take_all(ReturnLane)
    bench.end("d")
    bench.end("b")
    bench.tell(KeepLane())

    assert not stays and len(bench.harness.executor.take_all(ReturnLane)) == 1
    assert bench.begun == "abcd"
