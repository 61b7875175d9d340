"""P19: while a message of an id waits no other one of it appears; it can be moved and cancelled."""

import pytest

from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.services.relay.claim_state import claim_name
from hourhand.scheduler.services.relay.message import ordering_id_of
from tests.unit.scheduler.services.relay.relay_bench import RelayBench


def test_p19_the_first_one_wins_while_it_waits() -> None:
    """Whatever key, partition and deadline the others have; then the id is free again."""
    bench = RelayBench(in_partitions=2)
    bench.put(b"first", due_in_s=10)
    bench.read()
    bench.put(b"second", due_in_s=5, key=b"other", partition=1)
    bench.advance(20)
    assert bench.values == [b"first"]

    bench.put(b"third", due_in_s=5)
    bench.advance(20)
    assert bench.values == [b"first", b"third"]


def test_p19_what_was_cancelled_or_moved_obeys() -> None:
    """A cancelled message never appears, a moved one at its new time."""
    bench = RelayBench()
    bench.put(b"cancelled", id="a", due_in_s=10)
    bench.put(b"moved", id="b", due_in_s=10)
    bench.advance(1)
    bench.put(b"", id="a", due_in_s=None, action="cancel")
    bench.put(b"", id="b", due_in_s=30, action="reschedule")

    bench.advance(29)
    assert bench.values == []
    bench.advance(60)
    assert bench.values == [b"moved"]


def test_p19_a_record_that_is_read_again_cancels_nothing_else() -> None:
    """The cancel was decided before the crash; the message after it is another one."""
    bench = RelayBench()
    bench.put(b"cancelled", due_in_s=10)
    bench.put(b"", due_in_s=None, action="cancel")
    bench.put(b"kept", due_in_s=10)
    bench.read()
    bench.crash_intake()
    bench.read()

    bench.advance(60)

    assert bench.values == [b"kept"]


@pytest.mark.parametrize("action", ["cancel", "reschedule"])
@pytest.mark.parametrize("known", [False, True])
def test_p19_what_found_nothing_finds_nothing_when_it_is_read_again(
    action: str, *, known: bool
) -> None:
    """It came before the message, through another partition, and its offset was not committed."""
    bench = RelayBench(in_partitions=2)
    if known:
        bench.put(b"before", due_in_s=1)
        bench.advance(5)
    bench.put(b"", due_in_s=40, action=action)
    bench.read()
    bench.put(b"after", due_in_s=10, partition=1)
    bench.read()
    bench.crash_intake()
    bench.read()

    bench.advance(20)

    assert bench.values[-1:] == [b"after"]


@pytest.mark.parametrize("back", [False, True])
def test_p19_a_message_that_moves_late_still_waits(*, back: bool) -> None:
    """Its deadline had come before its claim could be decided; then it was moved, and perhaps
    moved back.
    """
    bench = RelayBench()
    claims = partition_of(claim_name("id-1").ordering_id, len(bench.scheduler.broker.partitions))
    bench.scheduler.broker.refused.add(claims)
    bench.put(b"first", due_in_s=5, key=_key_beside(bench, claims))
    bench.read()
    bench.advance(6)
    bench.scheduler.broker.refused.clear()
    bench.put(b"", due_in_s=60, action="reschedule")
    bench.advance(1)
    bench.advance(20)
    assert bench.values == []
    if back:
        bench.put(b"", due_in_s=-22, action="reschedule")
        bench.advance(1)
    bench.put(b"second", due_in_s=10)
    bench.advance(100)

    assert bench.values == ([b"first", b"second"] if back else [b"first"])


def _key_beside(bench: RelayBench, partition: int) -> bytes:
    """Return a key whose messages go through another partition of the task log."""
    count = len(bench.scheduler.broker.partitions)
    keys = (b"k%d" % number for number in range(100))
    return next(k for k in keys if partition_of(ordering_id_of(k, ""), count) != partition)
