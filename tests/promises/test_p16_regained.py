"""P16: a node that gets its own partition back takes the outcomes of what it left running."""

import pytest

from hourhand.actors.model.operations.events import AttemptAbandoned
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.adapters.memory.stores import open_memory_stores
from hourhand.scheduler.configuration.settings import GroupSettings
from tests.builders import NOW_MS, a_task
from tests.promises.group import FOR_EVER_MS, Group, Member

EAGER = GroupSettings.model_construct(
    session_timeout_ms=FOR_EVER_MS, max_poll_interval_ms=FOR_EVER_MS, assignor="range"
)
TASKS = 6
NAMES = [f"{number}{behind}" for number in range(TASKS) for behind in ("", "+")]
"""Of each ordering id a task that runs, and one that waits behind it."""


def _running(group: Group) -> Member:
    member = group.join(held=True)
    group.settle()
    for name in NAMES:
        group.append(_task(name))
    group.advance(1_500)
    assert member.runner.begin() == TASKS
    return member


def _task(name: str) -> Task:
    return a_task(due_in_ms=1_000, ordering_id=f"id-{name[0]}", uniqueness_key=name)


def _give_up(group: Group, member: Member, how: str) -> None:
    node = member.virtual.node
    if how == "lost":
        node.lost((0,))
    else:
        revoked = node.revoking((0,))
        group.advance(group.settings.tree.recovery.drain_deadline_ms)
        assert revoked.done()
    assert member.count(AttemptAbandoned) == TASKS


def _begun_to_the_end(group: Group, member: Member) -> list[str]:
    """Let everything that is left run to its end; return all whose user code was called."""
    for _ in range(4):
        group.advance(3_000)
        member.runner.begin()
        member.runner.end()
    return [attempt.task.key.uniqueness_key for attempt in member.runner.begun]


@pytest.mark.parametrize("ends", ["before it is back", "after it"])
@pytest.mark.parametrize("how", ["lost", "revoked"])
def test_p16_what_runs_on_until_its_partition_is_back_is_not_run_again(how: str, ends: str) -> None:
    """Nobody else owned it meanwhile, so the outcome counts, whenever it came."""
    group = Group()
    member = _running(group)
    _give_up(group, member, how)

    if ends == "before it is back":
        member.runner.end()
    member.virtual.node.assigned((0,))
    group.advance(3_000)
    # P3: what waits behind a task that still runs is not started.
    assert member.runner.begin() == (TASKS if ends == "before it is back" else 0)
    member.runner.end()

    assert sorted(_begun_to_the_end(group, member)) == NAMES
    assert {group.result_of(_task(name)) for name in NAMES} == {CompletionResult.SUCCESS}


@pytest.mark.parametrize("how", ["lost", "revoked"])
def test_p16_where_another_owner_came_in_between_the_task_runs_again(how: str) -> None:
    """It may have run the task, and what came of that is in no memory of this node."""
    group = Group()
    member = _running(group)
    _give_up(group, member, how)

    open_memory_stores(group.data).ownership.claim(0, NOW_MS).result(0)
    member.virtual.node.assigned((0,))
    group.advance(3_000)
    member.runner.end()

    begun = _begun_to_the_end(group, member)
    assert sorted(begun) == sorted([*NAMES, *NAMES[::2]])


def test_p16_a_failure_that_outlasts_the_revocation_is_counted() -> None:
    """With its number and the fence it began under; the next attempt has the next number, and its
    start is durable, as it was overdue when it was read again.
    """
    group = Group()
    member = _running(group)
    _give_up(group, member, "lost")

    member.virtual.node.assigned((0,))
    group.advance(3_000)
    member.runner.end(ValueError("not this time"))
    group.advance(15_000)
    member.runner.begin()

    again = [attempt.number for attempt in member.runner.begun[TASKS:]]
    assert again == [2] * TASKS
    rows = group.data.attempts.of_key(0, _task("0").key)
    assert [(row.attempt, row.fence) for row in rows] == [(1, 1), (2, 2)]
    assert [row.result for row in rows] == [AttemptResult.FAILURE, AttemptResult.STARTED]


def test_p16_an_eager_rebalance_repeats_nothing_that_stays() -> None:
    """All is given up and dealt again; what comes back to its node goes on where it was."""
    group = Group(partitions=2, group=EAGER)
    member = _running(group)
    group.join()
    group.advance(group.settings.tree.recovery.drain_deadline_ms + 5_000)

    kept = [a for a in member.runner.begun if a.partition in member.virtual.node.partitions]
    member.runner.end()
    begun = _begun_to_the_end(group, member)

    assert 0 < len(kept) < TASKS
    assert member.count(AttemptAbandoned) == TASKS
    for attempt in kept:
        name = attempt.task.key.uniqueness_key
        assert (begun.count(name), name in group.journal.names) == (1, False)
    assert {group.result_of(_task(name)) for name in NAMES} == {CompletionResult.SUCCESS}
