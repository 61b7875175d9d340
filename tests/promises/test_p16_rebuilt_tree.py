"""P16: a rebuilt tree changes nothing but time."""

from collections.abc import Callable
from typing import Any

import pytest

from hourhand.actors.model.operations.events import TreeRebuilt
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.status import AttemptResult, CommandOutcome, CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.scheduler.adapters.memory.delivery import Request
from tests.builders import NOW_MS, a_task
from tests.promises.faults import Chosen, the_nth
from tests.promises.group import Group, Member

FAULTS = ("before the effect", "after the effect")


def _inject(member: Member, how: str, chosen: Chosen) -> None:
    if how == FAULTS[0]:
        member.faults.fails = chosen
    else:
        member.faults.loses = chosen


def _day_of_work(group: Group, act: Callable[[int], None] | None = None) -> None:
    """Some tasks of a few ids, with retries, an overwrite, a cancel and a move among them."""
    failed: set[str] = set()

    def fail_the_first_time(task: Task, _attempt: int) -> None:
        if task.uniqueness_key.endswith("5") and task.uniqueness_key not in failed:
            failed.add(task.uniqueness_key)
            raise ValueError("not this time")

    group.journal.says = fail_the_first_time
    for number in range(24):
        group.append(
            a_task(
                due_in_ms=5_000 + number * 500,
                ordering_id=f"id-{number % 4}",
                uniqueness_key=f"{number:02}",
            )
        )
    group.settle()
    victim = a_task(due_in_ms=14_500, ordering_id="id-3", uniqueness_key="19")
    mover = a_task(due_in_ms=15_000, ordering_id="id-0", uniqueness_key="20")
    group.client.cancel_task(victim.key).result(0)
    to = a_task(due_in_ms=30_000).scheduled_time
    group.client.reschedule_task(mover.key, to).result(0)
    for step in range(60):
        if step % 10 == 0:
            due_in_ms = 2_000 + step * 1_000
            group.append(
                a_task(due_in_ms=due_in_ms, ordering_id="extra", uniqueness_key=f"x{step}")
            )
        if act is not None:
            act(step)
        group.advance(1_000)


EXPECTED = sorted(
    [
        *(f"{number:02}" for number in range(24) if number != 19),
        *(f"x{step}" for step in range(0, 60, 10)),
    ]
)


def _check(group: Group) -> None:
    """Every task once, the ones that fail first twice, all in order, nothing left."""
    once = [ran.name for ran in group.journal.ran if not ran.name.endswith("5")]
    twice = sorted(ran.name for ran in group.journal.ran if ran.name.endswith("5"))
    assert sorted([*once, *set(twice)]) == EXPECTED
    assert twice == ["05", "05", "15", "15"]
    for number in range(4):
        names = [n.name for n in group.journal.ran if n.ordering_id == f"id-{number}"]
        in_place = [name for name in names if name != "20"]
        assert in_place == sorted(in_place)
    _check_numbers(group)


def _check_numbers(group: Group) -> None:
    """Attempts are counted from 1, and a number is left out for one reason alone.

    A start that was made durable with a tree that then died before user code was called has used
    one up: its row says started, nothing was called, and another attempt followed.
    """
    rows = group.data.attempts.between(0, *map(first_key_at, (INSTANT_MIN_MS, INSTANT_MAX_MS)))
    begun = {
        (row.key.uniqueness_key, row.attempt) for row in rows if row.result is AttemptResult.STARTED
    }
    called = [(ran.name, ran.attempt) for ran in group.journal.ran]
    assert len(set(called)) == len(called)
    last: dict[str, int] = {}
    for name, attempt in called:
        assert attempt > last.get(name, 0)
        last[name] = attempt
    counted = {(name, number) for name, most in last.items() for number in range(1, most + 1)}
    assert counted - set(called) == begun - set(called)


def test_p16_the_day_of_work_without_any_failure() -> None:
    """What the others are compared with."""
    group = Group()
    member = group.join()
    _day_of_work(group)

    assert member.count(TreeRebuilt) == 0
    _check(group)


@pytest.mark.parametrize("how", FAULTS)
@pytest.mark.parametrize("nth", range(1, 61))
def test_p16_whichever_request_of_the_store_fails(nth: int, how: str) -> None:
    """The n-th of the day, whatever it is; nothing is lost, nothing runs twice."""
    group = Group()
    member = group.join()
    _inject(member, how, the_nth(nth))
    _day_of_work(group)

    assert member.faults.seen[nth - 1 :]
    _check(group)


@pytest.mark.parametrize("seed", range(40))
def test_p16_whatever_actor_works_next(seed: int) -> None:
    """The same failures, with messages of different actors in any order."""
    group = Group(seed=seed)
    member = group.join()
    _inject(member, FAULTS[seed % 2], the_nth(1 + seed * 37 % 60))
    _day_of_work(group)

    assert member.count(TreeRebuilt) <= 1
    _check(group)


@pytest.mark.parametrize("how", FAULTS)
@pytest.mark.parametrize("every_nth", [3, 7, 13])
def test_p16_a_store_that_fails_again_and_again(every_nth: int, how: str) -> None:
    """One request in so many, all day long, then it heals."""
    group = Group()
    member = group.join()
    count = 0

    def chosen(_request: Request[Any]) -> bool:
        nonlocal count
        count += 1
        return count % every_nth == 0

    _inject(member, how, chosen)
    _day_of_work(group)
    member.faults.heal()
    group.advance(300_000)

    assert member.count(TreeRebuilt) >= 2
    _check(group)


@pytest.mark.parametrize("seconds", range(0, 40, 3))
def test_p16_a_tree_that_dies_at_any_second(seconds: int) -> None:
    """Not of the store, but of a bug in an actor."""
    group = Group()
    member = group.join()

    def die(step: int) -> None:
        if step == seconds:
            root = member.virtual.node._root
            assert root is not None
            root.tell("no message of this tree")
            group.settle()

    _day_of_work(group, die)

    assert member.count(TreeRebuilt) == 1
    _check(group)


@pytest.mark.parametrize("outcome", [None, ValueError("not this time")])
@pytest.mark.parametrize("ends", ["before the rebuild", "after it"])
def test_p16_a_running_attempt_is_adopted_with_its_outcome(
    ends: str, outcome: Exception | None
) -> None:
    """It started under the old tree; the new one takes its end, whenever it came."""
    group = Group()
    member = group.join(held=True)
    task = a_task(due_in_ms=1_000)
    group.append(task)
    group.advance(1_000)
    member.runner.begin()
    root = member.virtual.node._root
    assert root is not None
    root.tell("no message of this tree")
    for _ in range(20):
        member.virtual.system.run_one()
    if ends == "before the rebuild":
        member.runner.end(outcome)
    group.advance(5_000)
    member.runner.end(outcome)
    group.advance(15_000)

    assert member.count(TreeRebuilt) == 1
    if outcome is None:
        assert member.runner.begin() == 0
        assert group.result_of(task) is CompletionResult.SUCCESS
    else:
        assert member.runner.begin() == 1
        assert [attempt.number for attempt in member.runner.begun] == [1, 2]


def test_p16_it_stays_in_the_group() -> None:
    """Its partitions do not move for a failure inside."""
    group = Group(partitions=4)
    members = [group.join(), group.join()]
    group.advance(5_000)
    before = [member.virtual.node.partitions for member in members]
    members[0].faults.fails = the_nth(1, "insert_tasks")
    for number in range(20):
        group.append(a_task(due_in_ms=60_000, ordering_id=f"id-{number}"))
    group.advance(10_000)

    assert members[0].count(TreeRebuilt) == 1
    assert [member.virtual.node.partitions for member in members] == before


def test_p16_pauses_grow_and_are_jittered_and_end() -> None:
    """A store that is down is asked less and less often, at least every 30 seconds."""
    group = Group(step_ms=10)
    member = group.join()
    group.settle()
    member.faults.fails = lambda request: request.kind == "insert_tasks"
    group.append(a_task(due_in_ms=600_000))
    group.advance(120_000)
    pauses = [e.pause_ms for e in member.telemetry.events if isinstance(e, TreeRebuilt)]
    member.faults.heal()
    group.advance(60_000)

    assert len(pauses) >= 8
    assert all(pause <= 30_000 for pause in pauses)
    assert pauses[-1] > 10 * pauses[0]
    for number, pause in enumerate(pauses):
        full = min(30_000, 100 * 2**number)
        assert full * 0.5 - 1 <= pause <= full + 1
    assert group.committed() == 1


def test_p16_a_command_that_was_under_way_is_finished() -> None:
    """Its outcome is there after the rebuild."""
    group = Group()
    member = group.join()
    task = a_task(due_in_ms=60_000)
    group.append(task)
    group.settle()
    member.faults.fails = the_nth(1, "insert_outcome")
    receipt = group.client.drop_task(task.key).result(0)
    group.advance(5_000)

    found = group.client.outcome(receipt)
    assert member.count(TreeRebuilt) == 1
    assert found is not None and found.outcome is CommandOutcome.APPLIED


def test_p16_a_late_watermark_of_the_old_tree_orphans_nothing() -> None:
    """It was on its way when the tree fell, and lands after the next one stored an older task."""
    group = Group()
    member = group.join(held=True)
    group.advance(302_000)
    member.faults.keeps = lambda request: (
        request.kind == "save_watermark" and not member.faults.kept
    )
    group.append(a_task(due_in_ms=900_000, uniqueness_key="far"))
    while not member.faults.kept:
        group.advance(500)
    stored_ms = group.data.claims[0].watermark.watermark_ms
    root = member.virtual.node._root
    assert root is not None
    root.tell("no message of this tree")
    group.advance(300)
    old = a_task(due_in_ms=stored_ms + 1 - NOW_MS, uniqueness_key="old")
    group.append(old)
    group.advance(1_100)
    committed = group.committed()
    member.faults.release()
    stored_ms = group.data.claims[0].watermark.watermark_ms
    group.replace(member)
    group.advance(60_000)

    assert stored_ms <= old.key.scheduled_ms, "the late write must not pass the old task"
    assert committed == 2
    assert group.journal.names == ["old"]
