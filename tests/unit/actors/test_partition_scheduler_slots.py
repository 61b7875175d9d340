"""PartitionScheduler: no more due tasks are handed on than there are slots, and room in memory."""

from actors.messages import SlotsReleased
from tests.unit.actors.partition_scheduler_bench import SLOTS, Bench


def test_no_more_is_handed_on_than_there_are_slots() -> None:
    """The next when some are given back."""
    bench = Bench()

    bench.schedule(-5, -4, -3, -2, -1)
    first = bench.executed()
    bench.harness.advance(10_000)
    waiting = bench.executed()
    bench.tell(SlotsReleased(1))

    assert (first, waiting, bench.executed()) == (["-5", "-4", "-3"], [], ["-2"])


def test_p13_more_slots_than_memory_may_hold_are_not_used() -> None:
    """What is handed on is in memory too, however many due records the log brings."""
    bench = Bench(slots=1_000)

    bench.schedule(*range(-25, -1))

    assert len(bench.executed()) == 10


def test_slots_that_an_id_took_by_loading_count_too() -> None:
    """Negative: it read tasks of its own."""
    bench = Bench()

    bench.tell(SlotsReleased(-SLOTS - 2))
    bench.schedule(-5)
    full = bench.executed()
    bench.tell(SlotsReleased(3))

    assert (full, bench.executed()) == ([], ["-5"])
