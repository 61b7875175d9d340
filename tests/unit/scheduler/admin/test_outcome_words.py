"""What became of a command, in sentences."""

import pytest

from hourhand.actors.model.task.status import CommandOutcome
from hourhand.scheduler.admin.acting import Action
from hourhand.scheduler.admin.outcome_words import said_of, words_of


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("outcome", CommandOutcome)
def test_every_outcome_of_every_command_is_a_sentence(
    action: Action, outcome: CommandOutcome
) -> None:
    """Not the outcome's own word, which programs read; what was not done names a next step."""
    said, next_step = words_of(action.value, outcome.value)

    assert len(said) > 4 and "_" not in said and said != outcome.value
    assert next_step or (action, outcome) in {
        (Action.RUN_NOW, CommandOutcome.APPLIED),
        (Action.RESCHEDULE, CommandOutcome.APPLIED),
    }


def test_many_outcomes_are_counted() -> None:
    """The most frequent first; a word that nobody knows says itself."""
    assert said_of("cancel", {"task-in-the-past": 1, "applied": 3}) == [
        "3: cancelled, and will not run",
        "1: task in the past",
    ]


def test_only_tasks_are_advised_commands_of_tasks() -> None:
    """A message of the relay is not retried by its key."""
    assert words_of("", "too_late").next_step
    assert not words_of("relay cancel", "too_late").next_step
