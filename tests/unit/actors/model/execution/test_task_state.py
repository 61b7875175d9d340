"""The states of a task at hand, as the code and the role's description have them."""

import re

import hourhand.actors.task_executor
from hourhand.actors.model.execution.task_state import Fate, Phase


def test_the_role_describes_each_phase() -> None:
    """In the order of the code."""
    table = re.findall(r"^([a-z]+)  +\S", hourhand.actors.task_executor.__doc__ or "", re.MULTILINE)

    assert table == ["phase", *(phase.name.lower() for phase in Phase)]


def test_a_task_that_was_never_told_of_is_open() -> None:
    """It is the first fate, which any other one takes the place of."""
    assert next(iter(Fate)) is Fate.OPEN
