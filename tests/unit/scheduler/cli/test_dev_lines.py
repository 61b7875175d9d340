"""The lines of ``hourhand dev``, from events as the node tells them."""

import io
import logging
from collections.abc import Iterator

import pytest
from rich.console import Console

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations import events
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.adapters.telemetry import LoggingTelemetry
from hourhand.scheduler.cli.dev_lines import DevLines, log_for_developer
from tests.builders import NOW_MS, a_key

LOGGER = logging.getLogger("hourhand")


@pytest.fixture
def shown() -> Iterator[io.StringIO]:
    """Return what a reader of the log sees."""
    text = io.StringIO()
    handler = DevLines(logging.INFO, Console(file=text, soft_wrap=True))
    before = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)


def lines(shown: io.StringIO) -> list[str]:
    """Return the lines without the time of day."""
    return [line if line[0] == " " else line[9:] for line in shown.getvalue().splitlines()]


def test_an_attempt_is_a_line_when_it_ends(shown: io.StringIO) -> None:
    """Its start and the node's own steps are not shown."""
    telemetry = LoggingTelemetry(VirtualClock(NOW_MS))
    telemetry.emit(events.AttemptStarted(0, a_key(), 1, 0))
    done = events.AttemptFinished(
        0, a_key(), 2, AttemptResult.SUCCESS, 3_000, NOW_MS, kind="send-invoice"
    )
    telemetry.emit(done)

    assert lines(shown) == [f"success  send-invoice {a_key()}, attempt 2 in 3 s"]


def test_tasks_of_hourhand_itself_are_no_news(shown: io.StringIO) -> None:
    """Unless they fail."""
    telemetry = LoggingTelemetry(VirtualClock(NOW_MS))
    tick = a_key(ordering_id="hourhand:recurring:nightly", uniqueness_key="tick")
    telemetry.emit(events.AttemptFinished(0, tick, 1, AttemptResult.SUCCESS, 3, NOW_MS))
    telemetry.emit(
        events.AttemptFailed(0, tick, 1, AttemptResult.FAILURE, 5, ValueError("no"), True, "", None)
    )

    (told,) = lines(shown)
    assert told.startswith("failure  task ") and told.endswith("tick: ValueError: no")


@pytest.mark.parametrize("result", [AttemptResult.FAILURE, AttemptResult.TIMEOUT])
def test_a_failed_attempt_is_told_once(shown: io.StringIO, result: AttemptResult) -> None:
    """With its error, and the stack of the user's code."""
    telemetry = LoggingTelemetry(VirtualClock(NOW_MS))
    error = ValueError("no\nsuch\x1b[2J invoice")
    stack = 'Traceback (most recent call last):\n  File "tasks.py", line 3\nValueError: no\n'
    telemetry.emit(events.AttemptFailed(0, a_key(), 1, result, 5, error, True, stack, "bill"))
    telemetry.emit(events.AttemptFinished(0, a_key(), 1, result, 5, NOW_MS, "ValueError", "bill"))

    first, *rest = lines(shown)
    assert first == f"{result.value:8} bill {a_key()}: ValueError: no\\nsuch\\x1b[2J invoice"
    assert rest == [f"  {line}" for line in stack.splitlines()]


def test_other_lines_are_shown_from_the_level_on(shown: io.StringIO) -> None:
    """Markup in a message is text."""
    LOGGER.debug("not for this reader")
    LOGGER.warning("[red]%s[/red]", "careful")
    LOGGER.info("works on %d partitions", 16)

    assert lines(shown) == ["warning  [red]careful[/red]", "info     works on 16 partitions"]


def test_an_unknown_level_is_refused() -> None:
    """As `hourhand run` refuses it."""
    with pytest.raises(SettingsInvalid, match="'loud' is not one of debug"):
        log_for_developer("loud")
