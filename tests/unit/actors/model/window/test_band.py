"""Bands of waiting tasks: what is on time goes first, and a part is kept for it."""

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.band import ON_TIME_SHARE, BandName, Bands
from hourhand.actors.model.window.task_queue import TaskQueue
from tests.builders import NOW_MS, a_stored_task

ORDINARY, ON_TIME = BandName.ORDINARY, BandName.ON_TIME


def _task(due_in_ms: int) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, uniqueness_key=str(due_in_ms))


def _bands(ordinary: tuple[int, ...], on_time: tuple[int, ...] | None = None) -> Bands:
    """Return bands with tasks due after these times."""
    bands = Bands(TaskQueue)
    for due_in_ms in ordinary:
        bands.of(ORDINARY).queue.add(_task(due_in_ms))
    if on_time is not None:
        bands.separate()
        for due_in_ms in on_time:
            bands.of(ON_TIME).queue.add(_task(due_in_ms))
    return bands


def _keys(*due_in_ms: int) -> list[TaskKey]:
    return [_task(each).key for each in due_in_ms]


def test_one_band_may_take_all_and_of_two_the_second_leaves_a_part() -> None:
    """However it is measured: in slots and in bytes."""
    bands = _bands((1,))
    alone = [(band.name, band.most(100)) for band in bands]
    bands.separate()
    both = [(band.name, band.most(100)) for band in bands]

    assert alone == [(ORDINARY, 100)]
    assert both == [(ON_TIME, 100), (ORDINARY, 100 - 100 // ON_TIME_SHARE)]


def test_nothing_is_lost_when_bands_are_joined() -> None:
    """All may be taken again."""
    bands = _bands((-50, 30), (-2, 10))
    size_bytes, counts = bands.size_bytes, (bands.tasks_of(ON_TIME), len(bands))

    bands.join()

    (band,) = bands
    assert counts == (2, 4) and bands.size_bytes == size_bytes
    assert sorted(band.queue) == _keys(-50, -2, 10, 30) and band.most(8) == 8
    assert bands.tasks_of(ON_TIME) == 0


def test_a_key_is_found_wherever_it_waits() -> None:
    """Also to be replaced or let go of."""
    bands = _bands((-50,), (10,))
    newer = a_stored_task(due_in_ms=10, uniqueness_key="10", offset=9)

    bands.update(newer)
    found = [bands.find(key) for key in _keys(-50, 10, 11)]
    for key in _keys(-50, 10):
        bands.remove(key)

    assert found == [_task(-50), newer, None]
    assert (len(bands), bands.first()) == (0, None)


def test_the_first_of_all_is_known_and_when_the_next_falls_due() -> None:
    """What is due already is waited for by nobody."""
    bands = _bands((-50,), (10, 20))

    assert bands.first() == _task(-50).key
    assert bands.first_after(NOW_MS) == NOW_MS + 10
    assert _bands((-50,), ()).first_after(NOW_MS) is None


@pytest.mark.parametrize(
    ("tasks_max", "dropped"),
    [
        (5, []),
        (4, [(ORDINARY, (-40,))]),
        (2, [(ORDINARY, (-60, -50, -40))]),
        (1, [(ORDINARY, (-60, -50, -40)), (ON_TIME, (20,))]),
        (0, [(ORDINARY, (-60, -50, -40)), (ON_TIME, (10, 20))]),
    ],
)
def test_p13_what_is_on_time_leaves_memory_last(
    tasks_max: int, dropped: list[tuple[BandName, tuple[int, ...]]]
) -> None:
    """Of each band the latest ones."""
    bands = _bands((-60, -50, -40), (10, 20))

    left = bands.keep_first(tasks_max, 1 << 30, 0)

    assert [(band.name, keys) for band, keys in left] == [
        (name, _keys(*each)) for name, each in dropped
    ]
    assert len(bands) == tasks_max


def test_p13_one_task_stays_however_large_where_nothing_runs() -> None:
    """The first of what goes first; nothing has to stay where nothing is."""
    one, both, none = _bands((-60, -50)), _bands((-60,), (10, 20)), _bands((-60, -50), ())

    one.keep_first(9, 0, 1)
    both.keep_first(9, 0, 1)
    none.keep_first(9, 0, 1)

    assert (none.first(), len(none)) == (_task(-60).key, 1)
    assert (one.first(), len(one)) == (_task(-60).key, 1)
    assert (both.first(), len(both)) == (_task(10).key, 1)
