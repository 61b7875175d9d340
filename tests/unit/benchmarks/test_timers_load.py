"""What the timers' load takes for a pop that came."""

from benchmarks.programs.timers_load import Sink, _counted


def test_a_pop_that_came_twice_stands_for_no_other() -> None:
    """The load would stop waiting for one that is only late, and count it as missing."""
    sink = Sink()
    for came_s in (2.0, 2.5):
        sink.note(7, 1, came_s)

    assert len(sink.distinct) == 1
    counted = _counted(sink, {7: 0}, wanted=2)
    assert (counted["missing"], counted["doubled"]) == (1, 1)
