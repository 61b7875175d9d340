"""P17: what the relay took appears, byte for byte, and once where nothing fails."""

import pytest

from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.services.relay.intake import COMMIT_INTERVAL_MS
from hourhand.scheduler.services.relay.message import ordering_id_of
from tests.unit.scheduler.services.relay.relay_bench import RelayBench


@pytest.mark.parametrize("value", [None, b"", b"\x00\xff{", b"x" * 450_000])
def test_p17_a_message_appears_once_byte_for_byte(value: bytes | None) -> None:
    """Null, empty and long ones too, with their own headers alone."""
    bench = RelayBench()
    bench.put(value, headers=[("h", b"\xff"), ("h", None)], due_in_s=5)

    bench.advance(60)

    (message,) = bench.relayed
    assert (message.key, message.value) == (b"k", value)
    assert list(message.headers) == [("h", b"\xff"), ("h", None)]


@pytest.mark.parametrize(
    ("rounds", "pause_ms", "read", "committed"),
    [
        pytest.param(1, COMMIT_INTERVAL_MS, 0, 0, id="before it read"),
        pytest.param(2, COMMIT_INTERVAL_MS, 30, 0, id="before all of it was durable"),
        pytest.param(3, 0, 30, 0, id="before it committed"),
        pytest.param(3, COMMIT_INTERVAL_MS, 30, 30, id="after it committed"),
    ],
)
def test_p17_a_reader_that_dies_loses_and_doubles_nothing(
    rounds: int, pause_ms: int, read: int, committed: int
) -> None:
    """Wherever it was; the node dies as well.  Before each round the commit is due, or not yet."""
    bench = RelayBench()
    for number in range(30):
        bench.put(b"%d" % number, id=f"id-{number}", due_in_s=10)
    before = 0
    for _ in range(rounds):
        bench.clock.advance(pause_ms)
        before += bench.intake.step(0)
    bench.crash_intake()
    bench.scheduler.crash()
    assert (before, bench.committed) == (read, committed)

    bench.advance(120)

    assert sorted(int(value or b"-1") for value in bench.values) == list(range(30))


def test_p17_what_cannot_be_used_is_put_aside_and_stops_nothing() -> None:
    """With where it stood and why."""
    bench = RelayBench()
    bench.put_raw(b"k", b"no headers", [])
    bench.put(b"good", due_in_s=1)

    bench.advance(10)

    (letter,) = bench.letters
    assert (letter["hourhandOffset"], bench.values) == (b"0", [b"good"])
    assert letter["hourhandReason"]


def test_p17_a_partition_that_leaves_takes_no_record_of_another_with_it() -> None:
    """What could not be appended just then is read again, although nothing of it moved."""
    bench = RelayBench(in_partitions=2)
    bench.read()
    bench.scheduler.broker.refused.update(range(4))
    bench.put(b"kept", due_in_s=5, partition=0)
    bench.intake.step(0)
    bench.intake.revoking([1])
    bench.scheduler.broker.refused.clear()
    bench.put(b"behind", id="id-2", due_in_s=5, partition=0)
    bench.read()

    # Partition 0 rests for a moment before it is read again.
    bench.advance(1)
    bench.advance(60)

    assert sorted(value or b"" for value in bench.values) == [b"behind", b"kept"]


def test_p17_a_late_record_that_is_read_again_makes_the_same_delivery() -> None:
    """Or its id would wait for ever for a delivery that was another one; it is free again."""
    bench = RelayBench()
    bench.read()
    partitions = bench.scheduler.broker.partitions
    deliveries = partition_of(ordering_id_of(b"k", ""), len(partitions))
    bench.scheduler.broker.refused.add(deliveries)
    bench.put(b"late", due_in_s=-5)
    bench.read()
    bench.advance(45)
    bench.scheduler.broker.refused.clear()
    bench.advance(10)
    bench.put(b"next", due_in_s=1)
    bench.advance(10)

    assert bench.values == [b"late", b"next"]
