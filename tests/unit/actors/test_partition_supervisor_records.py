"""PartitionSupervisor: what a record is, when a share is durable, what holds the partition."""

import pytest

from hourhand.actors.messages import (
    PartitionHoldUpdated,
    PersistRecords,
    PersistTasks,
    TasksPersisted,
)
from hourhand.actors.model.operations.events import (
    PartitionHeld,
    PartitionReleased,
    RecordMisplaced,
    RecordPoisoned,
)
from hourhand.actors.model.operations.ownership import Assignment, initial_watermark
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import LogUnavailable, TaskTooLarge
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings
from hourhand.actors.partition_supervisor import (
    SLOW_APPEND_MS,
    PartitionSupervisor,
    _RequestDelayed,
)
from hourhand.actors.ports.log import Position
from tests.builders import NOW_MS, a_record, a_task
from tests.unit.probes import PARTITION, Harness, Probe, ProbedChildren

PARTITIONS = 4


class Supervisor(ProbedChildren, PartitionSupervisor):
    """The role with probes for its five children."""


class Bench:
    """A PartitionSupervisor of partition 0, with a log in the test's hand."""

    def __init__(self) -> None:
        settings = TreeSettings(execution=ExecutionSettings(row_bytes_max=1_024))
        self.harness = Harness(settings, partition_count=PARTITIONS)
        self.writer, self.telemetry = self.harness.writer, self.harness.telemetry
        self.topic = Probe()
        mark = initial_watermark(NOW_MS)
        assignment = Assignment(self.harness.ownership, mark, catch_up_offset=9, next_offset=0)
        self.role = Supervisor(self.harness.effects, assignment, self.topic)
        self.ref = self.harness.spawn(self.role, meets=False)

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    def persist(self, batch: int, *records: LogRecord, reached: int = 9) -> PersistTasks:
        """Send a share; return what the schedule was asked to store."""
        self.tell(PersistRecords(batch, records, {PARTITION: reached}))
        share = self.role.children[0].messages[-1]
        assert isinstance(share, PersistTasks)
        return share

    def letter_answered(self, number: int, error: Exception | None = None) -> None:
        """Answer a dead letter."""
        future = self.writer.letters[number][2]
        if error is None:
            future.set_result(Position(0, number))
        else:
            future.set_exception(error)
        self.harness.run()

    def append_answered(self, number: int, error: Exception | None = None) -> None:
        """Answer an append."""
        partition, _, future = self.writer.appended[number]
        if error is None:
            future.set_result(Position(partition, number))
        else:
            future.set_exception(error)
        self.harness.run()


def _own(offset: int) -> LogRecord:
    return a_record(task=a_task(ordering_id=_id_of(PARTITION)), offset=offset)


def _stray(offset: int, own: int = 1, version: int = 0) -> LogRecord:
    task = a_task(ordering_id=_id_of(own), data={"version": version})
    return a_record(task=task, partition=PARTITION, offset=offset)


def _id_of(partition: int) -> str:
    ids = (f"customer-{number}" for number in range(10_000))
    return next(each for each in ids if partition_of(each, PARTITIONS) == partition)


def _offsets(share: PersistTasks) -> list[int]:
    return [entry.offset for entry in share.entries if isinstance(entry, StoredTask)]


def test_a_share_is_durable_when_the_schedule_has_it() -> None:
    """All of it in log order, with the offset it reaches."""
    bench = Bench()

    share = bench.persist(3, _own(5), _own(6), reached=8)
    early = bench.topic.has(TasksPersisted)
    bench.tell(TasksPersisted(3, PARTITION))

    assert (_offsets(share), share.next_offset, share.pending_offset) == ([5, 6], 8, None)
    assert not early and bench.topic.take(TasksPersisted) == TasksPersisted(3, PARTITION)


@pytest.mark.parametrize("value", [None, b"{", b"x" * 2_000])
def test_p10_poison_goes_to_the_dead_letter_topic_before_the_share_is_durable(
    value: bytes | None,
) -> None:
    """Undecodable, or larger than a row can hold; the next record is read."""
    bench = Bench()
    poison = LogRecord(0, 0, NOW_MS, b"k", value)

    share = bench.persist(1, poison, _own(1))
    bench.tell(TasksPersisted(1, PARTITION))
    early = bench.topic.has(TasksPersisted)
    letter, reason, _ = bench.writer.letters[0]
    bench.letter_answered(0)

    assert _offsets(share) == [1] and share.pending_offset == 0
    assert letter is poison and reason and not early
    assert bench.topic.take(TasksPersisted).batch == 1
    assert [event.offset for event in bench.telemetry.of(RecordPoisoned)] == [0]


@pytest.mark.parametrize("error", [LogUnavailable("gone"), TaskTooLarge("large"), OSError("bug")])
def test_p10_a_dead_letter_is_written_again_until_it_is_there(error: Exception) -> None:
    """However it is refused: the share waits, the partition is held, nothing is torn down."""
    bench = Bench()
    bench.persist(1, LogRecord(0, 0, NOW_MS, b"k", None))
    bench.tell(TasksPersisted(1, PARTITION))

    bench.letter_answered(0, error)
    early = bench.topic.take(PartitionHoldUpdated)
    bench.harness.advance(100)
    second = len(bench.writer.letters)
    bench.letter_answered(1, error)
    bench.harness.advance(99)
    between = len(bench.writer.letters)
    bench.harness.advance(101)
    bench.letter_answered(2)

    assert (second, between, len(bench.writer.letters)) == (2, 2, 3), "pauses grow"
    assert early.held and not bench.topic.take(PartitionHoldUpdated).held
    [held] = bench.telemetry.of(PartitionHeld)
    assert str(error) in held.reason
    assert len(bench.telemetry.of(PartitionReleased)) == 1
    assert bench.topic.take(TasksPersisted).batch == 1
    assert len(bench.telemetry.of(RecordPoisoned)) == 1


def test_p7_a_record_that_is_forwarded_slowly_holds_the_partition() -> None:
    """A driver may keep it for minutes before it says that it failed."""
    bench = Bench()
    bench.persist(1, LogRecord(0, 7, NOW_MS, b"k", None))

    bench.harness.advance(SLOW_APPEND_MS - 1)
    early = bench.topic.has(PartitionHoldUpdated)
    bench.harness.advance(1)
    late = bench.topic.take(PartitionHoldUpdated)
    bench.letter_answered(0)

    assert not early and late == PartitionHoldUpdated(PARTITION, True, bench.role.actor_ref)
    assert not bench.topic.take(PartitionHoldUpdated).held


def test_p3_a_misplaced_record_is_produced_again_to_its_own_partition() -> None:
    """It is never stored where it was found, and waited for."""
    bench = Bench()
    stray = _stray(4)

    share = bench.persist(1, stray)
    bench.tell(TasksPersisted(1, PARTITION))
    early = bench.topic.has(TasksPersisted)
    partition, value, _ = bench.writer.appended[0]
    bench.append_answered(0)

    assert (partition, value) == (1, stray.value) and share.entries == ()
    assert not early and bench.topic.has(TasksPersisted)
    assert bench.telemetry.of(RecordMisplaced)[0].own_partition == 1
    assert not bench.writer.letters


@pytest.mark.parametrize("error", [TaskTooLarge("2,000,000 bytes"), ValueError("a header")])
def test_p10_a_misplaced_record_that_is_refused_for_good_is_a_dead_letter(
    error: Exception,
) -> None:
    """Another try would change nothing; the reason says who refused it."""
    bench = Bench()
    stray = _stray(4)
    bench.persist(1, stray)
    bench.tell(TasksPersisted(1, PARTITION))

    bench.append_answered(0, error)
    letter, reason, _ = bench.writer.letters[0]
    early = bench.topic.has(TasksPersisted)
    bench.letter_answered(0)

    assert letter is stray and str(error) in reason and "misplaced" in reason
    assert not early and bench.topic.has(TasksPersisted)
    assert not bench.topic.has(PartitionHoldUpdated)
    assert len(bench.writer.appended) == 1


def test_p6_misplaced_records_of_one_id_keep_their_order_over_a_failure() -> None:
    """The later one waits; those of other ids do not."""
    bench = Bench()
    bench.persist(1, _stray(0, version=1), _stray(1, version=2), _stray(2, own=2))
    first = [partition for partition, *_ in bench.writer.appended]

    bench.append_answered(0, LogUnavailable("no leader"))
    bench.append_answered(1)
    bench.harness.advance(100)
    again = [value for _, value, _ in bench.writer.appended]
    bench.append_answered(2)
    bench.append_answered(3)
    bench.tell(TasksPersisted(1, PARTITION))

    assert first == [1, 2]
    assert again[2] == again[0]
    assert [b'"version":2' in value for _, value, _ in bench.writer.appended] == [
        False,
        False,
        False,
        True,
    ]
    assert bench.topic.has(TasksPersisted)


def test_p9_what_is_pending_elsewhere_keeps_the_watermark_back() -> None:
    """Of a share behind it too."""
    bench = Bench()
    bench.persist(1, LogRecord(0, 3, NOW_MS, b"k", None), reached=4)
    behind = bench.persist(2, _own(4), reached=5)
    bench.letter_answered(0)
    after = bench.persist(3, _own(5), reached=6)

    assert (behind.pending_offset, after.pending_offset) == (3, None)


def test_p7_the_partition_is_held_until_nothing_of_it_fails_any_more() -> None:
    """Reads of its children count as its records do."""
    bench = Bench()
    bench.tell(_RequestDelayed("one", "no answer"))
    bench.tell(_RequestDelayed("two", "no answer"))
    bench.tell(_RequestDelayed("one", None))
    early = [each.held for each in bench.topic.take_all(PartitionHoldUpdated)]
    bench.tell(_RequestDelayed("two", None))
    bench.tell(_RequestDelayed("three", None))

    assert early == [True]
    assert [each.held for each in bench.topic.take_all(PartitionHoldUpdated)] == [False]
