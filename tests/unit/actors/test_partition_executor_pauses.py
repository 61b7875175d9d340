"""PartitionExecutor: what a pause does to the ordering ids that hold tasks already."""

from collections.abc import Callable

import pytest

from actors.messages import (
    AdoptAttempt,
    DrainTasks,
    ExecuteTask,
    HoldOrdering,
    HoldOrderings,
    PauseOrdering,
    PauseTasks,
    SlotsReleased,
)
from actors.model.key import first_key_at
from actors.model.operator_sheet import OperatorSheet
from actors.model.ownership import Straggler
from actors.model.pauses import Pause, PauseScope
from actors.model.task import StoredTask
from tests.builders import NOW_MS, a_stored_task, an_attempt
from tests.unit.actors.partition_executor_bench import Bench
from tests.unit.probes import Harness


@pytest.mark.parametrize(
    ("pauses", "told"),
    [
        (lambda partition: Pause(PauseScope.ORDERING, partition, "x"), [True, False]),
        (lambda partition: Pause(PauseScope.PARTITION, partition), [True, True]),
        (lambda _partition: Pause(PauseScope.ALL), [True, True]),
        (lambda partition: Pause(PauseScope.PARTITION, partition + 1), [False, False]),
        (lambda partition: Pause(PauseScope.ORDERING, partition + 1, "x"), [False, False]),
    ],
    ids=["an id", "the partition", "everything", "another partition", "an id elsewhere"],
)
def test_p13_what_is_paused_leaves_to_the_store_what_it_holds(
    pauses: Callable[[int], Pause], told: list[bool]
) -> None:
    """It takes up neither slots nor memory; what is not paused keeps them."""
    bench = Bench()
    bench.execute(a_stored_task(ordering_id="x"), a_stored_task(ordering_id="y"))
    pause = pauses(bench.harness.ownership.partition)

    bench.tell(PauseTasks(OperatorSheet(1, (pause,))))

    assert [PauseOrdering() in child.messages for child in bench.children] == told


def _x(due_in_ms: int) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, ordering_id="x")


def _pause(bench: Bench, *ordering_ids: str) -> None:
    """Have these ordering ids paused, and no others."""
    place = bench.harness.ownership.partition
    pauses = tuple(Pause(PauseScope.ORDERING, place, each) for each in ordering_ids)
    bench.tell(PauseTasks(OperatorSheet(1, pauses)))


def _held(bench: Bench) -> tuple[Straggler, ...]:
    return bench.progress(NOW_MS - 60_000).held


def test_p13_a_task_of_a_paused_id_is_left_to_the_store_with_its_slot_and_bytes() -> None:
    """From the first of them on, whatever order they come in; others are handed on."""
    bench = Bench()
    _pause(bench, "x")
    budget = bench.harness.siblings.budget
    tasks = (_x(-70), _x(-50), a_stored_task(due_in_ms=-40, ordering_id="y"))

    bench.execute(*tasks)

    assert [child.messages for child in bench.children] == [[ExecuteTask(tasks[2])]]
    assert budget.due_bytes == tasks[2].held_bytes
    assert bench.harness.scheduler.take_all(SlotsReleased) == [SlotsReleased(2)]
    assert _held(bench) == (Straggler("x", NOW_MS - 70),)


def test_p13_an_id_whose_pause_is_over_reads_what_was_left_meanwhile() -> None:
    """From its first task to the last that was due: what comes later is loaded for it."""
    bench = Bench()
    _pause(bench, "x")
    bench.execute(_x(-50), a_stored_task(due_in_ms=-20, ordering_id="y"))

    _pause(bench)
    bench.execute(_x(-10))

    read = HoldOrdering(first_key_at(NOW_MS - 50), first_key_at(NOW_MS - 19))
    assert bench.children[1].messages == [read, ExecuteTask(_x(-10))]
    assert _held(bench) == ()


def test_p13_a_straggler_that_is_paused_reads_nothing_until_its_pause_is_over() -> None:
    """Then all that the watermark left behind."""
    bench = Bench()
    _pause(bench, "x")

    bench.tell(HoldOrderings((Straggler("x", NOW_MS - 50),), NOW_MS - 20))
    early = list(bench.children)
    _pause(bench)

    read = HoldOrdering(first_key_at(NOW_MS - 50), first_key_at(NOW_MS - 19))
    assert not early and bench.children[0].messages == [read]


def test_p3_an_id_that_was_paused_reads_on_only_when_its_last_attempt_has_ended() -> None:
    """Two of one id never run at once; what comes meanwhile is left to the store as well."""
    bench = Bench()
    bench.execute(_x(-50))
    _pause(bench, "x")
    _pause(bench)
    bench.execute(_x(-30))
    early = len(bench.children)

    bench.release("x", received=1, first_ms=NOW_MS - 50)
    bench.release("x", received=2, released=0)

    read = HoldOrdering(first_key_at(NOW_MS - 50), first_key_at(NOW_MS - 29))
    assert early == 1 and [child.messages for child in bench.children[1:]] == [[read]]


def test_an_id_that_was_paused_before_is_not_told_again() -> None:
    """It has left everything to the store already."""
    bench = Bench()
    bench.execute(_x(-50))

    _pause(bench, "x")
    _pause(bench, "x", "y")

    assert bench.children[0].messages.count(PauseOrdering()) == 1


def test_p14_a_pause_that_ends_while_the_partition_is_given_up_begins_nothing() -> None:
    """An id that began now would wait for a lease that never comes, and the drain for it."""
    bench = Bench()
    _pause(bench, "x")
    bench.execute(_x(-50))
    bench.tell(DrainTasks())

    _pause(bench)

    assert not bench.children


def test_an_id_that_ends_with_its_partition_is_not_paused_besides() -> None:
    """It begins nothing any more as it is."""
    bench = Bench()
    bench.execute(_x(-50))
    bench.tell(DrainTasks())

    _pause(bench, "x")

    assert bench.children[0].messages == [ExecuteTask(_x(-50)), DrainTasks()]


def test_p8_an_id_that_was_paused_with_an_adopted_attempt_reads_its_task_again() -> None:
    """Nothing was handed on since the tree began, and still the range holds that task."""
    harness = Harness()
    attempt = an_attempt(task=_x(-50))
    harness.runner.left = [attempt]
    bench = Bench(harness)
    _pause(bench, "x")
    bench.release("x", received=2, released=0)

    _pause(bench)

    read = HoldOrdering(first_key_at(NOW_MS - 50), first_key_at(NOW_MS - 49))
    assert [child.messages for child in bench.children] == [
        [AdoptAttempt(attempt), PauseOrdering()],
        [read],
    ]
