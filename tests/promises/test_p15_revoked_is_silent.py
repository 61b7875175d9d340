"""P15: of a revoked partition nothing starts here, and what ended in time is durable."""

import pytest

from hourhand.actors.model.operations.events import (
    AttemptAbandoned,
    AttemptRefused,
    PartitionLost,
    PartitionRevoked,
    TreeRebuilt,
)
from hourhand.actors.model.task.status import CompletionResult
from hourhand.scheduler.configuration.settings import GroupSettings
from tests.builders import a_task
from tests.promises.faults import every
from tests.promises.group import Group, Member

STRICT = GroupSettings(session_timeout_ms=10_000, max_poll_interval_ms=30_000)


def _two(group: Group, tasks: int = 40) -> tuple[Member, Member]:
    """Start one node with running attempts of all partitions, and a second that wants half."""
    first = group.join(held=True)
    group.settle()
    for number in range(tasks):
        group.append(
            a_task(due_in_ms=1_000, ordering_id=f"id-{number}", uniqueness_key=str(number))
        )
        group.append(
            a_task(due_in_ms=2_000, ordering_id=f"id-{number}", uniqueness_key=f"{number}+")
        )
    group.advance(1_500)
    assert first.runner.begin() == tasks
    return first, group.join()


def test_p15_a_partition_moves_when_its_attempts_ended_and_their_ends_are_durable() -> None:
    """Nothing runs twice, nothing is lost, and the first node starts nothing more of it."""
    group = Group(partitions=4)
    first, second = _two(group)
    group.advance(3_000)
    before = second.virtual.node.partitions
    first.runner.end()
    group.advance(3_000)
    for _ in range(3):
        first.runner.begin()
        first.runner.end()
        group.advance(1_000)

    moved = second.virtual.node.partitions
    late = [each for each in first.runner.begun[40:] if each.partition in moved]
    ran_first = [each.task.key.uniqueness_key for each in first.runner.begun]
    assert before == ()
    assert len(moved) == 2
    assert late == []
    assert len(ran_first) + len(group.journal.names) == 80
    assert set(ran_first).isdisjoint(group.journal.names)
    assert first.count(TreeRebuilt) == second.count(TreeRebuilt) == 0


def test_p15_what_outlives_the_drain_deadline_runs_again_elsewhere() -> None:
    """And its outcome here is discarded."""
    group = Group(partitions=4)
    first, second = _two(group)
    group.advance(15_000)
    moved = second.virtual.node.partitions
    abandoned = first.count(AttemptAbandoned)
    first.runner.end(ValueError("too late to matter"))
    group.advance(60_000)

    again = [each for each in first.runner.begun[:40] if each.partition in moved]
    assert len(moved) == 2
    assert abandoned == len(again) > 0
    assert {each.task.key.uniqueness_key for each in again} <= set(group.journal.names)
    for attempt in again:
        [done] = group.data.completions.of_key(attempt.partition, attempt.task.key)
        assert done.result is CompletionResult.SUCCESS
        assert group.data.attempts.of_key(attempt.partition, attempt.task.key) == [] or all(
            row.fence == 2
            for row in group.data.attempts.of_key(attempt.partition, attempt.task.key)
        )


def test_p15_what_waits_in_the_workers_queue_does_not_start_after_the_revocation() -> None:
    """The gate is asked last."""
    group = Group()
    member = group.join(held=True)
    group.append(a_task(due_in_ms=1_000))
    group.advance(1_000)
    revoked = member.virtual.node.revoking((0,))
    begun = member.runner.begin()
    group.settle()

    assert begun == 0
    assert member.count(AttemptRefused) == 1
    assert revoked.done()


@pytest.mark.parametrize("running", [False, True])
def test_p15_lost_partitions_are_not_drained_or_flushed(*, running: bool) -> None:
    """Another node owns them already, so not a byte is written."""
    group = Group()
    member = group.join(held=True)
    group.append(a_task(due_in_ms=1_000))
    group.advance(1_000)
    if running:
        member.runner.begin()
    written = len(member.faults.seen)
    member.virtual.node.lost((0,))
    member.runner.begin()
    member.runner.end()
    for _ in range(100):
        if not member.virtual.system.run_one():
            break

    assert len(member.runner.begun) == int(running)
    assert member.count(PartitionLost) == 1
    assert member.count(PartitionRevoked) == 0
    assert member.faults.seen[written:] == []


def test_p15_a_zombie_starts_nothing_after_its_lease() -> None:
    """It pauses past its session, and another node takes everything over."""
    group = Group(group=STRICT, step_ms=500)
    zombie = group.join(held=True)
    for number in range(20):
        group.append(
            a_task(due_in_ms=5_000, ordering_id=f"id-{number}", uniqueness_key=str(number))
        )
    group.advance(5_000)
    assert len(zombie.runner.queued) == 20

    group.members.remove(zombie)
    heir = group.join()
    group.advance(9_500)
    began_before = len(group.journal.ran)
    begun = zombie.runner.begin()
    group.advance(30_000)

    assert begun == 0
    assert began_before == 0
    assert sorted(map(int, group.journal.names)) == list(range(20))
    assert heir.virtual.node.partitions == (0,)


def test_p15_a_zombies_writes_do_not_undo_its_heirs() -> None:
    """They were on their way when it paused, and arrive last."""
    group = Group(group=STRICT, step_ms=500)
    zombie = group.join(held=True)
    task = a_task(due_in_ms=5_000)
    group.append(task)
    group.advance(5_000)
    zombie.runner.begin()
    zombie.faults.keeps = every("insert_completions", "insert_attempts", "save_watermark")
    zombie.runner.end(ValueError("failed, and somebody else will know better"))
    group.settle()
    group.members.remove(zombie)
    group.join()
    group.advance(60_000)
    zombie.faults.release()
    group.advance(60_000)

    assert group.journal.names == ["invoice-42"]
    assert group.result_of(task) is CompletionResult.SUCCESS


def test_p15_a_zombie_that_wakes_up_gives_way_and_joins_again() -> None:
    """What it held is lost, and both share what there is."""
    group = Group(partitions=2, group=STRICT, step_ms=500)
    zombie = group.join()
    group.advance(3_000)
    group.members.remove(zombie)
    heir = group.join()
    group.advance(30_000)
    all_of_it = heir.virtual.node.partitions
    group.members.append(zombie)
    group.advance(30_000)
    for number in range(30):
        group.append(
            a_task(due_in_ms=70_000, ordering_id=f"id-{number}", uniqueness_key=str(number))
        )
    group.advance(30_000)

    assert all_of_it == (0, 1)
    assert zombie.count(PartitionLost) == 2
    assert sorted(zombie.virtual.node.partitions + heir.virtual.node.partitions) == [0, 1]
    assert sorted(map(int, group.journal.names)) == list(range(30))


def test_p15_nodes_that_come_and_go_run_every_task_once() -> None:
    """Joining, leaving and rebalancing, all graceful."""
    group = Group(partitions=6, group=STRICT, step_ms=500)
    for number in range(600):
        group.append(
            a_task(
                due_in_ms=number * 100, ordering_id=f"id-{number % 41}", uniqueness_key=str(number)
            )
        )
    members = [group.join()]
    for turn in range(12):
        group.advance(4_000)
        if turn % 3 == 2:
            group.stop(members.pop(0))
        else:
            members.append(group.join())
    group.advance(60_000)

    assert sorted(map(int, group.journal.names)) == list(range(600))
    of_id: dict[str, list[int]] = {}
    for ran in group.journal.ran:
        of_id.setdefault(ran.ordering_id, []).append(int(ran.name))
    assert all(names == sorted(names) for names in of_id.values())
