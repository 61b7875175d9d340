"""Checkpoint: how far memory reaches, whatever left it while a load was under way."""

from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.window.checkpoint import Checkpoint

FIRST, SECOND, THIRD = (first_key_at(time_ms) for time_ms in (10, 20, 30))


def test_a_load_raises_it() -> None:
    """To where the load reached."""
    checkpoint = Checkpoint(FIRST)

    after = checkpoint.begin_load()
    checkpoint.end_load(THIRD)

    assert (after, checkpoint.key) == (FIRST, THIRD)


def test_what_leaves_memory_lowers_it_and_never_raises_it() -> None:
    """The lowest of several counts, in whatever order they come."""
    checkpoint = Checkpoint(SECOND)

    checkpoint.lower(FIRST)
    checkpoint.lower(THIRD)

    assert checkpoint.key == FIRST


def test_a_load_reaches_no_further_than_memory_was_lowered_meanwhile() -> None:
    """Also where that lies before the key it began after."""
    checkpoint = Checkpoint(SECOND)

    checkpoint.begin_load()
    checkpoint.lower(FIRST)
    checkpoint.end_load(THIRD)

    assert checkpoint.key == FIRST


def test_the_next_load_is_not_held_back_by_what_left_memory_before_it() -> None:
    """It loads that again."""
    checkpoint = Checkpoint(SECOND)
    checkpoint.lower(FIRST)

    after = checkpoint.begin_load()
    checkpoint.end_load(THIRD)

    assert (after, checkpoint.key) == (FIRST, THIRD)
