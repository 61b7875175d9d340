"""Node: a tree, a store or a log that fails, and the end of a node."""

import threading

import pytest

from hourhand.actors.messages import (
    AssignPartitions,
    PartitionsRevoked,
    PersistRecords,
    RevokePartitions,
)
from hourhand.actors.model.operations.events import PartitionLost, TreeRebuilt
from hourhand.actors.model.values.errors import LogUnavailable, OwnershipLost, StoreUnavailable
from hourhand.actors.ports.log import Polled
from tests.builders import a_record
from tests.unit.scheduler.node.node_bench import LEASE_MS, PAUSE_MS, PERSIST_MS, Bench


def test_p16_a_failed_tree_is_rebuilt_with_the_same_epoch() -> None:
    """What was in flight is delivered again, from the durable offset."""
    bench = Bench()
    bench.assign(0)
    durable = bench.poll(0, 0)
    bench.persisted(durable)
    lost = bench.poll(0, 1, 2)

    bench.fail(ValueError("bug"))
    forgotten = bench.harness.runner.trees_failed
    bench.persisted(lost)
    bench.clock.advance(PAUSE_MS)
    bench.step(3)

    (message,) = bench.told(AssignPartitions)
    assignment = message.assignments[0]
    assert len(bench.system.roots) == 2 and bench.log.sought == [(0, 1)]
    assert (assignment.ownership.epoch, assignment.next_offset) == (1, 1)
    assert assignment.catch_up_offset == 100
    assert bench.committed() == {0: 1}
    assert forgotten == 1, "what waits for an allowance was the old tree's"


def test_p4_a_rebuilt_tree_catches_up_to_what_was_delivered_before() -> None:
    """The log may have grown beyond the end found at the assignment."""
    bench = Bench()
    bench.assign(0)
    bench.poll(0, 150)

    bench.fail(ValueError("bug"))
    bench.clock.advance(PAUSE_MS)
    bench.step(3)

    assert bench.told(AssignPartitions)[0].assignments[0].catch_up_offset == 151


def test_p16_the_pauses_between_rebuilds_grow() -> None:
    """Jittered, up to a limit."""
    bench = Bench()
    bench.step()
    for _ in range(6):
        bench.fail(ValueError("bug"))
        bench.clock.advance(1_000)
        bench.step()

    pauses = [event.pause_ms for event in bench.harness.telemetry.of(TreeRebuilt)]
    for number, pause_ms in enumerate(pauses):
        full_ms = min(1_000, PAUSE_MS * 2**number)
        assert full_ms / 2 - 1 <= pause_ms <= full_ms + 1


def test_nothing_is_polled_while_there_is_no_tree() -> None:
    """Membership is kept alive anyway."""
    bench = Bench()
    bench.assign(0)

    bench.fail(ValueError("bug"))
    bench.step()

    assert bench.log.asked[-1] == 0 and len(bench.system.roots) == 1


def test_a_revocation_under_way_when_the_tree_fails_is_answered() -> None:
    """The rebalance must not wait for a tree that is gone."""
    bench = Bench()
    bench.assign(0)
    revoked = bench.log.listener.revoking((0,))

    bench.fail(ValueError("bug"))

    assert revoked.result(timeout=0) == {0: 0}
    assert bench.harness.runner.abandoned == [0]


def test_p16_a_tree_that_does_not_answer_in_time_is_rebuilt() -> None:
    """Also one that is asked by an empty poll only."""
    bench = Bench()
    bench.assign(0)
    bench.poll(0, 0)

    bench.clock.advance(PERSIST_MS + 1)
    bench.step()
    bench.clock.advance(PAUSE_MS)
    bench.step()

    assert len(bench.system.roots) == 2


def test_an_empty_poll_asks_the_tree_when_nothing_else_does() -> None:
    """A dead tree is noticed."""
    bench = Bench()
    bench.step(3)

    assert len(bench.told(PersistRecords)) == 1


def test_ownership_lost_is_claimed_again_only_after_membership_was_proved_since() -> None:
    """The newer owner may be a zombie, or this node may be."""
    bench = Bench()
    bench.assign(0)
    bench.log.lease_ms = bench.clock.monotonic_ms() + LEASE_MS

    bench.fail(OwnershipLost(0, 1))
    bench.clock.advance(PAUSE_MS)
    bench.step(4)
    unproved = bench.told(AssignPartitions)
    bench.log.lease_ms = bench.clock.monotonic_ms() + LEASE_MS + 1
    bench.step(4)

    assert not unproved and bench.harness.telemetry.of(PartitionLost)
    assert bench.told(AssignPartitions)[0].assignments[0].ownership.epoch == 2


def test_a_claim_that_fails_is_tried_again() -> None:
    """After a pause."""
    bench = Bench()
    bench.requests.hold("claim")
    bench.assign(0)
    bench.requests.take("claim").fail(StoreUnavailable("gone"))
    bench.requests.hold_nothing()

    bench.step(3)
    early = bench.told(AssignPartitions)
    bench.clock.advance(PAUSE_MS)
    bench.step(3)

    assert not early and bench.told(AssignPartitions)


def test_a_log_that_cannot_start_a_partition_is_asked_again() -> None:
    """The partition is not worked on meanwhile."""
    bench = Bench()
    bench.log.start_error = LogUnavailable("no broker")
    bench.assign(0)
    ready = bench.node.is_ready

    bench.log.start_error = None
    bench.clock.advance(PAUSE_MS)
    bench.step(4)

    assert not ready and bench.node.is_ready


def test_a_log_that_refuses_one_partition_is_asked_for_no_other_in_that_round() -> None:
    """Each refusal may take its time, and polling and commits keep the lease of the rest."""
    bench = Bench()
    bench.assign(0)
    bench.log.start_error = LogUnavailable("no broker")
    bench.log.listener.assigned((1, 2, 3))
    asked = []
    for _ in range(4):
        before = len(bench.log.refused)
        bench.step()
        asked.append(len(bench.log.refused) - before)

    assert max(asked) == 1 and set(bench.log.refused) == {1, 2, 3}
    bench.log.start_error = None
    bench.clock.advance(PAUSE_MS)
    bench.step(8)
    assert bench.node.is_ready and bench.node.partitions == (0, 1, 2, 3)


def test_p13_no_more_is_polled_than_may_be_in_flight() -> None:
    """A slow store does not fill memory."""
    bench = Bench()
    bench.assign(0)
    for batch in range(12):
        bench.log.polled.append(
            Polled(
                tuple(a_record(offset=batch * 2_000 + n) for n in range(2_000)),
                {0: (batch + 1) * 2_000},
            )
        )
    bench.step(12)

    delivered = sum(len(message.records) for message in bench.told(PersistRecords))
    assert delivered == 20_000 and bench.log.asked[-1] == 0


class Awaited(threading.Event):
    """An event that tells when somebody begins to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        self.begun.set()
        return super().wait(timeout)


def test_a_round_without_room_waits_for_the_tree_and_not_for_the_log() -> None:
    """A log has nothing to wait for then: it would be asked as fast as a thread can."""
    bench = Bench()
    bench.assign(0)
    batches = []
    for batch in range(10):
        first = batch * 2_000
        batches.append(bench.poll(0, *range(first, first + 2_000)))
    rounds = len(bench.log.asked)
    bench.node.step(0)
    bench.node._in_flight._answered = answered = Awaited()
    waiting = threading.Thread(target=bench.node.step, args=(60_000,))

    waiting.start()
    waited = answered.begun.wait(30)
    bench.persisted(batches[0])
    waiting.join(timeout=30)

    assert waited and not waiting.is_alive()
    assert len(bench.log.asked) == rounds + 2 and bench.log.asked[-1] == 2_000


def test_p14_a_stop_drains_everything_and_then_leaves() -> None:
    """Its offsets are those the log commits while it closes."""
    bench = Bench()
    bench.assign(0, 1)
    batch = bench.poll(0, 0)

    stopped = bench.node.request_stop()
    again = bench.node.request_stop()
    bench.step()
    bench.persisted(batch)
    bench.node.tell(PartitionsRevoked((0, 1), drained=True))
    during_close = bench.log.listener.revoking((0,))
    bench.node.close()

    assert again is stopped and bench.told(RevokePartitions)
    assert stopped.result(timeout=0) == {0: 1, 1: 0}
    assert during_close.result(timeout=0) == {0: 1}
    assert bench.log.closed and bench.log.asked[-1] == 0


def test_p15_nothing_is_claimed_or_started_after_a_stop_was_asked_for() -> None:
    """A claim that was under way is not followed up."""
    bench = Bench()
    bench.assign(0)
    bench.requests.hold("claim")
    bench.log.listener.assigned((1,))
    bench.step()

    bench.node.request_stop()
    bench.requests.take("claim")()
    bench.step(3)

    assert len(bench.told(AssignPartitions)) == 1
    assert [m.assignments[0].ownership.partition for m in bench.told(AssignPartitions)] == [0]


def test_a_stop_without_a_tree_is_over_at_once() -> None:
    """Nothing runs."""
    bench = Bench()
    bench.assign(0)
    bench.fail(ValueError("bug"))

    assert bench.node.request_stop().done()


def test_a_failure_after_the_node_was_closed_changes_nothing() -> None:
    """The tree is gone on purpose."""
    bench = Bench()
    bench.assign(0)
    bench.node.close()

    bench.fail(ValueError("late"))

    assert not bench.harness.telemetry.of(TreeRebuilt)


@pytest.mark.parametrize("message", [None, PersistRecords(1, (), {})])
def test_a_message_no_tree_sends_is_a_bug(message: object) -> None:
    """It is not swallowed."""
    with pytest.raises(AssertionError, match="no tree"):
        Bench().node.tell(message)
