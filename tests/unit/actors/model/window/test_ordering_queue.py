"""What waits of one ordering id: which tasks stay in memory, and from when on some are open."""

from hourhand.actors.messages import LoadOrdering
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.ordering_queue import OrderingQueue
from tests.builders import a_stored_task
from tests.unit.probes import Probe

MAX = 2


def _task(due_in_ms: int) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, ordering_id="x")


def test_p13_what_does_not_fit_is_left_to_the_store() -> None:
    """All of it in one range, which says where to read on."""
    queue = OrderingQueue()
    tasks = [_task(due_in_ms) for due_in_ms in (10, 20, 30, 40)]

    for task in tasks:
        queue.enqueue(task, MAX)

    assert list(queue) == [task.key for task in tasks[:2]]
    assert queue.stored == (first_key_at(tasks[2].key.scheduled_ms), tasks[3].key)


def test_of_tasks_due_at_one_moment_those_in_memory_are_not_read_again() -> None:
    """A long queue often falls due at once; what comes late and goes before it is read, too."""
    queue = OrderingQueue()
    first, second, third, late = (
        a_stored_task(ordering_id="x", uniqueness_key=name) for name in ("c", "d", "e", "b")
    )
    for task in (first, second, third):
        queue.enqueue(task, 1)
    assert queue.stored == (first.key, third.key)

    queue.enqueue(late, 1)

    assert queue.stored == (first_key_at(late.key.scheduled_ms), third.key)


def test_where_it_reads_on_is_as_late_as_what_was_left() -> None:
    """Or the watermark would stand where an earlier task does, which may be long done."""
    queue = OrderingQueue()

    queue.enqueue(_task(10), 1)
    queue.enqueue(_task(20), 1)

    assert queue.stored == (first_key_at(_task(20).key.scheduled_ms), _task(20).key)


def test_p4_later_tasks_join_those_that_were_left_and_earlier_ones_do_not() -> None:
    """True if or not there is room."""
    queue = OrderingQueue()
    queue.spill_key(_task(30).key)

    queue.enqueue(_task(20), MAX)
    queue.enqueue(_task(40), MAX)

    assert list(queue) == [_task(20).key]


def test_p8_the_first_of_its_tasks_is_here_or_in_the_store() -> None:
    """Whichever is earlier; none where nothing waits."""
    queue = OrderingQueue()
    first_ms = [queue.first_ms()]
    task, left = _task(20), _task(10)

    queue.add(task)
    first_ms.append(queue.first_ms())
    queue.spill_key(left.key)
    first_ms.append(queue.first_ms())
    queue.clear()
    first_ms.append(queue.first_ms())

    left_ms = left.key.scheduled_ms
    assert first_ms == [None, task.key.scheduled_ms, left_ms, left_ms]


def test_a_queue_that_left_tasks_to_the_store_is_not_empty() -> None:
    """Also where it has none in memory."""
    queue = OrderingQueue()
    empty = queue.is_empty
    queue.add(_task(10))

    assert empty and not queue.is_empty
    queue.spill_all()
    assert (len(queue), queue.size_bytes, queue.stored is None) == (0, 0, False)


def test_what_is_being_read_is_open_until_it_is_here() -> None:
    """Nobody else says from where on it is (P8); where nobody waits any more it is left again."""
    queue = OrderingQueue()
    queue.spill(_task(10).key, _task(30).key)
    span = queue.stored
    assert span is not None

    queue.begin_reading(LoadOrdering("x", *span, 5, Probe()))
    reading = queue.first_ms(), queue.is_empty, queue.leaves_to_store(_task(20).key)
    queue.stop_reading()

    assert reading == (_task(10).key.scheduled_ms, False, True)
    assert queue.stored == span and queue.reading is None
