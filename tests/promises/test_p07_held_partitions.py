"""P7: what fails for one partition holds that partition, and no other."""

import itertools

from hourhand.actors.model.operations.events import PartitionHeld, PartitionReleased, TreeRebuilt
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from tests.builders import a_task
from tests.promises.group import Group, Member

PARTITIONS = 4
READS = ("load_tasks", "load_completions", "load_attempts", "find_completions")


def _id_of(partition: int) -> str:
    return next(i for i in map(str, range(1_000)) if partition_of(i, PARTITIONS) == partition)


def _task_of(partition: int, name: str, due_in_ms: int = 1_000) -> Task:
    return a_task(due_in_ms=due_in_ms, ordering_id=_id_of(partition), uniqueness_key=name)


def _told(member: Member, kind: type[PartitionHeld] | type[PartitionReleased]) -> list[int]:
    return [each.partition for each in member.telemetry.events if isinstance(each, kind)]


def _write_poison(group: Group, partition: int) -> None:
    MemoryWriter(group.broker).append(partition, b"any", b"{").result(0)


def test_p7_a_dead_letter_that_cannot_be_written_holds_its_own_partition() -> None:
    """The others are read, run and committed; the tree lives, and what held it goes on at last."""
    group = Group(partitions=PARTITIONS)
    member = group.join()
    group.advance(5_000)
    group.log_faults.fails = lambda request: request.kind == "dead_letter"
    _write_poison(group, 0)
    group.append(_task_of(0, "behind", 10_000))
    for second in range(60):
        for partition in (1, 2, 3):
            group.append(_task_of(partition, f"{partition}/{second}", 1_000 * second + 6_000))
        group.advance(1_000)
    others = [group.committed(partition) for partition in (1, 2, 3)]
    ran, held = len(group.journal.ran), group.committed(0)
    letters = group.broker.dead_letters.end_offset
    group.append(_task_of(0, "later", 70_000))
    group.log_faults.heal()
    group.advance(60_000)

    assert others == [60, 60, 60] and ran >= 3 * 55
    assert (held, letters) == (0, 0)
    assert _told(member, PartitionHeld)[0] == 0 and _told(member, PartitionReleased) == [0]
    assert (group.committed(0), group.broker.dead_letters.end_offset) == (3, 1)
    assert {"behind", "later"} <= set(group.journal.names)
    assert member.count(TreeRebuilt) == 0


def test_p7_a_held_partition_is_told_at_once_and_then_ever_less_often() -> None:
    """Ten minutes of it are a few lines, each with the reason."""
    group = Group(partitions=PARTITIONS)
    member = group.join()
    group.log_faults.fails = lambda request: request.kind == "dead_letter"
    _write_poison(group, 0)
    group.advance(600_000)

    held = [each for each in member.telemetry.events if isinstance(each, PartitionHeld)]
    assert 4 <= len(held) <= 8
    assert all("was not served" in each.reason for each in held)
    gaps = [b.held_ms - a.held_ms for a, b in itertools.pairwise(held)]
    assert held[0].held_ms == 0 and gaps == sorted(gaps)


def test_p7_an_hour_that_cannot_be_read_holds_its_own_partition() -> None:
    """The store fails for one partition: the tree lives, and the tasks of the others run."""
    group = Group(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        group.append(_task_of(partition, f"{partition}/early", 30_000))
    first = group.join()
    group.advance(5_000)
    group.kill(first)
    member = group.join()
    member.faults.fails = lambda request: request.partition == 0 and request.kind in READS
    group.advance(5_000)
    for partition in range(PARTITIONS):
        group.append(_task_of(partition, f"{partition}/late", 40_000))
    group.advance(60_000)
    meanwhile = set(group.journal.names)
    member.faults.heal()
    group.advance(60_000)

    expected = {f"{partition}/{when}" for partition in range(4) for when in ("early", "late")}
    assert meanwhile >= {each for each in expected if not each.startswith("0")}
    assert set(group.journal.names) == expected
    assert len(group.journal.names) == len(expected)
    assert member.count(TreeRebuilt) == 0
    assert set(_told(member, PartitionHeld)) == {0}
    assert [group.committed(partition) for partition in range(PARTITIONS)] == [2] * PARTITIONS


def test_p7_a_partition_that_takes_no_strays_holds_where_they_stand() -> None:
    """Misplaced records go, in their order, when their partition has a leader again."""
    group = Group(partitions=PARTITIONS)
    member = group.join()
    group.advance(5_000)
    group.log_faults.fails = lambda request: request.kind == "append" and request.partition == 1
    writer = MemoryWriter(group.broker, deliver=lambda request: request())
    for number in range(3):
        stray = a_task(due_in_ms=120_000, ordering_id=_id_of(1), data={"version": number})
        writer.append(0, b"any", encode_task(stray)).result(0)
    for partition in (0, 2):
        writer.append(partition, b"any", encode_task(_task_of(partition, f"{partition}")))
    group.advance(30_000)
    meanwhile = group.committed(0), group.committed(2)
    group.log_faults.heal()
    group.advance(120_000)

    assert meanwhile == (0, 1)
    assert group.committed(0) == 4
    assert [ran.data for ran in group.journal.ran if ran.ordering_id == _id_of(1)] == [
        {"version": 2}
    ]
    assert member.count(TreeRebuilt) == 0


def test_p15_a_revoke_leaves_what_is_held_to_the_next_owner() -> None:
    """The drain does not wait for a dead letter that nobody takes."""
    group = Group(partitions=PARTITIONS)
    member = group.join()
    group.advance(5_000)
    group.log_faults.fails = lambda request: request.kind == "dead_letter"
    _write_poison(group, 0)
    group.append(_task_of(0, "behind", 10_000))
    group.advance(3_000)
    started_ms = group.clock.monotonic_ms()
    group.stop(member)
    took_ms = group.clock.monotonic_ms() - started_ms
    left = group.committed(0)
    group.log_faults.heal()
    group.join()
    group.advance(30_000)

    assert took_ms < 2_000 and left == 0
    assert group.broker.dead_letters.end_offset == 1
    assert group.journal.names == ["behind"] and group.committed(0) == 2


def test_p16_a_tree_that_dies_while_a_partition_is_held_reads_it_again() -> None:
    """Nobody else would have the log deliver it."""
    group = Group(partitions=PARTITIONS)
    member = group.join()
    group.advance(5_000)
    group.log_faults.fails = lambda request: request.kind == "dead_letter"
    _write_poison(group, 0)
    group.advance(3_000)
    root = member.virtual.node._root
    assert root is not None
    root.tell("no message of this tree")
    group.settle()
    group.log_faults.heal()
    group.append(_task_of(0, "behind", 10_000))
    group.advance(30_000)

    assert member.count(TreeRebuilt) == 1
    assert group.journal.names == ["behind"] and group.committed(0) == 2
