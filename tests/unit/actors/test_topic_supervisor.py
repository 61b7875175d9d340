"""TopicSupervisor: which partition a record belongs to, when a batch is durable, letting go."""

import pytest

from hourhand.actors.messages import (
    AssignPartitions,
    ForgetPartitions,
    PartitionHoldUpdated,
    PartitionsHeld,
    PartitionsRevoked,
    PersistRecords,
    RecordsPersisted,
    RevokePartitions,
    TasksDrained,
    TasksPersisted,
)
from hourhand.actors.model.operations.ownership import Assignment, Ownership, initial_watermark
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.topic_supervisor import TopicSupervisor
from tests.builders import NOW_MS, a_record, a_task
from tests.unit.probes import Harness, Probe, ProbeActor, ProbedChildren

PARTITIONS = 4
DEADLINE_MS = 10_000


class Supervisor(ProbedChildren, TopicSupervisor):
    """The role with probes for its partitions."""


class Bench:
    """A TopicSupervisor that owns some partitions."""

    def __init__(self, *owned: int) -> None:
        self.harness = Harness(partition_count=PARTITIONS)
        self.node = Probe()
        self.role = Supervisor(self.harness.effects, self.node)
        self.ref = self.harness.spawn(self.role, meets=False)
        self.child: dict[int, ProbeActor] = {}
        self.assign(*owned)

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    def assign(self, *partitions: int) -> None:
        """Give it partitions."""
        mark = initial_watermark(NOW_MS)
        assignments = [Assignment(Ownership(p, 1), mark, 0, 0) for p in partitions]
        self.tell(AssignPartitions(tuple(assignments)))
        if partitions:
            probes = self.role.children[-len(partitions) :]
            self.child.update(zip(partitions, probes, strict=True))

    def persist(self, batch: int, *records: LogRecord, reached: dict[int, int]) -> None:
        """Send a batch."""
        self.tell(PersistRecords(batch, records, reached))

    def share(self, partition: int) -> PersistRecords:
        """Return the newest share of a partition."""
        share = self.child[partition].messages[-1]
        assert isinstance(share, PersistRecords)
        return share

    def delay(self, partition: int, *, held: bool = True) -> None:
        """Have a partition say that it waits for something, or waits no more."""
        child = self.child[partition].actor_ref
        self.tell(PartitionHoldUpdated(partition, held, child))

    def answers(self) -> list[RecordsPersisted]:
        """Take what the node was told of batches."""
        return self.node.take_all(RecordsPersisted)


def _record_of(partition: int, offset: int = 0, number: int = 0) -> LogRecord:
    ids = (f"customer-{n}" for n in range(10_000))
    own = [
        i
        for i, _ in zip(
            (i for i in ids if partition_of(i, PARTITIONS) == partition), range(3), strict=False
        )
    ]
    return a_record(task=a_task(ordering_id=own[number]), partition=partition, offset=offset)


def _offsets(share: PersistRecords) -> list[int]:
    return [record.offset for record in share.records]


def test_p9_a_batch_is_durable_when_every_partition_has_answered() -> None:
    """Each gets its share, in log order, with the offset it reaches."""
    bench = Bench(0, 1)

    bench.persist(7, _record_of(1, 5), _record_of(0, 2), _record_of(1, 6), reached={0: 3, 1: 7})
    shares = bench.share(0), bench.share(1)
    bench.tell(TasksPersisted(7, 1))
    early = bench.answers()
    bench.tell(TasksPersisted(7, 0))

    assert [_offsets(share) for share in shares] == [[2], [5, 6]]
    assert [share.reached for share in shares] == [{0: 3}, {1: 7}]
    assert not early and bench.answers() == [RecordsPersisted(7)]


def test_an_empty_batch_is_answered_at_once() -> None:
    """It asks whether the tree is alive."""
    bench = Bench(0)

    bench.persist(1, reached={})

    assert bench.answers() == [RecordsPersisted(1)]


def test_a_partition_that_only_advanced_is_told_too() -> None:
    """Past control records there is no record to tell of."""
    bench = Bench(0)

    bench.persist(1, reached={0: 9})

    assert bench.share(0) == PersistRecords(1, (), {0: 9})
    assert not bench.answers()


def test_p7_a_batch_that_waits_for_a_held_partition_only_is_answered_without_it() -> None:
    """The node goes on with the others; the share is told by itself once it is durable."""
    bench = Bench(0, 1)
    bench.persist(1, _record_of(0), _record_of(1), reached={0: 1, 1: 1})
    bench.tell(TasksPersisted(1, 1))
    early = bench.answers()

    bench.delay(0)
    held = bench.node.take_all(PartitionsHeld)
    answers = bench.answers()
    bench.persist(2, _record_of(1, 1), reached={1: 2})
    bench.tell(TasksPersisted(2, 1))
    others = bench.answers()
    bench.tell(TasksPersisted(1, 0))
    bench.delay(0, held=False)

    assert not early
    assert [each.partitions for each in held] == [{0}]
    assert answers == [RecordsPersisted(1, frozenset({0}))]
    assert others == [RecordsPersisted(2)]
    assert bench.node.take_all(TasksPersisted) == [TasksPersisted(1, 0)]
    assert bench.node.take(PartitionsHeld).partitions == frozenset()
    assert not bench.answers()


def test_p7_a_batch_of_a_partition_that_is_held_already_is_not_waited_for() -> None:
    """It was polled before the node heard of that."""
    bench = Bench(0)
    bench.delay(0)

    bench.persist(1, _record_of(0), reached={0: 1})

    assert bench.answers() == [RecordsPersisted(1, frozenset({0}))]


def test_p15_a_held_partition_that_goes_is_held_no_more() -> None:
    """What its subtree said late is not taken for a word of the one that follows."""
    bench = Bench(0)
    bench.delay(0)
    before = bench.child[0].actor_ref
    bench.tell(ForgetPartitions((0,)))
    bench.assign(0)
    bench.node.take_all(PartitionsHeld)

    bench.tell(PartitionHoldUpdated(0, True, before))

    assert not bench.node.has(PartitionsHeld)


def test_a_revocation_is_answered_when_all_its_partitions_have_drained() -> None:
    """Other partitions go on."""
    bench = Bench(0, 1, 2)

    bench.tell(RevokePartitions((0, 1), DEADLINE_MS))
    bench.tell(TasksDrained(1))
    early = bench.node.has(PartitionsRevoked)
    bench.tell(TasksDrained(0))
    bench.persist(1, _record_of(2), reached={2: 1})

    assert not early and bench.node.take(PartitionsRevoked) == PartitionsRevoked((0, 1), True)
    assert _offsets(bench.share(2)) == [0]


def test_p15_what_outlives_the_deadline_is_abandoned() -> None:
    """The answer says that not all was drained."""
    bench = Bench(0, 1)

    bench.tell(RevokePartitions((0, 1), DEADLINE_MS))
    bench.tell(TasksDrained(1))
    bench.harness.advance(DEADLINE_MS)

    assert bench.node.take(PartitionsRevoked) == PartitionsRevoked((0, 1), False)
    assert bench.harness.runner.abandoned == [0]


def test_p15_a_second_revocation_has_a_deadline_of_its_own() -> None:
    """The first one's does not cut it short."""
    bench = Bench(0)
    partitions = (0,)
    bench.tell(RevokePartitions(partitions, DEADLINE_MS))
    bench.tell(TasksDrained(0))
    bench.harness.advance(DEADLINE_MS - 1)
    bench.assign(0)
    bench.node.take(PartitionsRevoked)

    bench.tell(RevokePartitions(partitions, DEADLINE_MS))
    bench.harness.advance(DEADLINE_MS - 1)

    assert not bench.node.has(PartitionsRevoked) and not bench.harness.runner.abandoned


def test_overlapping_revocations_are_each_answered() -> None:
    """A stop may come while a rebalance drains."""
    bench = Bench(0, 1)

    bench.tell(RevokePartitions((0,), DEADLINE_MS))
    bench.tell(RevokePartitions((0, 1), DEADLINE_MS))
    bench.tell(TasksDrained(0))
    bench.tell(TasksDrained(1))

    answers = bench.node.take_all(PartitionsRevoked)
    assert [answer.partitions for answer in answers] == [(0,), (0, 1)]


def test_p15_a_partition_lost_while_it_drains_does_not_keep_the_revocation_waiting() -> None:
    """Otherwise a node that stops during a network cut never ends."""
    bench = Bench(0, 1)
    bench.tell(RevokePartitions((0, 1), DEADLINE_MS))
    bench.tell(TasksDrained(1))

    bench.tell(ForgetPartitions((0,)))

    assert bench.node.take(PartitionsRevoked).partitions == (0, 1)
    assert bench.harness.runner.abandoned == [0]


def test_a_partition_that_is_not_owned_is_revoked_at_once() -> None:
    """There is nothing to drain."""
    bench = Bench(0)

    bench.tell(RevokePartitions((3,), DEADLINE_MS))

    assert bench.node.take(PartitionsRevoked) == PartitionsRevoked((3,), True)


@pytest.mark.parametrize("lost", [False, True])
def test_p9_a_batch_whose_partition_went_is_answered_without_its_share(lost: bool) -> None:
    """What was not stored before the partition went may not be committed."""
    bench = Bench(0, 1)
    bench.persist(1, _record_of(0), _record_of(1), reached={0: 1, 1: 1})

    if lost:
        bench.tell(ForgetPartitions((0,)))
    else:
        bench.tell(RevokePartitions((0,), DEADLINE_MS))
        bench.tell(TasksDrained(0))
    bench.tell(TasksPersisted(1, 1))

    assert bench.answers() == [RecordsPersisted(1, frozenset({0}))]


def test_p9_records_of_a_partition_that_is_gone_do_not_count_as_durable() -> None:
    """They were polled before it went."""
    bench = Bench(1)

    bench.persist(1, _record_of(0), _record_of(1), reached={0: 1, 1: 1})
    bench.tell(TasksPersisted(1, 1))

    assert bench.answers() == [RecordsPersisted(1, frozenset({0}))]


def test_a_late_drain_of_a_forgotten_partition_does_not_end_its_successor() -> None:
    """The message may be under way when the partition comes back."""
    bench = Bench(0)
    bench.tell(RevokePartitions((0,), DEADLINE_MS))
    bench.tell(ForgetPartitions((0,)))
    bench.assign(0)

    bench.tell(TasksDrained(0))
    bench.persist(1, _record_of(0), reached={0: 1})

    assert _offsets(bench.share(0)) == [0]
