"""Node: partitions that are given up or lost, each once, and what is told of it."""

import logging

import pytest

from hourhand.actors.messages import (
    AssignPartitions,
    ForgetPartitions,
    PartitionsRevoked,
    PersistRecords,
    RevokePartitions,
)
from hourhand.actors.model.operations.events import PartitionLost, PartitionRevoked, TreeRebuilt
from hourhand.actors.model.values.errors import LogUnavailable, OwnershipLost
from tests.builders import an_attempt
from tests.unit.scheduler.node.node_bench import LEASE_MS, PAUSE_MS, Bench

PAST_DEADLINE = "ran past the drain deadline of 10000 ms (tree.recovery.drain_deadline_ms)"


def drain_deadline_ms(bench: Bench) -> int:
    """Return how long running attempts may go on."""
    return bench.harness.effects.settings.recovery.drain_deadline_ms


@pytest.mark.parametrize("drained", [False, True])
def test_what_is_let_go_says_whether_it_was_drained(*, drained: bool) -> None:
    """As the tree has it; each partition for itself."""
    bench = Bench()
    bench.assign(0, 1)
    bench.log.listener.revoking((0, 1))

    bench.node.tell(PartitionsRevoked((0, 1), drained=drained))

    events = bench.harness.telemetry.of(PartitionRevoked)
    assert [(e.partition, e.drained) for e in events] == [(0, drained), (1, drained)]


@pytest.mark.parametrize(
    ("drained", "level", "rest"),
    [(True, logging.INFO, ""), (False, logging.WARNING, f"; some attempts {PAST_DEADLINE}")],
)
def test_what_is_let_go_together_is_one_line(
    caplog: pytest.LogCaptureFixture, *, drained: bool, level: int, rest: str
) -> None:
    """It names the deadline that passed, and its setting."""
    bench = Bench()
    bench.assign(0, 1)
    bench.log.listener.revoking((0, 1))

    with caplog.at_level(logging.INFO, "hourhand.node"):
        bench.node.tell(PartitionsRevoked((0, 1), drained=drained))

    (record,) = caplog.records
    assert record.getMessage() == f"let go of 2 partitions: 0-1{rest}"
    assert record.levelno == level


def test_what_is_lost_together_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """However many partitions that are."""
    bench = Bench()
    bench.assign(0, 1, 2)

    with caplog.at_level(logging.INFO, "hourhand.node"):
        bench.log.listener.lost((2, 0))

    assert [r.getMessage() for r in caplog.records] == [
        "lost to another member: 2 partitions: 0, 2"
    ]


def test_what_no_tree_worked_on_counts_as_drained() -> None:
    """Nothing of it ran."""
    bench = Bench()
    bench.step()
    bench.log.listener.assigned((0,))
    bench.log.listener.revoking((0,))

    assert [e.drained for e in bench.harness.telemetry.of(PartitionRevoked)] == [True]


def test_what_runs_learns_at_once_that_its_partition_is_given_up() -> None:
    """What waits for others' work stops waiting; nothing is given up yet."""
    bench = Bench()
    bench.assign(0, 1)

    bench.log.listener.revoking((1,))

    runner = bench.harness.runner
    assert runner.drained == [1] and not runner.abandoned


def test_what_still_runs_at_the_deadline_was_not_drained() -> None:
    """It has no tree that could wait for it, and the group waits no longer."""
    bench = Bench()
    bench.assign(0)
    bench.harness.runner.left = [an_attempt(partition=0)]
    bench.fail(ValueError("bug"))
    revoked = bench.log.listener.revoking((0,))
    early = revoked.done()

    bench.clock.advance(drain_deadline_ms(bench))
    bench.step()

    assert not early and revoked.done() and bench.harness.runner.abandoned == [0]
    assert [e.drained for e in bench.harness.telemetry.of(PartitionRevoked)] == [False]


def test_p15_a_tree_forgets_what_was_let_go_at_the_deadline_and_can_be_given_it_again() -> None:
    """It had one of two partitions when their time was over, so nobody had told it to drain."""
    bench = Bench()
    bench.assign(0, 1)
    bench.harness.runner.left = [an_attempt(partition=1)]
    bench.log.seek_error, bench.log.seek_error_of = LogUnavailable("away"), frozenset({1})
    bench.fail(ValueError("bug"))
    revoked = bench.log.listener.revoking((0, 1))
    bench.clock.advance(PAUSE_MS)
    bench.step(3)
    handed_over = [m.assignments[0].ownership.partition for m in bench.told(AssignPartitions)]

    bench.persisted(*(each.batch for each in bench.told(PersistRecords)))
    bench.clock.advance(drain_deadline_ms(bench))
    bench.step()
    bench.assign(0)

    assert handed_over == [0] and revoked.done() and not bench.told(RevokePartitions)
    told = bench.told((AssignPartitions, ForgetPartitions))
    assert [type(each) for each in told] == [AssignPartitions, ForgetPartitions, AssignPartitions]
    assert told[1] == ForgetPartitions((0, 1))


def test_p15_a_tree_is_told_once_what_to_drain_and_for_how_long() -> None:
    """However many rounds the drain takes."""
    bench = Bench()
    bench.assign(0, 1)
    bench.clock.advance(1_000)

    bench.log.listener.revoking((0,))
    bench.step(5)

    (message,) = bench.told(RevokePartitions)
    assert (message.partitions, message.deadline_ms) == ((0,), drain_deadline_ms(bench))


def test_p15_a_drain_that_was_answered_is_over() -> None:
    """Given up once more, the partition is drained again, and offsets are those of that time."""
    bench = Bench()
    bench.assign(0)
    first = bench.log.listener.revoking((0,))
    bench.node.tell(PartitionsRevoked((0,), drained=True))
    bench.assign(0)
    bench.persisted(bench.poll(0, 0))

    second = bench.log.listener.revoking((0,))
    waiting = not second.done()
    bench.node.tell(PartitionsRevoked((0,), drained=True))

    assert first.result(timeout=0) == {0: 0}
    assert waiting and second.result(timeout=0) == {0: 1}


def test_p15_a_lost_partition_starts_nothing_more() -> None:
    """At once, and it is said why; another one goes on."""
    bench = Bench()
    bench.assign(0, 1)

    bench.log.listener.lost((0,))

    allowed = [bench.lease.allows(an_attempt(partition=each)) for each in (0, 1)]
    assert allowed == [False, True]
    events = bench.harness.telemetry.of(PartitionLost)
    assert [(e.partition, e.reason) for e in events] == [(0, "lost to another member")]


def test_a_partition_that_is_not_held_can_be_lost() -> None:
    """The log may say so after it was given up."""
    bench = Bench()
    bench.assign(0)

    bench.log.listener.lost((3,))

    assert bench.node.partitions == (0,) and bench.node.is_ready


def test_p16_a_failed_tree_is_told_of_with_its_cause() -> None:
    """And how many failed in a row."""
    bench = Bench()
    bench.assign(0)
    for number in range(2):
        bench.fail(ValueError(f"bug {number}"))
        bench.clock.advance(1_000)
        bench.step()

    events = bench.harness.telemetry.of(TreeRebuilt)
    assert [(e.cause, e.failures) for e in events] == [
        ("ValueError('bug 0')", 1),
        ("ValueError('bug 1')", 2),
    ]


def test_p3_a_newer_owner_ends_the_right_to_start_of_that_partition_alone() -> None:
    """It is said why."""
    bench = Bench()
    bench.assign(0, 1)
    bench.log.lease_ms = bench.clock.monotonic_ms() + LEASE_MS

    bench.fail(OwnershipLost(0, 1))

    allowed = [bench.lease.allows(an_attempt(partition=each)) for each in (0, 1)]
    assert allowed == [False, True]
    events = bench.harness.telemetry.of(PartitionLost)
    assert [(e.partition, e.reason) for e in events] == [(0, "a newer owner exists")]
    bench.clock.advance(PAUSE_MS)
    bench.step(4)
    assert [m.assignments[0].ownership.partition for m in bench.told(AssignPartitions)] == [1]


def test_a_node_whose_tree_failed_can_be_closed() -> None:
    """There is nothing to stop, and the log is left."""
    bench = Bench()
    bench.assign(0)
    bench.fail(ValueError("bug"))

    bench.node.close()

    assert bench.log.closed
