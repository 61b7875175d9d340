"""Tasks in memory: in key order, each counted once."""

from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.task_queue import TaskQueue
from tests.builders import a_stored_task


def _task(number: int, size_bytes: int = 10, offset: int = 0) -> StoredTask:
    data = b"x" * size_bytes
    return a_stored_task(due_in_ms=number, uniqueness_key=str(number), data=data, offset=offset)


def _queue(*tasks: StoredTask) -> TaskQueue:
    queue = TaskQueue()
    for task in tasks:
        queue.add(task)
    return queue


def test_tasks_leave_in_key_order_and_are_counted_until_then() -> None:
    """Whatever was removed in between."""
    first, second, third = _task(1), _task(2, 500), _task(3, 70)
    queue = _queue(third, first, second)

    assert queue.size_bytes == sum(task.size_bytes for task in (first, second, third))
    assert queue.remove(second.key) is second
    assert queue.remove(second.key) is None
    assert queue.first() == first.key
    assert (queue.pop(), queue.pop(), queue.pop()) == (first, third, None)
    assert queue.size_bytes == 0
    assert queue.first() is None


def test_a_later_record_of_a_key_is_counted_in_place_of_the_earlier_one() -> None:
    """An older one changes nothing."""
    queue = _queue(_task(1, 10, offset=1))

    queue.add(_task(1, 900, offset=2))
    queue.add(_task(1, 5, offset=0))

    assert len(queue) == 1
    assert queue.size_bytes == _task(1, 900).size_bytes
    assert not queue.update(_task(2))


def test_what_stays_is_bounded_by_number_and_bytes() -> None:
    """The latest leave; one stays, however large, where that is asked for."""
    tasks = [_task(number, 1_000) for number in range(10)]
    size_bytes = tasks[0].size_bytes

    by_number = _queue(*tasks).keep_first(4, 10**9, 0)
    queue = _queue(*tasks)
    by_bytes = queue.keep_first(100, 3 * size_bytes + 1, 0)

    assert by_number == [task.key for task in tasks[4:]]
    assert by_bytes == [task.key for task in tasks[3:]]
    assert queue.size_bytes == 3 * size_bytes
    assert len(_queue(*tasks).keep_first(100, 0, 1)) == 9
    assert len(_queue(*tasks).keep_first(0, 0, 1)) == 10
    assert _queue().keep_first(9, 0, 1) == []
    assert queue.pop() == tasks[0]
    queue.clear()
    assert (len(queue), queue.size_bytes, queue.pop()) == (0, 0, None)


def test_a_key_is_here_until_its_task_leaves() -> None:
    """Also where the first one was removed, whose key the order still has."""
    tasks = [_task(number) for number in range(3)]
    queue = _queue(*tasks)

    queue.remove(tasks[0].key)

    assert tasks[0].key not in queue and tasks[1].key in queue
    assert set(queue) == {tasks[1].key, tasks[2].key}
    assert queue.first() == tasks[1].key
    assert queue.pop() is tasks[1]
    queue.remove(tasks[2].key)
    assert queue.first() is None and queue.pop() is None
