"""Lines in JSON name the task they are about, and hold its data only when told to."""

import json
import logging
import threading

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.interruption import note_attempt
from hourhand.actors.model.operations import events
from hourhand.actors.model.task.status import AttemptResult
from hourhand.scheduler.adapters.telemetry import LoggingTelemetry
from hourhand.scheduler.cli.log_lines import JsonLines
from tests.builders import NOW_MS, a_key, a_stored_task


def lines(caplog: pytest.LogCaptureFixture, *, task_data: bool = False) -> list[dict[str, object]]:
    """Return what was logged, as JSON lines."""
    written = [JsonLines(task_data=task_data).format(record) for record in caplog.records]
    assert not [line for line in written if "\n" in line]
    return [json.loads(line) for line in written]


def test_a_line_about_a_task_names_it(caplog: pytest.LogCaptureFixture) -> None:
    """By its key and its ordering id, beside the event's own fields."""
    caplog.set_level(logging.DEBUG, "hourhand")

    LoggingTelemetry(VirtualClock(NOW_MS)).emit(
        events.AttemptStarted(3, a_key(ordering_id="a\nb"), 2, 15)
    )

    (line,) = lines(caplog)
    assert line["event"] == "AttemptStarted"
    assert line["ordering_id"] == "a\nb"
    assert line["key"] == str(a_key(ordering_id="a\nb"))
    assert (line["partition"], line["attempt"], line["delay_ms"]) == (3, 2, 15)


def test_user_code_need_not_say_which_task_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Its own lines are marked, by the thread or coroutine; without the data, unless told."""
    caplog.set_level(logging.INFO)
    attempt = Attempt(task=a_stored_task(data=b'{"card":"4111"}'), partition=3, epoch=1, number=2)

    def run() -> None:
        note_attempt(attempt)
        logging.getLogger("invoices").info("mailing")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(timeout=30)
    # Outside: the other thread's task is not this one's, and a JSON line of each kind.
    (line,) = _in_context(attempt, caplog, task_data=False)
    assert line["message"] == "mailing"
    assert line["ordering_id"] == "customer-7"
    assert line["attempt"] == 2
    assert "4111" not in json.dumps(line)
    (told,) = _in_context(attempt, caplog, task_data=True)
    assert told["task_data"] == {"card": "4111"}
    (elsewhere,) = lines(caplog)
    assert "ordering_id" not in elsewhere


def _in_context(
    attempt: Attempt, caplog: pytest.LogCaptureFixture, *, task_data: bool
) -> list[dict[str, object]]:
    """Format the lines where the attempt runs, as a handler does."""
    found: list[list[dict[str, object]]] = []

    def form() -> None:
        note_attempt(attempt)
        found.append(lines(caplog, task_data=task_data))

    thread = threading.Thread(target=form)
    thread.start()
    thread.join(timeout=30)
    return found[0]


def test_a_failed_attempt_is_one_line_with_its_error(caplog: pytest.LogCaptureFixture) -> None:
    """The fields have the names that they have for every other error."""
    try:
        raise KeyError("customer")
    except KeyError as error:
        failed = events.AttemptFailed(
            3, a_key(), 2, AttemptResult.FAILURE, 5, error, is_showable=True
        )

    LoggingTelemetry(VirtualClock(NOW_MS)).emit(failed)

    (line,) = lines(caplog)
    assert (line["event"], line["level"]) == ("AttemptFailed", "WARNING")
    assert (line["key"], line["attempt"]) == (str(a_key()), 2)
    assert (line["error"], line["error_message"]) == ("KeyError", "'customer'")
    assert 'raise KeyError("customer")' in str(line["stack"])


def test_an_error_is_one_line_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its text holds."""
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("hourhand.node").exception("a round failed")

    (line,) = lines(caplog)
    assert (line["error"], line["error_message"]) == ("ValueError", "a\nb")
    assert "test_log_lines" in str(line["stack"])


def test_a_line_of_several_processes_says_which_it_is_from() -> None:
    """Their streams are one."""
    record = logging.LogRecord("hourhand.node", logging.INFO, "", 0, "ready", None, None)

    assert json.loads(JsonLines(process=2).format(record))["process"] == 2
    assert "process" not in json.loads(JsonLines().format(record))
