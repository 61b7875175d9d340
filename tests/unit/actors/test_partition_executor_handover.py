"""PartitionExecutor: how it lets go of what it holds."""

from actors.messages import DrainTasks, OrderingDrained, TasksDrained
from actors.model.ownership import Straggler
from actors.model.task import StoredTask
from tests.builders import NOW_MS, a_stored_task
from tests.unit.actors.partition_executor_bench import Bench


def _task(ordering_id: str) -> StoredTask:
    return a_stored_task(due_in_ms=0, ordering_id=ordering_id)


def test_an_idle_partition_is_drained_at_once() -> None:
    """Nothing runs."""
    bench = Bench()

    bench.tell(DrainTasks())

    assert bench.harness.supervisor.take_all(TasksDrained) == [TasksDrained()]


def test_p14_a_partition_is_drained_when_every_id_is() -> None:
    """The last report of a child that drained may come after it ended."""
    bench = Bench()
    bench.execute(_task("x"), _task("y"))

    bench.tell(DrainTasks())
    bench.tell(OrderingDrained("x"))
    bench.release("x", received=1)
    early = bench.harness.supervisor.has(TasksDrained)
    bench.tell(OrderingDrained("y"))
    bench.release("y", received=1)

    assert [child.messages[-1] for child in bench.children] == [DrainTasks(), DrainTasks()]
    assert not early and len(bench.harness.supervisor.take_all(TasksDrained)) == 1


def test_p8_what_a_drained_id_left_open_is_not_passed_by_the_watermark() -> None:
    """It is in nobody's memory then, so the next owner must load it."""
    bench = Bench()
    bench.execute(_task("x"), _task("y"), _task("z"))
    bench.release("x", received=1, released=0, first_ms=NOW_MS - 9)
    bench.release("y", received=1, released=0, first_ms=NOW_MS - 7, held=True)

    bench.tell(DrainTasks())
    for ordering_id in "xy":
        bench.tell(OrderingDrained(ordering_id))
    bench.release("z", received=1)

    assert bench.progress().earliest_ms == NOW_MS - 9
    assert bench.progress().held == (Straggler("y", NOW_MS - 7),)


def test_p14_a_child_that_became_idle_while_draining_ends_once() -> None:
    """It says so twice: by being idle, and by having drained."""
    bench = Bench()
    bench.execute(_task("x"))

    bench.tell(DrainTasks())
    bench.release("x", received=1)
    bench.tell(OrderingDrained("x"))

    assert len(bench.harness.supervisor.take_all(TasksDrained)) == 1
