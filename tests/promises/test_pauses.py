"""What an operator pauses does not start, holds nothing up, and loses nothing (P4, P5, P7, P13)."""

import pytest

from hourhand.actors.model.operations.events import (
    AttemptRefused,
    PartitionLoadReported,
    TreeRebuilt,
)
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import Task
from tests.builders import NOW_MS, a_task
from tests.promises.faults import every, the_nth
from tests.promises.group import Group


def put(group: Group, *pauses: Pause) -> None:
    """Pause just these."""
    known = group.data.config
    group.data.config = OperatorConfig(known.version + 1, tuple(pauses))


def of_id(ordering_id: str) -> Pause:
    """Return the pause of an id."""
    return Pause(PauseScope.ORDERING, partition_of(ordering_id, 1), ordering_id)


PAUSES = {
    "all": Pause(PauseScope.ALL),
    "partition": Pause(PauseScope.PARTITION, 0),
    "ordering": of_id("stuck"),
}


def task(seconds: int, ordering_id: str = "stuck") -> Task:
    """Return a task due in so many seconds, named by them."""
    name = f"{ordering_id}-{seconds:04}"
    return a_task(due_in_ms=seconds * 1_000, ordering_id=ordering_id, uniqueness_key=name)


@pytest.mark.parametrize("scope", PAUSES)
def test_what_is_paused_does_not_start_and_what_is_resumed_runs_in_order(scope: str) -> None:
    """However long it was paused, and each task once."""
    group = Group()
    group.join()
    put(group, PAUSES[scope])
    for seconds in range(1, 41):
        group.append(task(seconds))
    group.advance(60_000)
    assert group.journal.names == []

    put(group)
    group.advance(5_000)
    assert group.journal.names == [f"stuck-{seconds:04}" for seconds in range(1, 41)]


@pytest.mark.parametrize("scope", PAUSES)
def test_a_pause_outlives_a_restart(scope: str) -> None:
    """A node takes no partition before it knows what is paused, however late that is."""
    group = Group()
    first = group.join()
    group.append(task(1))
    put(group, PAUSES[scope])
    group.advance(500)
    group.stop(first)
    heir = group.join()
    heir.faults.keeps = every("read_config")
    group.advance(60_000)
    ready = [heir.virtual.node.is_ready]
    heir.faults.release()
    group.advance(5_000)
    ready.append(heir.virtual.node.is_ready)
    assert group.journal.names == [] and ready == [False, True]

    put(group)
    group.advance(5_000)
    assert group.journal.names == ["stuck-0001"]


@pytest.mark.parametrize("scope", PAUSES)
def test_a_pause_outlives_a_failed_tree(scope: str) -> None:
    """Its successor hands nothing to a worker, though the store is silent about pauses."""
    group = Group()
    member = group.join(held=True)
    put(group, PAUSES[scope])
    group.advance(500)
    member.faults.keeps = every("read_config")
    member.faults.fails = the_nth(1, "insert_tasks")
    group.append(task(1))
    group.advance(60_000)
    assert member.count(TreeRebuilt) == 1 and member.runner.queued == []
    assert member.count(AttemptRefused) == 0

    put(group)
    member.faults.release()
    group.advance(5_000)
    assert member.runner.begin() == 1


def test_p7_a_paused_id_delays_no_other_and_holds_neither_slot_nor_memory() -> None:
    """Three thousand due tasks of it, more than there are slots, and the others are on time."""
    group = Group()
    member = group.join()
    put(group, of_id("stuck"))
    group.advance(1_000)
    for number in range(3_000):
        group.append(a_task(due_in_ms=2_000 + number, ordering_id="stuck"))
    group.append(task(30, "free"))
    group.advance(60_000)

    assert [ran.at_ms for ran in group.journal.ran] == [NOW_MS + 30_000]
    loads = [each for each in member.telemetry.events if isinstance(each, PartitionLoadReported)]
    assert loads[-1].waiting + loads[-1].executing == 0


@pytest.mark.parametrize("scope", PAUSES)
def test_a_retry_waits_for_the_end_of_a_pause(scope: str) -> None:
    """Attempts already made still count."""
    group = Group()
    group.join()

    def fail_once(_task: Task, attempt: int) -> None:
        if attempt == 1:
            raise ValueError("once")

    group.journal.says = fail_once
    group.append(task(1))
    group.append(task(2))
    group.advance(3_000)
    put(group, PAUSES[scope])
    group.advance(120_000)
    assert [ran.attempt for ran in group.journal.ran] == [1]

    put(group)
    group.advance(30_000)
    assert [(ran.name, ran.attempt) for ran in group.journal.ran] == [
        ("stuck-0001", 1),
        ("stuck-0001", 2),
        ("stuck-0002", 1),
        ("stuck-0002", 2),
    ]


def test_a_command_reaches_a_paused_task() -> None:
    """Dropped while it was paused, it never runs (P5)."""
    group = Group()
    group.join()
    put(group, of_id("stuck"))
    dropped, kept = task(1), task(2)
    for each in (dropped, kept):
        group.append(each)
    group.advance(5_000)
    group.client.drop_task(dropped.key).result(0)
    group.advance(1_000)
    put(group)
    group.advance(5_000)

    assert group.journal.names == [kept.uniqueness_key]


def test_pausing_and_resuming_again_and_again_loses_nothing() -> None:
    """Each task once, in order."""
    group = Group()
    group.join()
    for seconds in range(1, 31):
        group.append(task(seconds))
    for number in range(40):
        put(group, *([of_id("stuck")] if number % 2 else []))
        group.advance(1_000)
    put(group)
    group.advance(5_000)

    assert group.journal.names == [f"stuck-{seconds:04}" for seconds in range(1, 31)]


def test_what_runs_when_a_pause_comes_ends_as_it_would_and_nothing_follows_it() -> None:
    """Also where it is resumed before that end: the next one waits for it (P3)."""
    group = Group()
    member = group.join(held=True)
    for seconds in (1, 2, 3):
        group.append(task(seconds))
    group.advance(5_000)
    assert member.runner.begin() == 1

    put(group, of_id("stuck"))
    group.advance(2_000)
    put(group)
    group.advance(2_000)
    beside = member.runner.begin()
    member.runner.end()
    group.settle()
    put(group, of_id("stuck"))
    group.advance(1_000)
    paused = member.runner.begin()
    put(group)
    group.advance(1_000)

    assert (beside, paused) == (0, 0)
    for _ in range(2):
        assert member.runner.begin() == 1
        member.runner.end()
        group.advance(1_000)
    names = [attempt.task.key.uniqueness_key for attempt in member.runner.begun]
    assert names == ["stuck-0001", "stuck-0002", "stuck-0003"]


def test_what_waits_for_a_worker_does_not_start_once_it_is_paused() -> None:
    """The lease is asked last."""
    group = Group()
    member = group.join(held=True)
    group.append(task(1))
    group.advance(2_000)
    put(group, of_id("stuck"))
    group.advance(1_000)
    assert member.runner.begin() == 0

    put(group)
    group.advance(2_000)
    assert member.runner.begin() == 1


def test_a_store_that_is_silent_changes_nothing_of_what_is_paused() -> None:
    """Neither pauses nor resumes."""
    group = Group()
    member = group.join()
    put(group, of_id("stuck"))
    group.advance(1_000)
    member.faults.fails = lambda request: request.kind == "read_config"
    put(group)
    group.append(task(2))
    group.append(task(2, "free"))
    group.advance(10_000)
    assert group.journal.names == ["free-0002"]

    member.faults.fails = lambda _request: False
    group.advance(2_000)
    assert group.journal.names == ["free-0002", "stuck-0002"]
