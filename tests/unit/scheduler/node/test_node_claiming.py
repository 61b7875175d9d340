"""Node: what may happen while a partition is claimed, and when trees and offsets are due."""

import logging

import pytest

from hourhand.actors.messages import AssignPartitions, RevokePartitions
from hourhand.actors.model.operations.events import PartitionAssigned, PartitionLost, TreeRebuilt
from hourhand.actors.model.values.errors import LogUnavailable
from tests.builders import NOW_MS, an_attempt
from tests.unit.scheduler.node.node_bench import COMMIT_MS, LEASE_MS, PAUSE_MS, PERSIST_MS, Bench


def test_p3_a_partition_that_another_owner_claimed_meanwhile_is_not_resumed() -> None:
    """A rebuilt tree finds a newer epoch: membership is proved first, then it claims again."""
    bench = Bench()
    bench.assign(0)
    bench.log.lease_ms = bench.clock.monotonic_ms() + LEASE_MS
    bench.fail(ValueError("bug"))
    bench.harness.effects.stores.ownership.claim(0, NOW_MS).result(timeout=0)

    bench.clock.advance(PAUSE_MS)
    bench.step(6)
    bench.clock.advance(PAUSE_MS)
    bench.step(6)
    unproved = bench.told(AssignPartitions)
    events = bench.harness.telemetry.of(PartitionLost)
    bench.log.lease_ms = bench.clock.monotonic_ms() + LEASE_MS
    bench.step(6)

    assert not unproved
    assert [(e.partition, e.reason) for e in events] == [(0, "a newer owner exists")]
    assert bench.told(AssignPartitions)[0].assignments[0].ownership.epoch == 3


def test_p15_a_partition_lost_while_it_is_begun_is_not_worked_on() -> None:
    """The log takes its time, and the group does not wait."""
    bench = Bench()
    bench.log.meanwhile = lambda: bench.log.listener.lost((0,))

    bench.assign(0)

    assert bench.log.started and not bench.told(AssignPartitions)
    assert not bench.lease.allows(an_attempt(partition=0))


def test_p16_a_tree_that_fails_while_a_partition_is_begun_leaves_it_to_its_successor() -> None:
    """Which resumes with the same epoch."""
    bench = Bench()

    def fail_once() -> None:
        bench.log.meanwhile = lambda: None
        bench.fail(ValueError("bug"))

    bench.log.meanwhile = fail_once
    bench.assign(0)
    bench.clock.advance(PAUSE_MS)
    bench.step(4)

    (assignment,) = bench.told(AssignPartitions)[0].assignments
    assert len(bench.system.roots) == 2 and bench.node.is_ready
    assert (assignment.ownership.epoch, assignment.resumed) == (1, True)


def test_p15_what_is_given_up_is_handed_to_a_new_tree_to_be_drained_and_no_more() -> None:
    """An attempt runs on whose tree failed: the next tree waits for it and starts nothing."""
    bench = Bench()
    bench.assign(0)
    bench.harness.runner.left = [an_attempt(partition=0)]
    bench.fail(ValueError("bug"))
    bench.log.listener.revoking((0,))

    bench.clock.advance(PAUSE_MS)
    bench.step(6)

    assert bench.told(AssignPartitions) and bench.told(RevokePartitions)
    assert not bench.lease.allows(an_attempt(partition=0))


@pytest.mark.parametrize(
    ("error", "traced"), [(LogUnavailable("no broker"), False), (KeyError("bug"), True)]
)
def test_a_partition_that_cannot_be_begun_is_told_of(
    caplog: pytest.LogCaptureFixture, error: Exception, *, traced: bool
) -> None:
    """In a line where the error says it all; one that nobody expected with its trace."""
    bench = Bench()
    bench.log.start_error = error

    with caplog.at_level(logging.WARNING, "hourhand.node"):
        bench.assign(2)

    record = caplog.records[0]
    assert "partition 2" in record.message and str(error) in record.message
    assert bool(record.exc_info) is traced


def test_new_partitions_are_one_line_once_no_other_is_being_claimed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that cannot be begun does not keep the others from being named."""
    bench = Bench()

    with caplog.at_level(logging.INFO, "hourhand.node"):
        bench.assign(0, 1, 2)
        bench.log.start_error = LogUnavailable("no broker")
        bench.assign(3)
        bench.log.start_error = None
        bench.clock.advance(10 * PAUSE_MS)
        bench.step(6)

    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert lines == ["works on 3 partitions: 0-2", "works on 1 partition: 3"]


def test_a_tree_that_lived_for_a_minute_is_forgiven_the_failures_before_it() -> None:
    """However long the node has been there; one that failed sooner is not."""
    bench = Bench()
    bench.clock.advance(600_000)
    bench.step()
    for lived_ms in (0, 59_000, 60_000):
        bench.clock.advance(lived_ms)
        bench.fail(ValueError("bug"))
        bench.clock.advance(1_000)
        bench.step()

    assert [e.failures for e in bench.harness.telemetry.of(TreeRebuilt)] == [1, 2, 1]


def test_a_tree_that_did_not_answer_is_told_of_as_such() -> None:
    """Its own error is not known."""
    bench = Bench()
    bench.assign(0)
    bench.poll(0, 0)

    bench.clock.advance(PERSIST_MS + 1)
    bench.step()

    (event,) = bench.harness.telemetry.of(TreeRebuilt)
    assert "did not answer" in event.cause


def test_offsets_are_committed_no_more_often_than_the_interval_says() -> None:
    """Each commit is a request to the coordinator."""
    bench = Bench()
    bench.assign(0)
    bench.committed()
    before = len(bench.log.commits)

    bench.clock.advance(COMMIT_MS - 1)
    bench.step()
    early = len(bench.log.commits) - before
    bench.clock.advance(1)
    bench.step()

    assert (early, len(bench.log.commits) - before) == (0, 1)


def test_the_same_chance_makes_the_same_pauses() -> None:
    """A simulation replays a node from its seed."""
    told = []
    for _ in range(2):
        bench = Bench()
        bench.step()
        for _ in range(3):
            bench.fail(ValueError("bug"))
            bench.clock.advance(1_000)
            bench.step()
        told.append([event.pause_ms for event in bench.harness.telemetry.of(TreeRebuilt)])

    assert told[0] == told[1]


def test_a_partition_that_is_worked_on_is_told_of() -> None:
    """With its owner epoch, where reading begins, and the end of the log found then."""
    bench = Bench()

    bench.assign(2)

    assert bench.harness.telemetry.of(PartitionAssigned) == [PartitionAssigned(2, 1, 0, 100)]
