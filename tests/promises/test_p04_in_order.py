"""P4: tasks stored before the first of them fell due run in key order."""

import random

import pytest

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.operations.events import CatchUpEnded
from hourhand.actors.model.values.settings import RecoverySettings, TreeSettings, WindowSettings
from tests.builders import a_task
from tests.promises.faults import every
from tests.promises.group import Group

SMALL = TreeSettings(
    window=WindowSettings(
        page_tasks=7, tasks_max=20, executing_tasks_max=5, ordering_queue_tasks_max=3
    )
)
"""Windows that a few tasks overflow."""


def _schedule_shuffled(group: Group, count: int) -> list[str]:
    numbers = list(range(count))
    random.Random(7).shuffle(numbers)
    for number in numbers:
        group.client.schedule_task(
            a_task(due_in_ms=10_000 + number // 2, uniqueness_key=f"{number:04}")
        ).result(0)
    return [f"{number:04}" for number in range(count)]


@pytest.mark.parametrize("tree", [TreeSettings(), SMALL], ids=["usual", "small"])
def test_p4_they_run_in_key_order_however_they_were_stored(tree: TreeSettings) -> None:
    """Two a millisecond: the uniqueness key decides between equal times."""
    group = Group(tree=tree)
    group.join()
    expected = _schedule_shuffled(group, 120)

    group.advance(120_000)

    assert group.journal.names == expected


@pytest.mark.parametrize("tree", [TreeSettings(), SMALL], ids=["usual", "small"])
def test_p4_a_backlog_runs_in_key_order_after_a_restart(tree: TreeSettings) -> None:
    """All of it overdue, some of it only in the log."""
    group = Group(tree=tree)
    member = group.join()
    expected = _schedule_shuffled(group, 60)
    group.settle()
    group.kill(member)
    for number in range(60, 120):
        group.client.schedule_task(
            a_task(due_in_ms=10_000 + number // 2, uniqueness_key=f"{number:04}")
        ).result(0)
        expected.append(f"{number:04}")

    group.advance(60_000)
    group.join()
    group.advance(120_000)

    assert group.journal.names == expected


@pytest.mark.parametrize("tree", [TreeSettings(), SMALL], ids=["usual", "small"])
def test_p4_a_retry_holds_its_ordering_id(tree: TreeSettings) -> None:
    """What is behind a failing task waits until it is closed."""
    group = Group(tree=tree)
    group.join()
    expected = _schedule_shuffled(group, 30)

    def fail_twice(task: object, attempt: int) -> None:
        if getattr(task, "uniqueness_key", "") == "0010" and attempt < 3:
            raise ValueError("not yet")

    group.journal.says = fail_twice
    group.advance(120_000)

    assert group.journal.names == [*expected[:10], "0010", "0010", *expected[10:]]


def test_p4_another_task_of_the_id_that_falls_due_meanwhile_waits_too() -> None:
    """Also one that was scheduled while the first one fails."""
    group = Group()
    group.join()

    def fail_first(task: object, attempt: int) -> None:
        if getattr(task, "uniqueness_key", "") == "1" and attempt < 3:
            raise ValueError("not yet")

    group.journal.says = fail_first
    group.client.schedule_task(a_task(due_in_ms=1_000, uniqueness_key="1")).result(0)
    group.advance(2_000)
    group.client.schedule_task(a_task(due_in_ms=3_000, uniqueness_key="2")).result(0)
    group.advance(60_000)

    assert group.journal.names == ["1", "1", "1", "2"]


def test_p4_a_late_task_does_not_wait_for_its_place() -> None:
    """Its place is long past; it runs next."""
    group = Group()
    group.join()
    group.client.schedule_task(a_task(due_in_ms=1_000, uniqueness_key="early")).result(0)
    group.client.schedule_task(a_task(due_in_ms=600_000, uniqueness_key="far")).result(0)
    group.advance(300_000)
    group.append(a_task(due_in_ms=-86_400_000, uniqueness_key="late"))
    group.advance(1_000)

    assert group.journal.names == ["early", "late"]


def test_p4_nothing_starts_before_the_log_is_read_to_its_end() -> None:
    """An earlier task may still be unread; a cancel of this one may be, too."""
    group = Group()
    member = group.join()
    group.client.schedule_task(a_task(due_in_ms=5_000, uniqueness_key="2")).result(0)
    group.settle()
    group.kill(member)
    group.client.schedule_task(a_task(due_in_ms=4_000, uniqueness_key="1")).result(0)
    group.advance(10_000)

    heir = group.join()
    heir.faults.keeps = every("insert_tasks")
    group.advance(20_000)
    early = list(group.journal.names)
    heir.faults.release()
    group.advance(1_000)

    assert early == []
    assert group.journal.names == ["1", "2"]


def test_p4_a_log_that_is_not_read_in_time_holds_nothing_for_ever() -> None:
    """The bound of the promise: then tasks start anyway, and the node says so."""
    group = Group(tree=TreeSettings(recovery=RecoverySettings(catch_up_deadline_ms=3_000)))
    member = group.join()
    group.client.schedule_task(a_task(due_in_ms=5_000, uniqueness_key="due")).result(0)
    group.settle()
    group.kill(member)
    group.advance(10_000)
    for number in range(1, 10_001):
        task = a_task(due_in_ms=900_000, uniqueness_key=str(number))
        # With a command in it a batch that is polled goes alone, and waits for its turn.
        if number % 2_000 == 0:
            group.client.cancel_task(task.key).result(0)
        else:
            group.append(task)

    heir = group.join()
    heir.faults.keeps = every("insert_tasks")
    at_work = []
    for _ in range(4):
        group.advance(900)
        at_work.append(list(group.journal.names))
        heir.faults.release()
        heir.faults.keeps = every("insert_tasks")

    ended = [event for event in heir.telemetry.events if isinstance(event, CatchUpEnded)]
    assert at_work == [[], [], [], ["due"]]
    assert [(event.complete, event.waited_ms) for event in ended] == [(False, 3_000)]


def test_p4_a_blocked_task_that_is_retried_runs_before_what_waited_behind_it() -> None:
    """The operator's retry does not send it to the end of its queue."""
    group = Group()
    group.journal.retry = RetryPolicy(attempts_max=1, on_exhausted="block")
    group.join()

    def fail_once(task: object, attempt: int) -> None:
        if getattr(task, "uniqueness_key", "") == "0000" and attempt < 2:
            raise ValueError("not yet")

    group.journal.says = fail_once
    expected = _schedule_shuffled(group, 20)
    group.advance(30_000)
    group.client.retry_task(a_task(due_in_ms=10_000, uniqueness_key="0000").key).result(0)
    group.advance(1_000)

    assert group.journal.names == ["0000", *expected]
