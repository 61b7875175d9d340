"""The shared page: what one side writes the others read, and places are apart."""

import math

from hourhand.scheduler.node.processes.process_page import ProcessPage


def test_the_earlier_of_both_leases_counts() -> None:
    """A write that was cut in two never makes a lease longer."""
    page, descriptor = ProcessPage.made(2)
    other = ProcessPage(descriptor, 2)
    page.lease_until(math.inf)
    assert other.lease_ends_ms == math.inf

    page.lease_until(5.0)
    other._times[1] = 9.0

    assert page.lease_ends_ms == 5.0


def test_a_place_says_what_runs_in_it() -> None:
    """By whoever has mapped the page; its neighbour says nothing of that."""
    page, descriptor = ProcessPage.made(2)
    theirs, ours = ProcessPage(descriptor, 2).place(1), page.place(1)

    theirs.begin(7, 100.0)
    assert (ours.seq, ours.begun_ms, ours.deadline_ms) == (7, 100.0, math.inf)
    is_called_at_first = ours.executes_since_ms is not None
    theirs.execute(1_234)
    theirs.limit(150.0)
    ours.ask(7)
    theirs.measure(4_096)
    assert (ours.executes_since_ms, ours.deadline_ms) == (1_234, 150.0)
    assert (theirs.asked_seq, ours.memory_bytes) == (7, 4_096)
    assert (is_called_at_first, page.place(0).seq) == (False, 0)

    theirs.end()
    assert ours.seq == 0
    ours.clear()
    assert (theirs.asked_seq, theirs.memory_bytes) == (0, 0)
