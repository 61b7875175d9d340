"""Occurrences that are made before they are due, under a virtual clock."""

from concurrent.futures import Future
from dataclasses import replace as replace_ports
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hourhand import Hourhand, SchedulerClient, Settings, TaskKind, TaskState
from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.model.values.instant import to_millis
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.recurring.ahead import (
    AHEAD_MS,
    ENDED,
    MISSED,
    OVERLAPS,
    ROUND_MS,
    WAITING_MAX,
    Ends,
    LateOccurrences,
    count_ends,
    count_withdrawn,
    is_of_withdrawn,
    next_tick_ms,
    occurrence_key,
)
from hourhand.scheduler.services.recurring.rule import RecurringRule
from hourhand.scheduler.services.recurring.state import (
    Recurring,
    State,
    Withdrawn,
    name_of,
    rule_values,
)
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system_registry import SystemTaskRegistry
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import a_completion
from tests.unit.scheduler.services.recurring.test_recurring import MIDNIGHT, Bench, Slow

SECOND = timedelta(seconds=1)


def state_of(bench: Bench) -> State:
    """Return the stored state of the schedule."""
    found = bench.client.find_recurring("n")
    assert found is not None
    return found.state


def ahead_of(bench: Bench) -> list[float]:
    """Return the times whose tasks are made already, in seconds since midnight."""
    return [(each - to_millis(MIDNIGHT)) / 1000 for each in state_of(bench).ahead]


def reasons(bench: Bench) -> set[str | None]:
    """Return why tasks of the schedule were dropped."""
    tasks = bench.client.list_tasks(ordering_id="n", state=TaskState.DROPPED)
    return {each.reason for each in tasks}


def judge_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be nodes that judge no occurrences."""
    init = SystemTaskRegistry.__init__

    def without(own: SystemTaskRegistry, **given: Any) -> None:
        init(own, **given, makes_ahead=lambda: False)

    monkeypatch.setattr(SystemTaskRegistry, "__init__", without)


def _lost(lost: list[object], key: object) -> "Future[Position]":
    lost.append(key)
    done: Future[Position] = Future()
    done.set_result(Position(0, len(lost)))
    return done


def test_the_occurrences_of_the_next_seconds_are_stored_before_they_are_due() -> None:
    """So each starts as any stored task does; the tick that follows has some time left."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND).result()
    bench.advance(seconds=2)

    ahead = ahead_of(bench)
    assert 3 in ahead
    assert max(ahead) <= 2 + AHEAD_MS / 1000
    bench.advance(seconds=58)
    assert bench.ran == bench.expected(*range(1, 61))


@pytest.mark.parametrize("minutes", [1, 1_440, 44_640])
def test_the_next_one_waits_in_the_store_however_far_off_it_is(minutes: int) -> None:
    """It is counted once its time has come and nothing is open that it may overlap with."""
    bench, every = Bench(), timedelta(minutes=minutes)
    bench.client.schedule_recurring("n", every=every).result()
    for number in range(3):
        bench.scheduler.run_due()
        assert ahead_of(bench) == [(number + 1) * every.total_seconds()]
        assert state_of(bench).taken == number
        bench.scheduler.advance(every)

    assert bench.ran == bench.expected(*(every.total_seconds() * each for each in (1, 2, 3)))


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_no_more_are_made_ahead_than_a_count_allows(overlap: Any) -> None:
    """The last one is known as soon as it is due, so the schedule ends then."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND, count_max=5, overlap=overlap).result()
    bench.advance(seconds=2)

    assert ahead_of(bench) == [2, 3, 4, 5]
    bench.advance(seconds=3)
    assert bench.client.find_recurring("n") is None
    bench.advance(seconds=5)
    assert bench.ran == bench.expected(1, 2, 3, 4, 5)


def test_a_count_is_exact_although_some_are_left_out_at_their_starts() -> None:
    """Others take their places."""
    bench = Bench(takes_s=2.5)
    bench.client.schedule_recurring("n", every=SECOND, count_max=4).result()
    bench.advance(seconds=60)

    assert len(bench.ran) == 4
    assert reasons(bench) == {OVERLAPS}
    assert bench.client.find_recurring("n") is None


def test_a_triggered_one_takes_the_place_of_the_last_of_a_count() -> None:
    """A later one that was made ahead is cancelled."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(hours=1), count_max=2).result()
    bench.advance(hours=1.5)
    bench.client.trigger_recurring("n").result()
    bench.advance(hours=5)

    assert bench.ran == [*bench.expected(3600), f"n@{bench.at(5400)}!"]
    assert bench.client.find_recurring("n") is None


def test_what_is_triggered_while_one_is_open_is_left_out() -> None:
    """By the overlap policy, as at any other time."""
    bench = Bench(takes_s=10_000)
    bench.client.schedule_recurring("n", every=timedelta(hours=1)).result()
    bench.advance(hours=1.5)
    bench.client.trigger_recurring("n").result()
    bench.advance(hours=0.1)

    names = [each.key.uniqueness_key for each in bench.client.list_tasks(ordering_id="n")]
    assert names == bench.expected(3600, 7200)
    assert state_of(bench).skipped == 1


def test_one_after_an_overlap_was_made_ahead_as_well() -> None:
    """A long run leaves out the next one only."""
    bench = Bench(takes_s=70)
    bench.client.schedule_recurring("n", every=timedelta(minutes=1)).result()
    bench.advance(seconds=100)

    assert 120 in ahead_of(bench)
    bench.advance(seconds=100)
    assert bench.ran == bench.expected(60)
    assert reasons(bench) == {OVERLAPS}
    assert (state_of(bench).taken, state_of(bench).skipped) == (2, 1)


def test_few_wait_behind_one_that_runs_long() -> None:
    """The other times make no tasks."""
    bench = Bench(takes_s=10_000)
    bench.client.schedule_recurring("n", every=timedelta(minutes=1)).result()
    bench.advance(hours=1)

    assert len(ahead_of(bench)) == WAITING_MAX
    assert state_of(bench).skipped == 60 - 1 - WAITING_MAX


def test_a_pause_cancels_one_that_is_far_off() -> None:
    """A resume makes the one that is next then."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(hours=1)).result()
    bench.advance(hours=1.5)
    bench.client.pause_recurring("n").result()
    bench.advance(hours=2)
    assert bench.ran == bench.expected(3600)
    assert ahead_of(bench) == []

    bench.client.resume_recurring("n").result()
    bench.scheduler.run_due()
    assert ahead_of(bench) == [4 * 3600]
    bench.advance(hours=1)
    assert bench.ran == bench.expected(3600, 4 * 3600)


def test_p23_one_of_a_kind_without_order_overlaps_with_none() -> None:
    """It could start on time beside an earlier one of its ordering id."""
    app = Hourhand()
    executor = type("WithoutOrder", (Slow,), {"takes_s": 2.5})
    app.add("u", TaskKind(executor, concurrency_per_id=None))
    scheduler = VirtualScheduler(executors=app, now=MIDNIGHT)
    setattr(executor, "clock", scheduler)  # noqa: B010 - a class made just now
    scheduler.client.schedule_recurring("n", every=SECOND, kind="u").result()
    scheduler.advance(seconds=9)

    ran = [each.key for each in scheduler.executions if each.result == "success"]
    starts = [key.scheduled_ms - to_millis(MIDNIGHT) for key in ran if key.ordering_id == "n"]
    assert starts == [1_000, 5_000]


@pytest.mark.parametrize("change", ["pause", "delete"])
def test_nothing_that_was_made_ahead_runs_after_a_change(change: str) -> None:
    """It is cancelled before the change is applied."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND).result()
    bench.advance(seconds=3.5)
    getattr(bench.client, f"{change}_recurring")("n").result()
    bench.advance(seconds=20)

    assert bench.ran == bench.expected(1, 2, 3)


def test_what_a_pause_cancelled_a_resume_makes_again() -> None:
    """A cancelled key is open to a later record."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND).result()
    bench.advance(seconds=3.5)
    bench.client.pause_recurring("n").result()
    bench.advance(seconds=2)
    bench.client.resume_recurring("n").result()
    bench.advance(seconds=3)

    assert bench.ran == bench.expected(1, 2, 3, 6, 7, 8)


def test_a_rule_that_is_replaced_leaves_nothing_of_its_own() -> None:
    """The new one begins with its own interval and data."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND, data={"rule": 1}).result()
    bench.advance(seconds=3.5)
    every: Any = timedelta(seconds=2)
    bench.client.schedule_recurring("n", every=every, data={"rule": 2}).result()
    bench.advance(seconds=6)

    assert bench.ran == bench.expected(1, 2, 3, 5.5, 7.5, 9.5)


def test_an_equal_rule_leaves_alone_what_was_made_ahead() -> None:
    """Nothing is cancelled, made twice, or left out."""
    bench = Bench()
    for _ in range(6):
        bench.client.schedule_recurring("n", every=SECOND).result()
        bench.advance(seconds=2.5)

    assert bench.ran == bench.expected(*range(1, 16))


def test_what_was_made_ahead_and_overlaps_is_left_out_at_its_start() -> None:
    """It is closed with the reason, and counts as one that was left out."""
    bench = Bench(takes_s=2.5)
    bench.client.schedule_recurring("n", every=SECOND).result()
    bench.advance(seconds=20)

    assert bench.ran[:3] == bench.expected(1, 4, 7)
    assert reasons(bench) == {OVERLAPS}
    state = state_of(bench)
    assert state.skipped >= 2 * (state.taken - 1)


def test_one_that_is_open_is_kept_beside_many_that_have_ended() -> None:
    """A tick finds out about all that were made ahead at once, and forgets none that is open."""
    rule = RecurringRule(every_ms=100, ordering_id="n")
    times = tuple(range(1_000, 8_000, 100))
    keys = [occurrence_key("n", rule, each) for each in times]
    open_key = occurrence_key("n", rule, 500, "!")
    state = State({}, 0, "tick", recent=(str(open_key),), ahead=times)
    ends = Ends({key: a_completion(key=key) for key in keys}, {open_key})

    after = count_ends(Recurring("n", rule, state, 8_000), 7_900, ends, [open_key], 0)

    assert (after.taken, after.ahead) == (70, ())
    assert after.recent == (str(open_key), *map(str, keys[-2:]))


_HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("end", "age_ms", "taken", "stays"),
    [
        (CompletionResult.CANCELLED, 0, 3, False),
        (CompletionResult.SUCCESS, 0, 4, False),
        (None, _HOUR_MS - 1, 3, True),
        (None, _HOUR_MS, 3, False),
    ],
)
def test_a_withdrawn_one_counts_where_it_ran_all_the_same(
    end: CompletionResult | None, age_ms: int, taken: int, stays: bool
) -> None:
    """A change cancels what was made ahead; what becomes of that is known later."""
    rule = RecurringRule(every_ms=1_000, ordering_id="n", count_max=9)
    key = occurrence_key("n", rule, 5_000)
    state = State({}, 0, "m", taken=3, withdrawn=(Withdrawn(str(key), 7, counts=True),))
    state = replace(state, passed_ms=5_000)
    closed = {} if end is None else {key: a_completion(key=key, result=end, offset=7)}

    after = count_withdrawn(Recurring("n", rule, state, None), Ends(closed), 5_000 + age_ms)

    assert (after.taken, bool(after.withdrawn)) == (taken, stays)


def test_the_cancel_of_a_withdrawn_one_does_not_end_what_is_made_again() -> None:
    """A task made again comes behind it in the log; it is open until its own end."""
    rule = RecurringRule(every_ms=1_000, ordering_id="n")
    key = occurrence_key("n", rule, 5_000)
    state = State({}, 0, "m", ahead=(5_000,), withdrawn=(Withdrawn(str(key), 7, counts=True),))
    cancelled = CompletionResult.CANCELLED

    assert is_of_withdrawn(state, a_completion(key=key, result=cancelled, offset=7))
    assert not is_of_withdrawn(state, a_completion(key=key, result=cancelled, offset=8))
    assert not is_of_withdrawn(state, a_completion(key=key, offset=7))
    known = Recurring("n", rule, state, None)
    assert count_withdrawn(known, Ends({key: a_completion(key=key)}), 9_000) == state


@pytest.mark.parametrize("is_late", [False, True])
def test_p23_a_triggered_one_that_ended_late_is_seen_by_one_that_still_waits(
    is_late: bool,
) -> None:
    """A tick that finds out about many that have ended keeps those that ended last."""
    kit, start_ms = Bench().scheduler, to_millis(MIDNIGHT)
    times = tuple(start_ms + each for each in range(6_000, 15_000, 1_000))
    rule = RecurringRule(every_ms=1_000, ordering_id="n")
    triggered = occurrence_key("n", rule, start_ms + 8_500, "!")
    closed = [occurrence_key("n", rule, each) for each in times[:3]]
    waits = StoredTask(occurrence_key("n", rule, start_ms + 9_000), b"{}", 0)
    taken_ms = 700 if is_late else 10
    ended = [_ended(each, 10) for each in closed] + [_ended(triggered, taken_ms)]
    place = partition_of("n", len(kit.broker.partitions))
    kit.stores.status.insert_completions(place, ended, 1)
    state = State(rule_values(rule), start_ms, "m", recent=(str(triggered),), ahead=times)

    ends = Ends({each.key: each for each in ended}, {waits.key})
    after = count_ends(Recurring("n", rule, state, None), times[5], ends, [waits.key], 0)
    book = DefinitionBook(kit.stores.definitions, len(kit.broker.partitions), kit.clock)
    book.save(Definition(name_of("n"), 0, msgspec.json.encode(after), times[-1]))
    appender = TaskAppender(MemoryWriter(kit.broker), len(kit.broker.partitions))
    answer = LateOccurrences(book, kit.stores, appender).judge(waits, place, start_ms)

    assert answer.result(timeout=0) == (OVERLAPS if is_late else None)


@pytest.mark.parametrize(("passed_ms", "reason"), [(0, MISSED), (1, None)])
def test_p23_an_occurrence_that_an_owner_had_begun_is_not_missed(
    passed_ms: int, reason: str | None
) -> None:
    """It runs long, and its node dies: a task behind the watermark was at hand on a node."""
    kit, due_ms = Bench().scheduler, to_millis(MIDNIGHT)
    rule = RecurringRule(every_ms=1_000, ordering_id="n", catch_up_ms=600_000)
    task = StoredTask(occurrence_key("n", rule, due_ms), b"{}", 0)
    place = partition_of("n", len(kit.broker.partitions))
    claim = kit.stores.ownership.claim(place, 0).result(timeout=0)
    mark = replace(claim.watermark, watermark_ms=due_ms + passed_ms)
    kit.stores.ownership.save_watermark(place, claim.epoch, mark).result(timeout=0)
    state = State(rule_values(rule), due_ms - 1_000, "m", ahead=(due_ms,))
    book = DefinitionBook(kit.stores.definitions, len(kit.broker.partitions), kit.clock)
    book.save(Definition(name_of("n"), 0, msgspec.json.encode(state), due_ms))
    appender = TaskAppender(MemoryWriter(kit.broker), len(kit.broker.partitions))
    judge = LateOccurrences(book, kit.stores, appender).judge

    assert judge(task, place, due_ms + 3_600_000).result(timeout=0) == reason


def _ended(key: TaskKey, taken_ms: int) -> Completion:
    return replace(a_completion(key=key), finished_ms=key.scheduled_ms + taken_ms)


def test_one_may_wait_where_one_may_be_buffered() -> None:
    """It runs late; a second one that waits is left out."""
    bench = Bench(takes_s=2.5)
    bench.client.schedule_recurring("n", every=SECOND, overlap="buffer_one").result()
    bench.advance(seconds=20)

    assert bench.ran[:3] == bench.expected(1, 2, 4)
    assert reasons(bench) <= {OVERLAPS}


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_what_was_made_ahead_of_an_outage_is_too_old_after_it(overlap: Any) -> None:
    """As are the times that had no task yet."""
    bench = Bench()
    window = timedelta(seconds=3)
    bench.client.schedule_recurring("n", every=SECOND, catch_up=window, overlap=overlap).result()
    bench.advance(seconds=2.5)
    bench.scheduler.stop()
    bench.scheduler.clock.advance(60_000)
    bench.scheduler.restart()
    bench.advance(seconds=2)

    seconds = [float(each[-7:-1]) for each in bench.ran]
    assert seconds[:2] == [1.0, 2.0]
    assert not set(bench.ran) & set(bench.expected(*range(3, 59)))
    dropped = bench.client.list_tasks(state=TaskState.DROPPED)
    assert MISSED in {each.reason for each in dropped}


def test_a_task_of_a_late_partition_is_left_out_once_its_schedule_was_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own partition may read the cancel after it started the task: the state says it too."""
    lost: list[object] = []
    monkeypatch.setattr(
        "hourhand.scheduler.tasks.appending.TaskAppender.cancel",
        lambda _own, key: _lost(lost, key),
    )
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND).result()
    bench.advance(seconds=3.5)
    bench.client.pause_recurring("n").result()
    bench.scheduler.run_due()
    bench.scheduler.stop()
    bench.scheduler.clock.advance(3_000)
    bench.scheduler.restart()
    bench.scheduler.run_due()

    assert lost, "the change cancels them"
    assert bench.ran == bench.expected(1, 2, 3)
    assert reasons(bench) == {ENDED}


def test_nothing_is_made_ahead_beside_nodes_that_judge_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a node would run what has to be left out."""
    judge_nothing(monkeypatch)
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND).result()
    bench.advance(seconds=3)

    assert ahead_of(bench) == []
    assert bench.ran == bench.expected(1, 2, 3)


def test_p23_a_change_before_a_tick_that_is_tried_again_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tick saved what it makes ahead, and its node died before the log had that; the change is
    of a client whose clock is behind, so it runs first, and the tick is of an earlier state then.
    """
    bench = Bench()
    bench.client.schedule_recurring("n", every=2 * SECOND).result()
    bench.advance(seconds=1)
    append, lost = TaskAppender.append, list[Task]()

    def refused(own: TaskAppender, task: Task) -> "Future[Position]":
        if task.scheduled_time <= MIDNIGHT + 2 * SECOND:
            return append(own, task)
        lost.append(task)
        failed: Future[Position] = Future()
        failed.set_exception(LogUnavailable("the log is away"))
        return failed

    monkeypatch.setattr(TaskAppender, "append", refused)
    bench.advance(seconds=1.5)
    assert lost
    monkeypatch.setattr(TaskAppender, "append", append)
    behind = VirtualClock(to_millis(MIDNIGHT) + 1_500)
    client = SchedulerClient(Settings(), replace_ports(bench.ports(), clock=behind))
    bench.scheduler.stop()
    client.resume_recurring("n").result()
    bench.scheduler.restart()
    bench.advance(seconds=20)

    assert bench.ran == bench.expected(*range(2, 23, 2))


def test_ticks_of_many_schedules_come_at_different_times() -> None:
    """Each has a moment of its own within a round, and has the next ticks at that moment."""
    ahead = range(0, 60_000, 100)
    ticks = {next_tick_ms(f"s{number}", ahead, 10_000) for number in range(200)}
    assert len(ticks) > 50

    first = next_tick_ms("s", ahead, 10_000)
    assert first is not None
    assert next_tick_ms("s", ahead, first) == first + ROUND_MS
    assert next_tick_ms("s", [first + ROUND_MS + 200], first) == first + ROUND_MS + 200
    assert next_tick_ms("s", [first], first) is None
