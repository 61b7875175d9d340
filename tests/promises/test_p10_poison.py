"""P10: a record that cannot be read or stored goes to the dead letters, and the next is read."""

import random

import pytest
import tenacity

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.operations.events import CommandDecided, RecordPoisoned, TreeRebuilt
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import ID_BYTES_MAX, Task
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from tests.builders import CHANGING, NOW_MS, a_task
from tests.promises.group import Group
from tests.simulation.sizes import any_headers, filler, size_about, sized_command

START = b'{"orderingId":"a","scheduledTime":"2026-02-09T01:41:13Z","uniquenessKey":"u"'

POISON = {
    "no value": b"",
    "no JSON": b"hello",
    "cut off": START,
    "a list": b"[1,2]",
    "null": b"null",
    "not UTF-8": b'{"orderingId":"\xff\xfe"}',
    "no ordering id": b'{"scheduledTime":"2026-02-09T01:41:13Z","uniquenessKey":"u"}',
    "no time": b'{"orderingId":"a","uniquenessKey":"u"}',
    "an empty ordering id": START.replace(b'"a"', b'""') + b"}",
    "a number for an id": START.replace(b'"a"', b"7") + b"}",
    "a lone surrogate": START.replace(b'"a"', b'"\\ud800"') + b"}",
    "a lone surrogate in data": START + b',"taskData":{"x":"\\udc00"}}',
    "an ordering id too long": START.replace(b'"a"', b'"' + b"x" * 40_000 + b'"') + b"}",
    "a key too long": START.replace(b'"u"', b'"' + b"x" * 40_000 + b'"') + b"}",
    "no such day": START.replace(b"02-09", b"02-30") + b"}",
    "a time without a zone": START.replace(b"13Z", b"13") + b"}",
    "a time beyond all": START.replace(b"2026-", b"99999-") + b"}",
    "data that is not an object": START + b',"taskData":[1]}',
    "data that is null": START + b',"taskData":null}',
    "data too deep": START + b',"taskData":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "data with a number too large": START + b',"taskData":{"x":1e999}}',
    "an unknown version": START + b',"version":2}',
    "an unknown command": START + b',"command":"explode"}',
    "a reschedule to nowhere": START + b',"command":"reschedule"}',
    "a cancel with a time": START + b',"command":"cancel","to":"2026-02-09T01:41:13Z"}',
    "a reschedule to no time": START + b',"command":"reschedule","to":"soon"}',
    "a row too large": START + b',"taskData":{"x":"' + b"x" * 5_000 + b'"}}',
}
SMALL_ROWS = TreeSettings(execution=ExecutionSettings(row_bytes_max=4_096))


@pytest.mark.parametrize("kind", POISON)
def test_p10_poison_goes_to_the_dead_letters_and_the_next_record_is_read(kind: str) -> None:
    """With its reason and where it stood; nothing is rebuilt for it."""
    small = kind == "a row too large"
    group = Group(tree=SMALL_ROWS if small else TreeSettings())
    member = group.join()
    group.append(a_task(due_in_ms=1_000, uniqueness_key="before"))
    MemoryWriter(group.broker).append(0, b"a", POISON[kind]).result(0)
    group.append(a_task(due_in_ms=1_000, uniqueness_key="behind"))
    group.advance(5_000)

    [letter] = group.broker.dead_letters.read(0, 10)[0]
    headers = dict(letter.headers)
    poisoned = [each for each in member.telemetry.events if isinstance(each, RecordPoisoned)]
    assert group.journal.names == ["before", "behind"]
    assert letter.value == POISON[kind]
    assert headers["hourhandReason"]
    assert (headers["hourhandPartition"], headers["hourhandOffset"]) == (b"0", b"1")
    assert [(each.partition, each.offset) for each in poisoned] == [(0, 1)]
    assert group.committed() == 3
    assert member.count(TreeRebuilt) == 0


def test_p10_a_record_without_value_is_poison_too() -> None:
    """A tombstone of a compacted topic."""
    group = Group()
    group.join()
    group.broker.partitions[0].append(0, b"a", None, ())
    group.append(a_task(due_in_ms=1_000))
    group.advance(5_000)

    assert group.broker.dead_letters.end_offset == 1
    assert group.journal.names == ["invoice-42"]


def test_p10_a_thousand_of_them_hold_nothing_up() -> None:
    """A producer gone wrong."""
    group = Group()
    group.join()
    for number in range(1_000):
        MemoryWriter(group.broker).append(0, b"a", b"%d" % number)
    group.append(a_task(due_in_ms=1_000))
    group.advance(1_000)

    assert group.broker.dead_letters.end_offset == 1_000
    assert group.journal.names == ["invoice-42"]


def test_p10_strange_but_readable_records_run() -> None:
    """Unknown fields, extreme times, huge integers, any key of the record."""
    group = Group()
    group.join()
    writer = MemoryWriter(group.broker)
    for number, value in enumerate(
        (
            START + b',"new":{"field":1}}',
            START.replace(b"2026", b"0001").replace(b'"u"', b'"old"') + b"}",
            START.replace(b'"u"', b'""') + b"}",
            START.replace(b'"u"', b'"int"') + b',"taskData":{"x":123456789012345678901234567890}}',
            START.replace(b'"u"', '"ü\u2028🕰"'.encode()) + b"}",
            START.replace(b"13Z", b"13.9999+02:00").replace(b'"u"', b'"zone"') + b"}",
        )
    ):
        writer.append(0, b"%d" % number, value)
    group.advance(5_000)

    assert group.broker.dead_letters.end_offset == 0
    assert set(group.journal.names) == {"u", "old", "", "int", "ü\u2028🕰", "zone"}


def test_p10_a_task_in_the_far_future_is_no_poison() -> None:
    """The last instant there is."""
    group = Group()
    member = group.join()
    MemoryWriter(group.broker).append(
        0, b"a", START.replace(b"2026-02-09T01:41:13Z", b"9999-12-31T23:59:59.999Z") + b"}"
    )
    group.advance(5_000)

    assert group.broker.dead_letters.end_offset == 0
    assert member.count(TreeRebuilt) == 0
    assert group.committed() == 1


@pytest.mark.parametrize("kind", ["value", "header"])
def test_p10_a_stray_that_its_partition_refuses_is_a_dead_letter(kind: str) -> None:
    """Larger than the writer or the broker takes: another try would change nothing."""
    group = Group(partitions=2)
    member = group.join()
    own = a_task(due_in_ms=1_000, ordering_id="a", data={"x": "y" * 1_200_000})
    small = a_task(due_in_ms=1_000, ordering_id="a")
    elsewhere = 1 - partition_of("a", 2)
    value = encode_task(own if kind == "value" else small)
    noise = random.Random(7).randbytes(1_200_000)
    headers = [("big", noise)] if kind == "header" else []
    group.broker.partitions[elsewhere].append(0, b"a", value, headers)
    for number in range(20):
        group.append(a_task(due_in_ms=1_000, ordering_id=f"id-{number}"))
    group.advance(5_000)

    [letter] = group.broker.dead_letters.read(0, 10)[0]
    reason = dict(letter.headers)["hourhandReason"] or b""
    assert len(group.journal.ran) == 20
    assert b"refuses it" in reason
    assert [group.committed(p) for p in (0, 1)] == [
        each.end_offset for each in group.broker.partitions
    ]
    assert member.count(TreeRebuilt) == 0


def _append_beside_good_tasks(group: Group, value: bytes, number: int, rng: random.Random) -> None:
    """Append a record with any headers to either partition, and a good task now and then."""
    headers = any_headers(rng, 4_096)
    group.broker.partitions[rng.randrange(2)].append(0, b"a", value, headers)
    if number % 10 == 0:
        group.append(a_task(due_in_ms=1_000, ordering_id="well", uniqueness_key=f"{number}"))


def _assert_that_all_was_read(group: Group) -> None:
    """Some of it is a dead letter, the good tasks ran, and every offset is committed."""
    ends = [each.end_offset for each in group.broker.partitions]
    assert sum(ran.ordering_id == "well" for ran in group.journal.ran) == 10
    assert [group.committed(p) for p in (0, 1)] == ends
    assert group.broker.dead_letters.end_offset > 0


@pytest.mark.parametrize("seed", range(4))
def test_p10_no_size_and_no_headers_hold_anything_up(seed: int) -> None:
    """A byte to either side of each limit, packed well or badly, in either partition."""
    rng = random.Random(seed)
    group = Group(partitions=2, tree=SMALL_ROWS)
    group.broker.batch_bytes_max = 3_000
    member = group.join()
    for number in range(100):
        empty = encode_task(a_task(ordering_id="a", uniqueness_key=f"{number}", data={"pad": ""}))
        missing = max(0, size_about((3_000, 4_096), rng) - len(empty))
        value = empty.replace(b'"pad":"', b'"pad":"' + filler(missing, rng).encode())
        _append_beside_good_tasks(group, value, number, rng)
    group.advance(10_000)

    _assert_that_all_was_read(group)
    assert member.count(TreeRebuilt) == 0


@pytest.mark.parametrize("seed", range(4))
def test_p10_no_size_of_a_command_holds_anything_up(seed: int) -> None:
    """Each kind, padded to about each limit or with an id as long as any, on both sides of it."""
    rng = random.Random(seed)
    group = Group(partitions=2, tree=SMALL_ROWS)
    group.broker.batch_bytes_max = 3_000
    member = group.join()
    for number in range(100):
        known = rng.random() < 0.5
        name = f"{number}" if known else "x" * (ID_BYTES_MAX + rng.choice((-1, 0, 1)))
        key = TaskKey(NOW_MS + 2_000, "a", name)
        if known:
            group.append(a_task(due_in_ms=2_000, ordering_id="a", uniqueness_key=name))
        value = sized_command(key, rng.choice(CHANGING), (3_000, 4_096), rng)
        _append_beside_good_tasks(group, value, number, rng)
    group.advance(10_000)

    _assert_that_all_was_read(group)
    assert member.count(CommandDecided) > 0
    assert member.count(TreeRebuilt) == 0


def test_p10_a_task_whose_last_letter_fails_waits_for_it_alone() -> None:
    """Used up, and the dead letters are not there: its id waits, the tree lives."""
    group = Group()
    member = group.join()
    group.journal.retry = RetryPolicy(
        attempts_max=1, wait=tenacity.wait_fixed(1), on_exhausted="dead_letter"
    )
    group.log_faults.fails = lambda request: request.kind == "dead_letter"

    def fail(task: Task, _attempt: int) -> None:
        if task.ordering_id == "sick":
            raise ValueError("always")

    group.journal.says = fail
    group.append(a_task(due_in_ms=1_000, ordering_id="sick"))
    group.append(a_task(due_in_ms=9_000, ordering_id="well"))
    group.advance(30_000)
    letters = group.broker.dead_letters.end_offset
    group.log_faults.heal()
    group.advance(60_000)

    assert [ran.ordering_id for ran in group.journal.ran] == ["sick", "well"]
    assert (letters, group.broker.dead_letters.end_offset) == (0, 1)
    assert member.count(TreeRebuilt) == 0
