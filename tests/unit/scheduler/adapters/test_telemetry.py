"""Events become log lines and metrics, whatever they hold and whoever fails."""

import json
import logging
import typing

import pytest
from msgspec.structs import fields

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations import events
from hourhand.actors.model.operations.events import Event
from hourhand.actors.model.task.codec import CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptResult, CommandOutcome, CompletionResult
from hourhand.actors.model.values.display import UNSHOWN_STACK, logged_stack, stack_of
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.adapters.telemetry import LoggingTelemetry
from hourhand.scheduler.cli.log_lines import JsonLines
from tests.builders import NOW_MS, a_key
from tests.conformance.telemetry import Unshowable

EVENT_CLASSES = typing.get_args(Event)

_VALUES: dict[str, object] = {
    "key": a_key(),
    "drained": True,
    "complete": True,
    "cause": "boom",
    "reason": "poison",
    "on_exhausted": "skip",
    "error_class": None,
    "error": ValueError("no"),
    "stack": None,
    "kind": CommandKind.CANCEL,
    "outcome": CommandOutcome.APPLIED,
}


def an_event(kind: type) -> Event:
    """Return an event of a class, with any values of the right types."""
    values = {field.name: _VALUES.get(field.name, 3) for field in fields(kind)}
    if kind in (events.AttemptFinished, events.AttemptFailed):
        values["result"] = AttemptResult.FAILURE
    if kind is events.TasksSucceeded:
        values["finished"] = (an_event(events.AttemptFinished),)
    if kind is events.TaskClosed:
        values["result"] = CompletionResult.SUCCESS
    return typing.cast("Event", kind(**values))


def test_an_event_about_many_tasks_is_a_line_for_each_thing_it_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A search for one task finds the lines that a task alone would have."""
    caplog.set_level(logging.DEBUG, "hourhand")
    finished = events.AttemptFinished(0, a_key(), 1, AttemptResult.SUCCESS, 5, NOW_MS)

    LoggingTelemetry(VirtualClock(NOW_MS)).emit(events.TasksSucceeded(0, (finished, finished)))

    lines = [record.getMessage().split(" ")[0] for record in caplog.records]
    assert lines == ["AttemptFinished", "TaskClosed"] * 2


@pytest.mark.parametrize("kind", [e for e in EVENT_CLASSES if e is not events.TasksSucceeded])
def test_every_event_is_one_line_of_its_role(kind: type, caplog: pytest.LogCaptureFixture) -> None:
    """The line begins with the event's name and names every field."""
    # Below DEBUG: some are for counting alone.
    caplog.set_level(1, "hourhand")

    LoggingTelemetry(VirtualClock(NOW_MS)).emit(an_event(kind))

    (record,) = caplog.records
    assert record.getMessage().split(" ")[0] == kind.__name__
    assert all(
        f" {field.name}=" in record.getMessage()
        for field in fields(kind)
        if field.name not in ("is_showable", "stack", "failed_ms")
    )
    assert record.name.startswith("hourhand.")


def test_a_failed_attempt_is_a_warning_and_a_good_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Per-task chatter stays below the level an operator reads."""
    caplog.set_level(logging.INFO, "hourhand")
    telemetry = LoggingTelemetry(VirtualClock(NOW_MS))

    telemetry.emit(events.AttemptFinished(0, a_key(), 1, AttemptResult.SUCCESS, 5, NOW_MS))
    for result in (AttemptResult.FAILURE, AttemptResult.TIMEOUT):
        telemetry.emit(
            events.AttemptFailed(0, a_key(), 1, result, 5, ValueError("no"), is_showable=True)
        )
        telemetry.emit(events.AttemptFinished(0, a_key(), 1, result, 5, NOW_MS, "ValueError"))

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


def _raised(error: BaseException) -> BaseException:
    """Return an error that has a trace."""

    def look_up_customer() -> None:
        raise error

    try:
        look_up_customer()
    except BaseException as caught:  # noqa: BLE001 - it is the result
        return caught
    raise AssertionError("it raises")


def _failed(
    error: BaseException, key: TaskKey | None = None, *, is_formatted: bool = True
) -> events.AttemptFailed:
    stack, result = stack_of(_raised(error), 1_000), AttemptResult.FAILURE
    whole = stack if is_formatted else None
    return events.AttemptFailed(
        3, key or a_key(), 2, result, 5, error, stack != UNSHOWN_STACK, whole
    )


@pytest.mark.parametrize("is_formatted", [True, False])
def test_a_failed_attempt_is_told_with_the_error_itself_and_its_stack(
    caplog: pytest.LogCaptureFixture, *, is_formatted: bool
) -> None:
    """Once, so that whoever reports what is logged with an error reports it once."""
    event = _failed(KeyError("no such customer"), is_formatted=is_formatted)

    LoggingTelemetry(VirtualClock(NOW_MS)).emit(event)

    (record,) = caplog.records
    assert record.exc_info is not None and record.exc_info[1] is event.error
    assert f"key={a_key()} attempt=2 result=failure" in record.getMessage()
    assert "error=KeyError error_message=\"'no such customer'\"" in record.getMessage()
    shown = logging.Formatter().format(record)
    stack = logging.Formatter().formatException(record.exc_info)
    assert shown.endswith(logged_stack(stack))
    assert "in look_up_customer" in shown


def test_a_stack_that_was_formatted_is_not_formatted_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is most of what a failure costs, and a handler does it under its lock."""

    def again(*_arguments: object) -> str:
        raise AssertionError("it was formatted")

    monkeypatch.setattr(logging.Formatter, "formatException", again)
    LoggingTelemetry(VirtualClock(NOW_MS)).emit(_failed(KeyError("no such customer")))

    (record,) = caplog.records
    assert "in look_up_customer" in logging.Formatter().format(record)
    assert "in look_up_customer" in json.loads(JsonLines().format(record))["stack"]


def test_a_line_says_which_code_wrote_it(caplog: pytest.LogCaptureFixture) -> None:
    """As every other line of a log does."""
    LoggingTelemetry(VirtualClock(NOW_MS)).emit(_failed(KeyError("no such customer")))

    (record,) = caplog.records
    assert (record.module, record.funcName) == ("telemetry", "emit")


def test_an_error_that_cannot_be_shown_is_told_without_its_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its text and notes are user code, which a handler of the log would call."""
    LoggingTelemetry(VirtualClock(NOW_MS)).emit(_failed(Unshowable()))

    (record,) = caplog.records
    assert record.exc_info is None
    assert "error=Unshowable error_message='its message cannot be shown'" in record.getMessage()


def test_a_system_task_that_fails_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """It waits for a server, and thousands of them do: the message says for which."""
    error = LogUnavailable("no broker answered")

    LoggingTelemetry(VirtualClock(NOW_MS)).emit(
        _failed(error, a_key(ordering_id="hourhand:relay:x"))
    )

    (record,) = caplog.records
    assert record.exc_info is None and "no broker answered" in record.getMessage()


def test_an_event_that_cannot_be_logged_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever tells it is in the middle of something; a handler of the log may be anybody's."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise SystemExit(record.getMessage())

    caplog.set_level(logging.INFO, "hourhand")
    log, broken = logging.getLogger("hourhand.task_executor"), Broken()
    log.addHandler(broken)
    try:
        LoggingTelemetry(VirtualClock(NOW_MS)).emit(_failed(ValueError("no")))
    finally:
        log.removeHandler(broken)


def test_a_line_break_in_an_event_makes_no_second_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ids and error texts come from outside; they may not forge a line."""
    caplog.set_level(logging.DEBUG, "hourhand")

    LoggingTelemetry(VirtualClock(NOW_MS)).emit(events.TreeRebuilt("a\nERROR forged", 1, 100))

    assert "\n" not in caplog.records[0].getMessage()
