"""The log's door: hostile records between good tasks, through a real node.

Judges without the engine's own counts: where each single record ended is looked up.  A task
is a row or a completion of its key, a command has an outcome, a record in a wrong partition
stands again in its own, and everything else is a dead letter with a reason.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from hourhand.actors.model.operations.events import RecordMisplaced, TreeRebuilt
from hourhand.actors.model.task.codec import Command, LogRecord, decode_record
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import PoisonRecord, TaskTooLarge
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings, WatermarkSettings
from tests.builders import NOW_MS, a_task
from tests.fuzz.records import BATCH_BYTES_MAX, ROW_BYTES_MAX, Hostile, hostile_record
from tests.promises.group import Group, Member

PARTITIONS = 3
RECORDS_OF_A_WORLD = 1_000
_GOOD_EVERY = 10
_HOUR_MS = 3_600_000
_STANDING_HEADERS = ("hourhandPartition", "hourhandOffset")


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the records of one world ended."""

    records: int
    tasks: int
    commands: int
    letters: int
    misplaced: int


def try_world(seed: int, records: int, first: Sequence[Hostile] = ()) -> Counts:
    """Run one world of hostile records; AssertionError where a promise did not hold."""
    rng = random.Random(f"records {seed}")
    # Nothing is deleted meanwhile: every record is looked up at the end.
    tree = TreeSettings(
        watermark=WatermarkSettings(lag_ms=86_400_000),
        execution=ExecutionSettings(row_bytes_max=ROW_BYTES_MAX),
    )
    group = Group(partitions=PARTITIONS, tree=tree, step_ms=30_000)
    group.broker.batch_bytes_max = BATCH_BYTES_MAX
    member = group.join()
    written = [*first, *(hostile_record(rng, n, PARTITIONS) for n in range(records - len(first)))]
    good: dict[str, int] = {}
    for number, each in enumerate(written):
        log = group.broker.partitions[each.partition]
        log.append(each.timestamp_ms, each.key, each.value, each.headers)
        if number % _GOOD_EVERY == 0:
            due_in_ms = rng.randrange(60_000, _HOUR_MS)
            name = f"good-{number}"
            task = a_task(due_in_ms=due_in_ms, ordering_id=name, uniqueness_key=name)
            group.append(task)
            good[name] = NOW_MS + due_in_ms
        if rng.random() < 0.02:
            group.settle()
    group.advance(_HOUR_MS + 60_000)
    _check_good(group, good)
    return _count(group, member)


def _check_good(group: Group, good: dict[str, int]) -> None:
    """Every good task ran once, not early and at once."""
    ran = [run for run in group.journal.ran if run.name in good and run.ordering_id == run.name]
    assert sorted(run.name for run in ran) == sorted(good), "a good task was lost or ran twice"
    for run in ran:
        assert run.at_ms == good[run.name], f"{run.name} ran {run.at_ms - good[run.name]} ms off"


def _count(group: Group, member: Member) -> Counts:
    assert member.count(TreeRebuilt) == 0, "a record had the tree rebuilt"
    letters = _letters(group)
    misplaced = {
        (event.partition, event.offset)
        for event in member.telemetry.events
        if isinstance(event, RecordMisplaced)
    }
    tasks = commands = total = 0
    for partition, log in enumerate(group.broker.partitions):
        assert group.committed(partition) == log.end_offset, "offsets are not committed to the end"
        for record in log.read(0, log.end_offset)[0]:
            total += 1
            entry = _entry(record)
            place = (partition, record.offset)
            if entry is None:
                assert place in letters, f"{record} is in no dead letter"
            elif partition_of(entry.key.ordering_id, PARTITIONS) != partition:
                assert place in misplaced, f"{record} was left in a wrong partition"
                if place in letters:
                    misplaced.remove(place)
                    name = entry.key.ordering_id.encode()
                    with pytest.raises(TaskTooLarge):
                        group.broker.check_size(name, record.value, record.headers)
            elif isinstance(entry, Command):
                commands += 1
                found = group.client._opened_stores().ownership.find_outcome(*place).result(0)
                assert found is not None, f"{record} has no outcome"
            else:
                tasks += 1
                assert _is_kept(group, partition, entry), f"{record} is not stored"
    assert total == tasks + commands + len(letters) + len(misplaced), (
        "records are not accounted for"
    )
    return Counts(total, tasks, commands, len(letters), len(misplaced))


def _entry(record: LogRecord) -> StoredTask | Command | None:
    try:
        return decode_record(record, ROW_BYTES_MAX)
    except PoisonRecord:
        return None


def _letters(group: Group) -> set[tuple[int, int]]:
    """Return where each dead letter stood; one for a record, with a reason."""
    log = group.broker.dead_letters
    found = []
    for letter in log.read(0, log.end_offset)[0]:
        # A producer may have written headers of these names too: the node's come last.
        headers = dict(letter.headers)
        assert headers["hourhandReason"], "a letter without a reason"
        partition, offset = (int(headers[name] or b"") for name in _STANDING_HEADERS)
        found.append((partition, offset))
    assert len(set(found)) == len(found), "a record has two letters"
    return set(found)


def _is_kept(group: Group, partition: int, task: StoredTask) -> bool:
    """True if this record or a later one of its key is a row, or closed the key."""
    row = group.data.tasks.of_key(partition, task.key)
    done = group.data.completions.of_key(partition, task.key)
    return any(found and found[0].offset >= task.offset for found in (row, done))
