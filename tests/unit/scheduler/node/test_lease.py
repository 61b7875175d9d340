"""Lease: user code is called only by the owner, as a member, and not early."""

import pytest
from msgspec.structs import replace

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.node.lease import Lease
from tests.builders import NOW_MS, a_stored_task, an_attempt

PARTITION, EPOCH = 2, 5


class Bench:
    """A lease whose membership ends when the test says."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOW_MS)
        self.ends_ms = 1_000.0
        self.lease = Lease(self.clock, lambda: self.ends_ms)
        self.lease.grant(PARTITION, EPOCH)

    def allows(self, *, epoch: int = EPOCH, partition: int = PARTITION, due_in_ms: int = 0) -> bool:
        """Ask for an attempt."""
        task = a_stored_task(due_in_ms=due_in_ms)
        return self.lease.allows(an_attempt(task=task, partition=partition, epoch=epoch))


def test_the_owner_may_start_what_is_due() -> None:
    """Exactly then is due."""
    assert Bench().allows()


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_p3_an_attempt_of_another_owner_may_not_start(epoch: int) -> None:
    """It was queued before the partition went and came back."""
    assert not Bench().allows(epoch=epoch)


def test_p15_nothing_starts_after_the_membership_ended() -> None:
    """At its very end neither."""
    bench = Bench()

    bench.clock.advance(999)
    before = bench.allows()
    bench.clock.advance(1)

    assert before and not bench.allows()


def test_the_membership_is_measured_by_the_clock_that_is_never_set() -> None:
    """A stepped wall clock neither prolongs nor ends it."""
    bench = Bench()

    bench.clock.step_wall(3_600_000)

    assert bench.allows()


def test_p15_a_withdrawn_partition_starts_nothing() -> None:
    """Nor one that was never granted."""
    bench = Bench()

    bench.lease.withdraw((PARTITION, 7))

    assert not bench.allows() and not bench.allows(partition=7)


def test_who_watches_hears_when_other_partitions_are_held() -> None:
    """At that moment, and also of one that is held again."""
    bench, heard = Bench(), list[int]()
    bench.lease.watch(lambda: heard.append(bench.lease.count))

    bench.lease.grant(PARTITION + 1, EPOCH)
    bench.lease.grant(PARTITION, EPOCH + 1)
    bench.lease.withdraw((PARTITION, PARTITION + 1, PARTITION + 7))
    bench.lease.withdraw((PARTITION,))

    assert heard == [2, 2, 0]


def test_p2_nothing_starts_early_by_the_wall_clock() -> None:
    """It may have been set back since the task was found due."""
    bench = Bench()

    bench.clock.step_wall(-1)

    assert not bench.allows() and not bench.allows(due_in_ms=1)


def test_nothing_starts_from_its_expiry_on() -> None:
    """By the wall clock, as the due time."""
    bench = Bench()
    attempt = an_attempt(partition=PARTITION, epoch=EPOCH)
    expiring = replace(attempt, expires_ms=NOW_MS + 10)

    bench.clock.advance(9)
    before = bench.lease.allows(expiring)
    bench.clock.advance(1)

    assert before and not bench.lease.allows(expiring) and bench.lease.allows(attempt)
