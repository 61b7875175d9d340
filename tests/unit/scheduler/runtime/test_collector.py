"""The collector's thresholds, which are the whole process's."""

import gc
from collections.abc import Iterator

import pytest

from hourhand.scheduler.runtime.collector import OLD_LOOKS_MIN, YOUNG_OBJECTS_MAX, tune_gc


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Leave the process as it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_pythons_own_thresholds_are_raised() -> None:
    """They were made for programs that keep what they make.

    The middle one stays: of 100 looks together one stands still for 50 ms, of 10 for 10 ms.
    """
    gc.set_threshold(700, 10, 10)

    restore = tune_gc()

    assert gc.get_threshold() == (YOUNG_OBJECTS_MAX, 10, OLD_LOOKS_MIN)
    restore()
    restore()
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_node_of_the_process_puts_them_back() -> None:
    """However many there were, and in whichever order they stop."""
    gc.set_threshold(700, 10, 10)
    first, second = tune_gc(), tune_gc()

    first()
    assert gc.get_threshold() == (YOUNG_OBJECTS_MAX, 10, OLD_LOOKS_MIN)
    second()

    assert gc.get_threshold() == (700, 10, 10)


def test_what_a_program_chooses_while_a_node_runs_stays() -> None:
    """It knows better."""
    gc.set_threshold(700, 10, 10)
    restore = tune_gc()
    gc.set_threshold(50_000, 20, 20)

    restore()

    assert gc.get_threshold() == (50_000, 20, 20)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (200_000, 5, 5)])
def test_what_a_program_chose_itself_stays(chosen: tuple[int, int, int]) -> None:
    """A collector that is off, or calmer already, is left alone."""
    gc.set_threshold(*chosen)

    restore = tune_gc()

    assert gc.get_threshold() == chosen
    restore()
    assert gc.get_threshold() == chosen
