"""The flag that an attempt is to end: seen where it runs, and nowhere else."""

from contextvars import copy_context

from hourhand.actors.model.execution import interruption
from hourhand.actors.model.execution.interruption import (
    AskedToEnd,
    ask_to_end,
    current_attempt,
    forget_asked,
    is_asked_to_end,
    note_attempt,
)
from tests.builders import an_attempt


class Executor:
    """A class with the flag."""

    cancelled = AskedToEnd()


def test_an_attempt_that_was_asked_to_end_sees_it_until_it_has_ended() -> None:
    """Another attempt, and code outside of one, see nothing."""
    asked, other = an_attempt(), an_attempt()
    here, there = copy_context(), copy_context()
    here.run(note_attempt, asked)
    there.run(note_attempt, other)

    ask_to_end(asked)
    seen = here.run(is_asked_to_end), there.run(is_asked_to_end), is_asked_to_end()
    forget_asked(asked)

    assert seen == (True, False, False) and not here.run(is_asked_to_end)
    assert here.run(current_attempt) is asked


def test_a_class_of_a_user_may_have_an_attribute_of_this_name() -> None:
    """The flag takes no name away."""
    executor = Executor()
    before = executor.cancelled

    executor.cancelled = True

    assert (before, executor.cancelled) == (False, True)


def test_a_process_looks_at_what_its_node_asks() -> None:
    """It runs one piece of work at a time, so no attempt is compared."""
    answers = [True, False]
    look = lambda: answers.pop(0)  # noqa: E731 - removed by its identity
    interruption.look_too(look)
    try:
        assert [is_asked_to_end(), is_asked_to_end()] == [True, False]
    finally:
        interruption._LOOKS.remove(look)
