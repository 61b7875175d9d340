"""OrderingExecutor: what it reads and is not due yet, as an earlier owner's clock was ahead."""

from actors.messages import (
    DrainTasks,
    ExecuteTask,
    HoldOrdering,
    LoadOrdering,
    OrderingDrained,
    OrderingLoaded,
    TaskExecuted,
)
from actors.model.key import TaskKey, first_key_at
from actors.model.task import StoredTask
from tests.builders import NOW_MS, a_stored_task
from tests.unit.actors.ordering_executor_bench import ID, Bench

AHEAD_MS = 150_000
"""By how much the clock of the owner before was ahead."""
UP_TO = first_key_at(NOW_MS + AHEAD_MS)


def due_in(due_in_ms: int, offset: int = 0) -> StoredTask:
    """Return a task of the id, named after its time."""
    return a_stored_task(
        due_in_ms=due_in_ms, ordering_id=ID, uniqueness_key=str(due_in_ms), offset=offset
    )


def held_bench(*due_in_ms: int, next_after: TaskKey | None = None) -> Bench:
    """Return a bench whose id is a straggler and has read these tasks."""
    bench = Bench()
    bench.tell(HoldOrdering(first_key_at(NOW_MS - 10_000), UP_TO))
    read(bench, *due_in_ms, next_after=next_after)
    return bench


def read(bench: Bench, *due_in_ms: int, next_after: TaskKey | None = None) -> LoadOrdering:
    """Answer what it asks of the store."""
    request = bench.harness.persistence.take(LoadOrdering)
    bench.tell(OrderingLoaded(tuple(due_in(due) for due in due_in_ms), next_after))
    return request


def execute(bench: Bench, task: StoredTask) -> None:
    """Send a due task."""
    bench.slots += 1
    bench.tell(ExecuteTask(task))


def asked(bench: Bench) -> int:
    """Count its questions to the store, and take them."""
    return len(bench.harness.persistence.take_all(LoadOrdering))


def test_p4_what_is_not_due_is_read_again_when_it_is() -> None:
    """To the millisecond, and all behind it, which may stand on further pages."""
    bench = held_bench(-1_000, 5_000, 6_000, next_after=due_in(6_000).key)
    bench.tell(TaskExecuted(due_in(-1_000).key, 0))

    bench.harness.advance(4_999)
    early = (bench.attempted, asked(bench))
    bench.harness.advance(1)
    request = read(bench, 5_000)

    assert early == (["-1000"], 0)
    assert (request.after, request.up_to) == (first_key_at(NOW_MS + 5_000), UP_TO)
    assert bench.attempted == ["-1000", "5000"]


def test_p8_what_is_waited_for_counts_as_open_and_takes_no_slot() -> None:
    """So the watermark does not pass it."""
    bench = held_bench(5_000)

    assert bench.slots == 0
    assert bench.last is not None and bench.last.first_ms == NOW_MS + 5_000


def test_p4_a_task_that_falls_due_before_it_runs_before_it() -> None:
    """It waits neither for the store nor for the time of the later one."""
    bench = held_bench(60_000)

    bench.harness.advance(5_000)
    execute(bench, due_in(5_000))
    running = bench.attempted
    bench.tell(TaskExecuted(due_in(5_000).key, 0))
    bench.harness.advance(55_000)
    read(bench, 60_000)

    assert running == ["5000"] and bench.attempted == ["5000", "60000"]


def test_p6_a_later_record_of_it_is_read_when_it_is_due() -> None:
    """Whichever comes first, the record from the scheduler or the own timer."""
    bench = held_bench(5_000)

    bench.harness.clock.step_wall(5_000)
    execute(bench, due_in(5_000, offset=9))
    read(bench, 5_000)

    assert bench.attempted == ["5000"] and bench.slots == 1


def test_a_task_that_arrived_meanwhile_is_read_without_waiting() -> None:
    """It is due, and was left to the store while the others were read."""
    bench = Bench()
    bench.tell(HoldOrdering(first_key_at(NOW_MS - 10_000), UP_TO))
    execute(bench, due_in(-1))
    read(bench, 60_000)

    request = read(bench, -1, 60_000)

    assert request.after == first_key_at(NOW_MS - 1)
    assert bench.attempted == ["-1"] and asked(bench) == 0


def test_a_clock_that_is_stepped_is_noticed_within_the_check_interval() -> None:
    """No timer sleeps longer, and none reads too early."""
    bench = held_bench(60_000)

    bench.harness.clock.step_wall(-10_000)
    bench.harness.advance(60_000)
    early = asked(bench)
    bench.harness.clock.step_wall(10_000)
    bench.harness.advance(1_000)

    assert (early, asked(bench)) == (0, 1)


def test_p15_a_drain_ends_the_wait() -> None:
    """What waits is open in the store, for the next owner."""
    bench = held_bench(5_000)

    bench.tell(DrainTasks())
    bench.harness.advance(10_000)

    assert asked(bench) == 0
    assert len(bench.harness.executor.take_all(OrderingDrained)) == 1
