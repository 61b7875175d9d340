"""OrderingExecutor: what it has goes back to a lane once nothing but plain tasks is left."""

import pytest

from actors.messages import (
    ExecuteTask,
    KeepLane,
    PauseOrdering,
    ReturnLane,
    SpillQueue,
    UpdateTask,
)
from tests.builders import a_completion
from tests.unit.actors.ordering_executor_bench import Bench, task_named


def _bench() -> Bench:
    """Return one that knows of every key whether it is closed."""
    return Bench(known_since_ms=0)


def _offers(bench: Bench) -> list[ReturnLane]:
    return bench.harness.executor.take_all(ReturnLane)


def test_a_task_that_is_closed_leaves_plain_ones_to_a_lane() -> None:
    """None of them begins here; their slots and bytes stay taken."""
    bench = _bench()
    bench.execute("a", "b", "c")
    early = _offers(bench)

    bench.finish()

    (offer,) = _offers(bench)
    assert not early and bench.attempted == ["a"]
    assert sorted(key.uniqueness_key for key in offer.tasks) == ["b", "c"]
    assert (offer.received, bench.slots) == (3, 2)
    held_bytes = bench.harness.siblings.budget.due_bytes
    assert held_bytes == offer.tasks.size_bytes
    assert bench.last is not None and bench.last.first_ms == task_named("b").key.scheduled_ms


def test_what_is_kept_goes_on_here() -> None:
    """With the earliest of all that has come, and it is offered again after that one."""
    bench = _bench()
    bench.execute("b", "d")
    bench.finish()
    bench.execute("c")
    early = list(bench.attempted)

    bench.tell(KeepLane())

    assert early == ["b"] and bench.attempted == ["b", "c"] and len(_offers(bench)) == 1
    bench.finish()
    assert len(_offers(bench)) == 1


def test_p6_an_update_is_counted() -> None:
    """Or a lane would go on with the record before."""
    bench = _bench()
    bench.execute("a", "b")
    bench.tell(UpdateTask(task_named("b", offset=4)))

    bench.finish()

    assert [offer.received for offer in _offers(bench)] == [3]
    assert bench.last is not None and bench.last.received == 3


def test_a_task_that_was_tried_stays_here() -> None:
    """A lane knows nothing of attempts."""
    bench = _bench()
    bench.execute("a")
    bench.slots += 1
    bench.tell(ExecuteTask(task_named("b", last=1)))

    bench.finish()

    assert not _offers(bench) and bench.running() == "b"


@pytest.mark.parametrize("is_known", [True, False])
def test_p5_a_task_that_may_be_closed_stays_here(*, is_known: bool) -> None:
    """It is looked at before it runs."""
    bench = _bench() if is_known else Bench()
    if is_known:
        closed = a_completion(key=task_named("b").key)
        bench.harness.siblings.known_completions.remember(closed)
    bench.execute("a", "b")

    bench.finish()

    assert not _offers(bench) and bench.running() == "b"


def test_what_is_read_from_the_store_goes_to_a_lane_with_what_is_left_there() -> None:
    """A page at a time: only reading needs a mailbox."""
    bench = _bench()
    bench.execute("a", "b", "c")
    bench.tell(SpillQueue(task_named("a").key))
    bench.finish()

    bench.loaded("b", next_after=task_named("b").key)

    (offer,) = _offers(bench)
    assert [key.uniqueness_key for key in offer.tasks] == ["b"]
    assert offer.tasks.spilled == (task_named("b").key, task_named("c").key)
    assert bench.slots == 1 and bench.attempted == ["a"]


def test_a_pause_that_finds_it_between_lane_and_mailbox_leaves_all_to_the_store() -> None:
    """Its parent keeps the mailbox, as it has not seen the pause; that word changes nothing."""
    bench = _bench()
    bench.execute("a", "b")
    bench.finish()

    bench.tell(PauseOrdering())
    bench.tell(KeepLane())

    assert bench.attempted == ["a"] and bench.slots == 0
    assert bench.last is not None and bench.last.first_ms is None
