"""Events become log lines and metrics, whatever they hold and whoever fails."""

import logging
import typing

import pytest
from msgspec.structs import fields

from actors.model import events
from actors.model.codec import CommandKind
from actors.model.events import Event
from actors.model.status import AttemptResult, CommandOutcome, CompletionResult
from scheduler.adapters.telemetry import LoggingTelemetry
from tests.builders import NOW_MS, a_key

EVENT_CLASSES = typing.get_args(Event)

_VALUES: dict[str, object] = {
    "key": a_key(),
    "drained": True,
    "complete": True,
    "cause": "boom",
    "reason": "poison",
    "on_exhausted": "skip",
    "error_class": None,
    "kind": CommandKind.CANCEL,
    "outcome": CommandOutcome.APPLIED,
}


def an_event(kind: type) -> Event:
    """Return an event of a class, with any values of the right types."""
    values = {field.name: _VALUES.get(field.name, 3) for field in fields(kind)}
    if kind is events.AttemptFinished:
        values["result"] = AttemptResult.SUCCESS
    if kind is events.TaskClosed:
        values["result"] = CompletionResult.SUCCESS
    return typing.cast("Event", kind(**values))


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_every_event_is_one_line_of_its_role(kind: type, caplog: pytest.LogCaptureFixture) -> None:
    """The line begins with the event's name and names every field."""
    # Below DEBUG: some are for counting alone.
    caplog.set_level(1, "hourhand")

    LoggingTelemetry().emit(an_event(kind))

    (record,) = caplog.records
    assert record.getMessage().split(" ")[0] == kind.__name__
    assert all(f" {field.name}=" in record.getMessage() for field in fields(kind))
    assert record.name.startswith("hourhand.")


def test_a_failed_attempt_is_a_warning_and_a_good_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Per-task chatter stays below the level an operator reads."""
    caplog.set_level(logging.INFO, "hourhand")
    telemetry = LoggingTelemetry()

    telemetry.emit(events.AttemptFinished(0, a_key(), 1, AttemptResult.SUCCESS, 5, NOW_MS))
    telemetry.emit(events.AttemptFinished(0, a_key(), 1, AttemptResult.FAILURE, 5, NOW_MS, "Boom"))

    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_line_break_in_an_event_makes_no_second_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ids and error texts come from outside; they may not forge a line."""
    caplog.set_level(logging.DEBUG, "hourhand")

    LoggingTelemetry().emit(events.TreeRebuilt("a\nERROR forged", 1, 100))

    assert "\n" not in caplog.records[0].getMessage()
