"""PartitionExecutor: what a pause does to the ordering ids that hold tasks already."""

from collections.abc import Callable

import pytest

from hourhand.actors.messages import DrainTasks, PauseTasks, StartTasks
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.task import StoredTask
from tests.builders import NOW_MS, a_stored_task, an_attempt
from tests.unit.actors.execution_bench import Bench
from tests.unit.probes import EPOCH, PARTITION


def _x(due_in_ms: int) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, ordering_id="x", uniqueness_key=str(due_in_ms))


def _y(due_in_ms: int) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, ordering_id="y")


@pytest.mark.parametrize(
    ("pause", "left"),
    [
        (Pause(PauseScope.ORDERING, PARTITION, "x"), ["y"]),
        (Pause(PauseScope.PARTITION, PARTITION), []),
        (Pause(PauseScope.ALL), []),
        (Pause(PauseScope.PARTITION, PARTITION + 1), ["x", "y"]),
        (Pause(PauseScope.ORDERING, PARTITION + 1, "x"), ["x", "y"]),
    ],
    ids=["an id", "the partition", "everything", "another partition", "an id elsewhere"],
)
def test_p13_what_is_paused_leaves_to_the_store_what_waits(pause: Pause, left: list[str]) -> None:
    """It takes up neither slots nor memory; what is not paused keeps them."""
    bench = Bench(known_since_ms=0)
    bench.execute(_x(-50), a_stored_task(due_in_ms=-45, ordering_id="y"), _x(-40), _y(-30))

    bench.tell(PauseTasks(OperatorConfig(1, (pause,))))
    slots = bench.slots
    bench.finish()
    bench.finish()

    assert slots == 2 + len(left)
    assert [each.attempt.task.key.ordering_id for each in bench.runner.started] == left


def test_what_runs_keeps_its_slot_until_it_has_ended() -> None:
    """Then nothing of the id is left in memory, and nothing is read while it is paused."""
    bench = Bench(known_since_ms=0)
    bench.execute(_x(-50), _x(-40))

    bench.pause("x")
    during = bench.slots
    bench.finish()

    assert (during, bench.slots, bench.budget.due_bytes) == (1, 0, 0)
    assert not bench.runner.started and not bench.asks_store


def test_a_retry_that_waits_is_let_go_of_when_its_id_is_paused() -> None:
    """It would hold a slot for as long as the pause lasts."""
    bench = Bench()
    bench.begin(_x(-50))
    bench.fail_once()

    bench.pause("x")

    assert bench.slots == 0


def test_p13_a_task_of_a_paused_id_is_left_to_the_store_with_its_slot_and_bytes() -> None:
    """From the first of them on, whatever order they come in; others are handed on."""
    bench = Bench(known_since_ms=0)
    bench.pause("x")

    bench.execute(_x(-70), _x(-50), _y(-40))
    bench.execute(_x(-60))

    assert bench.runner.only.task == _y(-40)
    assert (bench.slots, bench.budget.due_bytes) == (1, _y(-40).size_bytes)
    assert bench.progress().stragglers == (Straggler("x", NOW_MS - 70),)


def test_p13_an_id_whose_pause_is_over_reads_what_was_left_meanwhile() -> None:
    """A task that comes during the read joins the range, and is read with the next page."""
    bench = Bench(known_since_ms=0)
    bench.pause("x")
    bench.execute(_x(-50), _y(-20))

    bench.pause()
    bench.execute(_x(-10))
    request = bench.load(_x(-50))

    assert (request.after, request.up_to) == (first_key_at(NOW_MS - 50), _x(-50).key)
    assert [each.attempt.task for each in bench.runner.started] == [_y(-20), _x(-50)]
    assert bench.progress().stragglers == ()


def test_p13_a_straggler_that_is_paused_reads_nothing_until_its_pause_is_over() -> None:
    """Then all that the watermark left behind."""
    bench = Bench()
    bench.pause("x")

    bench.load_straggler("x", NOW_MS - 50, NOW_MS - 20)
    early = bench.asks_store
    bench.pause()
    request = bench.load()

    assert not early
    assert (request.after, request.up_to) == (first_key_at(NOW_MS - 50), first_key_at(NOW_MS - 20))


def test_p3_an_id_that_was_paused_reads_on_only_when_its_task_at_hand_has_ended() -> None:
    """Two of one id never run at once; what comes meanwhile is left to the store as well."""
    bench = Bench(known_since_ms=0)
    bench.execute(_x(-50))
    bench.pause("x")
    bench.execute(_x(-30))

    bench.pause()
    early = bench.asks_store
    bench.finish()
    request = bench.load(_x(-30))

    assert not early
    assert (request.after, request.up_to) == (first_key_at(NOW_MS - 30), _x(-30).key)
    assert bench.runner.only.task == _x(-30)


def test_a_task_that_ran_through_a_pause_is_tried_again_as_before() -> None:
    """The pause is over before its attempt fails."""
    bench = Bench(known_since_ms=0)
    bench.execute(_x(-50))
    bench.pause("x")
    bench.pause()

    bench.fail_once()
    bench.advance(60_000)

    assert bench.runner.only.number == 2


@pytest.mark.parametrize("act", [lambda bench: bench.pause(), lambda bench: bench.pause("x", "y")])
def test_p14_a_pause_that_changes_while_the_partition_is_given_up_begins_nothing(
    act: Callable[[Bench], None],
) -> None:
    """An id that began now would wait for a lease that never comes, and the drain for it."""
    bench = Bench(known_since_ms=0)
    bench.pause("x")
    bench.execute(_x(-50), _y(-40))
    bench.tell(DrainTasks())

    act(bench)
    bench.finish()

    assert bench.is_drained and not bench.asks_store and not bench.runner.started
    assert bench.progress().stragglers == (Straggler("x", NOW_MS - 50),)


def test_p8_an_id_that_was_paused_with_an_adopted_attempt_reads_its_task_again() -> None:
    """Nothing was handed on since the tree began, and still the range holds that task."""
    bench = Bench(left=[an_attempt(task=_x(-50), epoch=EPOCH)])
    bench.tell(StartTasks())
    bench.pause("x")
    bench.end(Ending.FAILED)
    bench.record()

    bench.pause()
    request = bench.load()

    assert (request.after, request.up_to) == (first_key_at(NOW_MS - 50), _x(-50).key)
