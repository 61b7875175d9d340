"""Node: which offsets are committed, how rebalances are met, how a failed tree is rebuilt."""

from hourhand.actors.messages import (
    AssignPartitions,
    ForgetPartitions,
    PartitionsRevoked,
    PersistRecords,
    RecordsPersisted,
    RevokePartitions,
)
from hourhand.actors.model.operations.events import PartitionHeld, PartitionReleased
from hourhand.actors.model.window.holds import REPORT_FIRST_MS
from hourhand.actors.ports.log import Polled
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


def test_a_node_that_has_all_durable_commits_soon_after_the_last_commit() -> None:
    """Nothing is delivered again then; what does not change waits for the interval."""
    bench = Bench()
    bench.assign(0)
    batch = bench.poll(0, 0, 1, 2)
    bench.committed()

    bench.clock.advance(100)
    bench.step()
    under_way = bench.log.commits[-1]
    bench.persisted(batch)
    bench.step()
    done, commits = bench.log.commits[-1], len(bench.log.commits)
    bench.clock.advance(100)
    bench.step()

    assert (under_way, done) == ({0: 0}, {0: 3})
    assert len(bench.log.commits) == commits


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


def test_a_partition_that_waits_in_the_log_is_told_at_growing_intervals_until_it_goes_on() -> None:
    """As one that waits for what fails: the log says why, and a metric which it is."""
    bench = Bench()
    bench.assign(0)
    telemetry = bench.harness.telemetry

    for _ in range(3):
        bench.log.polled.append(Polled(waiting={0: "it waits at offset 7"}))
        bench.step()
    early = telemetry.of(PartitionHeld)
    bench.persisted(bench.told(PersistRecords)[-1].batch)
    bench.clock.advance(REPORT_FIRST_MS)
    bench.log.polled.append(Polled(waiting={0: "it waits at offset 7"}))
    bench.step()
    later = telemetry.of(PartitionHeld)
    bench.step(2)

    assert [each.reason for each in early] == ["it waits at offset 7"]
    assert [each.held_ms for each in later] == [0, round(REPORT_FIRST_MS)]
    assert len(telemetry.of(PartitionReleased)) == 1
