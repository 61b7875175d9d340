"""Write times: they grow, and the epoch beats every counter."""

from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT, Ownership, initial_watermark
from hourhand.actors.model.values.bucket import hour_of
from tests.property.strategies import instants_ms

epochs = st.integers(1, 2**23 - 1)


@given(epochs, st.integers(1, 200))
def test_write_times_of_one_owner_grow(epoch: int, writes: int) -> None:
    """Every write of an owner beats all before it, and fits 64 signed bits."""
    ownership = Ownership(3, epoch)

    times = [ownership.next_write_time() for _ in range(writes)]

    assert times == sorted(set(times))
    assert times[-1] < 2**63
    assert {time >> EPOCH_SHIFT for time in times} == {epoch}


@given(epochs, st.integers(0, 2**40 - 1))
def test_the_first_write_of_an_owner_beats_every_write_of_the_one_before(
    epoch: int, counter: int
) -> None:
    """Clocks play no part: a higher epoch wins over any counter."""
    newer = Ownership(3, epoch + 1)

    assert newer.next_write_time() > (epoch << EPOCH_SHIFT) | counter


@given(instants_ms)
def test_a_new_partition_has_nothing_before_its_first_watermark(time_ms: int) -> None:
    """Nothing is swept past what is closed."""
    watermark = initial_watermark(time_ms)

    assert watermark.watermark_ms == watermark.loaded_until_ms == time_ms
    assert watermark.tasks_swept_until_ms == hour_of(time_ms) <= watermark.watermark_ms
    assert watermark.statuses_swept_until_ms <= watermark.tasks_swept_until_ms
