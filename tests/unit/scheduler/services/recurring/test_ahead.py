"""Occurrences that are made before they are due, under a virtual clock."""

from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hourhand import TaskState
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.instant import to_millis
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.recurring.ahead import (
    AHEAD_MS,
    ENDED,
    MISSED,
    OVERLAPS,
    ROUND_MS,
    Ends,
    LateOccurrences,
    next_tick_ms,
    occurrence_key,
)
from hourhand.scheduler.services.recurring.executor import _settled
from hourhand.scheduler.services.recurring.rule import RecurringRule
from hourhand.scheduler.services.recurring.state import (
    Recurring,
    State,
    name_of,
    rule_values,
)
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system_registry import SystemTaskRegistry
from hourhand.scheduler.tasks.appending import TaskAppender
from tests.builders import a_completion
from tests.unit.scheduler.services.recurring.test_recurring import MIDNIGHT, Bench

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


def _lost(lost: list[object], key: TaskKey) -> "Future[None]":
    lost.append(key)
    answered: Future[None] = Future()
    answered.set_result(None)
    return answered


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


def test_a_schedule_of_long_intervals_makes_each_task_when_it_is_due() -> None:
    """Nothing waits in the store for days, which a change would have to cancel."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=40)).result()
    bench.advance(seconds=100)

    assert ahead_of(bench) == []
    assert bench.ran == bench.expected(40, 80)


def test_a_schedule_with_a_count_makes_each_task_when_it_is_due() -> None:
    """One that is left out at its start would have used up one of them."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND, count_max=5).result()
    bench.advance(seconds=2)

    assert ahead_of(bench) == []
    bench.advance(seconds=8)
    assert bench.ran == bench.expected(1, 2, 3, 4, 5)


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

    after = _settled(Recurring("n", rule, state, 8_000), 7_900, ends, [open_key])

    assert (after.taken, after.ahead) == (70, ())
    assert after.recent == (str(open_key), *map(str, keys[-2:]))


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
    after = _settled(Recurring("n", rule, state, None), times[5], ends, [waits.key])
    book = DefinitionBook(kit.stores.definitions, len(kit.broker.partitions), kit.clock)
    book.save(Definition(name_of("n"), 0, msgspec.json.encode(after), times[-1]))
    appender = TaskAppender(MemoryWriter(kit.broker), len(kit.broker.partitions))
    answer = LateOccurrences(book, kit.stores, appender).judge(waits, place, start_ms)

    assert answer.result(timeout=0) == (OVERLAPS if is_late else None)


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
    init = SystemTaskRegistry.__init__

    def without(own: SystemTaskRegistry, **given: Any) -> None:
        init(own, **given, makes_ahead=lambda: False)

    monkeypatch.setattr(SystemTaskRegistry, "__init__", without)
    bench = Bench()
    bench.client.schedule_recurring("n", every=SECOND).result()
    bench.advance(seconds=3)

    assert ahead_of(bench) == []
    assert bench.ran == bench.expected(1, 2, 3)


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
