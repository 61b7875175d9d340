"""An in-topic that was deleted and made again: its offsets begin again, its ids do not."""

import pytest

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.adapters.memory.broker import MemoryPartition
from hourhand.scheduler.configuration.door_settings import RelaySettings
from tests.unit.scheduler.services.relay.relay_bench import RelayBench


def passed_on(bench: RelayBench) -> None:
    """Have three messages of three ids relayed."""
    for number in range(3):
        bench.put(b"old", id=f"id-{number}", key=None)
    bench.advance(20)
    assert bench.values == [b"old"] * 3


@pytest.mark.parametrize("inline_bytes_max", [400_000, 0])
def test_a_topic_made_anew_swallows_no_message_of_an_old_id(inline_bytes_max: int) -> None:
    """Whatever offset the old topic's had, whether it is parked or not."""
    bench = RelayBench(RelaySettings(inline_bytes_max=inline_bytes_max))
    passed_on(bench)
    bench.make_anew()
    bench.crash_intake()

    for number in reversed(range(3)):
        bench.put(b"new", id=f"id-{number}", key=None)
    bench.advance(20)

    assert bench.values[3:] == [b"new"] * 3


def test_a_relay_notices_that_its_topic_was_made_anew() -> None:
    """Offsets go back while it reads; what it cannot ask for just now, it asks for again."""
    bench = RelayBench()
    passed_on(bench)
    bench.topic_id = "second"
    bench.in_topic.partitions[0] = MemoryPartition(0)
    for number in reversed(range(3)):
        bench.put(b"new", id=f"id-{number}", key=None)
    bench.log.seek(0, 0)

    answers = bench.unknown_for(1)
    bench.intake.step(0)
    with pytest.raises(LogUnavailable):
        bench.intake.step(0)
    bench.advance(20)

    assert next(answers, None) is None
    assert bench.values[3:] == [b"new"] * 3
    bench.advance(2)
    assert bench.log.start(0, None).next_offset == 3
