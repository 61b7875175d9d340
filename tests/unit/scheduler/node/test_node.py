"""Node: which offsets are committed, how rebalances are met, how a failed tree is rebuilt."""

from actors.messages import (
    AssignPartitions,
    ForgetPartitions,
    PartitionsRevoked,
    RecordsPersisted,
    RevokePartitions,
)
from tests.builders import an_attempt
from tests.unit.scheduler.node.node_bench import Bench


def test_a_partition_is_claimed_and_read_from_what_the_store_knows() -> None:
    """The tree begins with the epoch and the log's end found then."""
    bench = Bench()

    bench.assign(2)

    (message,) = bench.told(AssignPartitions)
    assignment = message.assignments[0]
    assert bench.log.started == [(2, None)]
    assert (assignment.ownership.epoch, assignment.next_offset) == (1, 0)
    assert assignment.catch_up_offset == 100 and bench.node.is_ready
    assert bench.lease.allows(an_attempt(partition=2, epoch=1))


def test_p9_offsets_are_committed_up_to_the_first_batch_that_is_not_durable() -> None:
    """In whatever order the tree answers."""
    bench = Bench()
    bench.assign(0)
    first, second, third = (bench.poll(0, offset) for offset in (0, 1, 2))

    bench.persisted(third, second)
    early = bench.committed()
    bench.persisted(first)

    assert (early, bench.committed()) == ({0: 0}, {0: 3})


def test_offsets_are_committed_at_every_interval_changed_or_not() -> None:
    """An accepted commit renews the lease."""
    bench = Bench()
    bench.assign(0)
    before = len(bench.log.commits)

    for _ in range(3):
        bench.committed()

    assert len(bench.log.commits) == before + 3
    bench.step(5)
    assert len(bench.log.commits) == before + 3


def test_a_node_that_stops_commits_more_often() -> None:
    """What became durable last is committed by the time it leaves, and nobody waits for it."""
    bench = Bench()
    bench.assign(0)
    batch = bench.poll(0, 0, 1, 2)
    bench.committed()

    bench.node.request_stop()
    bench.persisted(batch)
    bench.clock.advance(100)
    bench.step()

    assert bench.log.commits[-1] == {0: 3}


def test_p9_a_share_that_the_tree_let_go_of_is_not_durable() -> None:
    """Its offset would be committed by the revocation, and the records be lost."""
    bench = Bench()
    bench.assign(0, 1)
    batch = bench.poll(0, 0, 1)
    revoked = bench.log.listener.revoking((0,))

    bench.node.tell(RecordsPersisted(batch, frozenset({0})))
    bench.node.tell(PartitionsRevoked((0,), drained=True))

    assert revoked.result(timeout=0) == {0: 0}
    assert bench.node.partitions == (1,)


def test_p15_a_revocation_withdraws_the_lease_at_once_and_drains() -> None:
    """The log waits for the durable offsets."""
    bench = Bench()
    bench.assign(0)
    batch = bench.poll(0, 0)

    revoked = bench.log.listener.revoking((0,))
    allowed = bench.lease.allows(an_attempt(partition=0, epoch=1))
    waiting = not revoked.done()
    bench.step()
    bench.persisted(batch)
    bench.node.tell(PartitionsRevoked((0,), drained=True))

    assert not allowed and waiting and bench.told(RevokePartitions)
    assert revoked.result(timeout=0) == {0: 1} and bench.node.partitions == ()


def test_a_partition_that_was_never_worked_on_is_let_go_at_once() -> None:
    """It was assigned a moment ago."""
    bench = Bench()
    bench.step()
    bench.log.listener.assigned((0,))

    assert bench.log.listener.revoking((0,)).result(timeout=0) == {}


def test_p15_lost_partitions_are_forgotten_without_a_drain() -> None:
    """Another node works on them already."""
    bench = Bench()
    bench.assign(0, 1)

    bench.log.listener.lost((0,))
    bench.step()

    assert bench.told(ForgetPartitions)[0].partitions == (0,)
    assert bench.harness.runner.abandoned == [0] and bench.node.partitions == (1,)
    assert 0 not in bench.committed()


def test_a_partition_assigned_again_survives_the_end_of_its_old_drain() -> None:
    """The log waits for a drain a bounded time only."""
    bench = Bench()
    bench.assign(0)
    bench.log.listener.revoking((0,))
    bench.log.listener.assigned((0,))

    bench.node.tell(PartitionsRevoked((0,), drained=False))

    assert bench.node.partitions == (0,)
