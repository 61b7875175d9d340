"""Which records may depart now."""

from actors.model.departures import Departure, Departures
from tests.builders import a_record


def _stray(offset: int, ordering_id: str = "a", batch: int = 1) -> Departure:
    return Departure(a_record(offset=offset), batch, ordering_id, 1)


def test_p6_one_stray_of_an_ordering_id_departs_at_a_time() -> None:
    """Those of others, and dead letters, are not kept waiting."""
    departures = Departures()
    first, second, third = _stray(0), _stray(1), _stray(2)

    begun = [departures.begin(each) for each in (first, second, third)]
    others = [departures.begin(_stray(3, "b")), departures.begin(Departure(a_record(offset=4), 1))]

    assert begun == [True, False, False] and others == [True, True]
    assert departures.let_pass(first) is second
    assert departures.let_pass(first) is None
    assert departures.let_pass(second) is third
    assert departures.let_pass(third) is None
    assert departures.begin(_stray(5))


def test_the_first_that_has_not_departed_is_known() -> None:
    """Nothing before it counts as undone."""
    departures = Departures()
    first, second = _stray(3), _stray(7, batch=2)
    departures.begin(first)
    departures.begin(second)

    found = departures.first_offset, departures.of_batch(2)
    departures.end(first)
    later = departures.first_offset
    departures.end(second)

    assert found == (3, [second]) and later == 7
    assert departures.first_offset is None
