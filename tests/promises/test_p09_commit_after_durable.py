"""P9: an offset is committed only when every record before it has had its durable effect."""

import pytest

from hourhand.actors.model.operations.events import TreeRebuilt
from hourhand.actors.model.task.codec import LogRecord
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from tests.builders import a_task
from tests.promises.faults import WRITES, every
from tests.promises.group import Group

TASK = a_task(due_in_ms=600_000)


def _poison(group: Group) -> None:
    MemoryWriter(group.broker).append(0, b"key", b"no JSON")


def _task(group: Group) -> None:
    group.append(TASK)


def _old_task(group: Group) -> None:
    group.append(a_task(due_in_ms=-86_400_000))


def _command(group: Group) -> None:
    group.client.cancel_task(TASK.key).result(0)


def _move(group: Group) -> None:
    group.client.reschedule_task(TASK.key, a_task(due_in_ms=900_000).scheduled_time).result(0)


EFFECTS = {
    "a task": (_task, "insert_tasks"),
    "an old task": (_old_task, "save_watermark"),
    "a command's completion": (_command, "insert_completions"),
    "a command's outcome": (_command, "insert_outcome"),
    "a moved row": (_move, "insert_tasks"),
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_p9_nothing_is_committed_while_an_effect_is_not_durable(effect: str) -> None:
    """Nor anything behind it; afterwards all of it is."""
    act, kind = EFFECTS[effect]
    group = Group()
    member = group.join()
    group.append(TASK)
    group.advance(2_000)
    member.faults.keeps = every(kind)
    act(group)
    group.append(a_task(due_in_ms=700_000, uniqueness_key="behind"))
    group.advance(5_000)
    meanwhile = group.committed()
    member.faults.release()
    group.advance(2_000)

    assert meanwhile == 1
    assert group.committed() == 3


@pytest.mark.parametrize("effect", EFFECTS)
def test_p9_what_could_not_be_stored_is_delivered_again(effect: str) -> None:
    """A store that is down for a minute costs a minute."""
    act, kind = EFFECTS[effect]
    group = Group()
    member = group.join()
    group.append(TASK)
    group.advance(2_000)
    member.faults.fails = every(kind)
    act(group)
    group.append(a_task(due_in_ms=700_000, uniqueness_key="behind"))
    group.advance(60_000)
    meanwhile = group.committed()
    member.faults.heal()
    group.advance(60_000)

    assert meanwhile == 1
    assert member.count(TreeRebuilt) >= 1
    assert group.committed() == 3


def test_p9_poison_is_committed_only_when_its_dead_letter_is_acknowledged() -> None:
    """Or it would be lost between the two topics."""
    group = Group()
    group.join()
    group.settle()
    _poison(group)
    group.log_faults.keeps = every("dead_letter")
    group.advance(5_000)
    meanwhile = group.committed()
    group.log_faults.release()
    group.advance(2_000)

    assert meanwhile == 0
    assert group.committed() == 1
    assert group.broker.dead_letters.end_offset == 1


def test_p9_a_misplaced_record_is_committed_only_when_it_stands_in_its_own_partition() -> None:
    """It is never stored or run where it was found."""
    group = Group(partitions=2)
    group.join()
    group.settle()
    home = group.append(TASK)
    own = next(p for p in group.broker.partitions if p.end_offset > home)
    record: LogRecord = own.read(0, 1)[0][0]
    wrong = 1 - record.partition
    MemoryWriter(group.broker).append(wrong, b"k", record.value or b"").result(0)
    group.log_faults.keeps = every("append")
    group.advance(5_000)
    meanwhile = group.committed(wrong)
    group.log_faults.release()
    group.advance(700_000)

    assert meanwhile == 0
    assert group.committed(wrong) == 1
    assert own.end_offset == 2
    assert group.journal.names == ["invoice-42"]


def test_p9_a_batch_that_is_durable_does_not_commit_one_before_it_that_is_not() -> None:
    """Batches overlap; offsets go only over what is in a row."""
    group = Group(partitions=1)
    member = group.join()
    group.settle()
    kept: list[Request[object]] = []

    def keep_the_first(request: Request[object]) -> bool:
        if request.kind == "insert_tasks" and not kept:
            kept.append(request)
            return True
        return False

    member.faults.keeps = keep_the_first
    for number in range(5):
        group.append(a_task(due_in_ms=600_000, uniqueness_key=str(number)))
        group.advance(1_500)
    meanwhile = group.committed()
    member.faults.release()
    group.advance(2_000)

    assert meanwhile == 0
    assert group.committed() == 5


def test_p9_a_commit_never_passes_what_a_killed_node_had_not_written() -> None:
    """All writes are kept back, the node dies, and its heir stores everything."""
    group = Group()
    member = group.join()
    group.settle()
    member.faults.keeps = lambda request: request.kind in WRITES
    for number in range(10):
        group.append(a_task(due_in_ms=20_000, uniqueness_key=str(number)))
        group.advance(500)
    group.replace(member)
    group.advance(60_000)

    assert group.journal.names == [str(number) for number in range(10)]
