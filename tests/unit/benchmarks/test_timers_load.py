"""What the timers' load takes for a pop that came."""

from benchmarks.programs.timers_load import Sink, _counted


def test_a_pop_that_came_twice_stands_for_no_other() -> None:
    """The load would stop waiting for one that is only late, and count it as missing."""
    sink = Sink()
    for came_s in (2.0, 2.5):
        sink.note(7, 1, came_s)

    assert len(sink.distinct) == 1
    counted = _counted(sink, {7: 0}, wanted=2, judged_ms=(0, 10_000))
    assert (counted["missing"], counted["doubled"]) == (1, 1)


def test_what_was_due_before_all_were_made_is_not_judged() -> None:
    """Making timers is another measure's business; a pop is missed anyway."""
    sink = Sink()
    for number, late_s in ((1, 9.0), (2, 0.5), (3, 0.25), (4, 9.0)):
        sink.note(7, number, 2.0 * number + late_s)

    counted = _counted(sink, {7: 0}, wanted=5, judged_ms=(3_000, 7_000))

    assert (counted["p99.9"], counted["per_s"], counted["missing"]) == (500.0, 0.5, 1)
