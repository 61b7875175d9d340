"""TaskPersistence: what it passes on where memory left its latest tasks to the store again."""

from hourhand.actors.messages import LoadTasks, LowerCheckpoint, UpdateTask
from tests.builders import NOW_MS
from tests.unit.actors.task_persistence_bench import Bench, task_due_in


def test_p6_a_later_record_of_what_was_handed_on_before_is_passed_on_all_the_same() -> None:
    """Memory was lowered below it, but it may wait behind another of its ordering id."""
    bench = Bench()
    bench.load()

    bench.tell(LowerCheckpoint(task_due_in(-30).key))
    bench.persist(task_due_in(-20), task_due_in(20))

    assert bench.scheduler.take_all(UpdateTask) == [UpdateTask(task_due_in(-20))]
    assert not bench.scheduled(), "whoever does not hold it must not take it"


def test_p4_a_load_brings_nothing_beyond_what_left_memory_meanwhile() -> None:
    """It would overtake that."""
    bench = Bench()
    bench.store(task_due_in(10), task_due_in(20), task_due_in(30))
    bench.load(20)
    first = bench.scheduled()
    bench.requests.hold("load_tasks")

    bench.tell(LoadTasks(NOW_MS + 900_000, 100))
    bench.tell(LowerCheckpoint(task_due_in(5).key))
    bench.serve("load_tasks")
    bench.answer_statuses()
    overtaking = bench.scheduled()
    bench.requests.hold_nothing()
    bench.load(900_000)

    assert (first, overtaking) == ([task_due_in(10).key], [])
    assert bench.scheduled() == [task_due_in(due).key for due in (10, 20, 30)]
