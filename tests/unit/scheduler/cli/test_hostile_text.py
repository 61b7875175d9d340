"""Text from outside acts on no terminal, and passes for no line of a log or of an answer."""

import ast
import io
import logging
import sys
from pathlib import Path

import pytest

import hourhand.scheduler.cli
from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.events import AttemptFailed
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.values.display import log_raised
from hourhand.scheduler.adapters.observing.probe_server import _as_text
from hourhand.scheduler.adapters.telemetry import LoggingTelemetry
from hourhand.scheduler.cli.failing import reported_errors, say, say_error
from hourhand.scheduler.cli.log_lines import TextLines
from hourhand.scheduler.cli.sql_commands import RowFormat, _printed
from hourhand.scheduler.cli.sql_database import QueryAnswer
from hourhand.scheduler.cli.text_output import cell_of, coloured, print_text
from hourhand.scheduler.observe.health import Check
from tests.builders import NOW_MS, a_key

FORGED = "2026-01-01 00:00:00,000 INFO    hourhand.node all is well"
HOSTILE = f"\x1b[2J\x1b]0;owned\x07\x9b31m\r\x00\u2028\u202e\n{FORGED}"
ACTING = "\x1b\x07\x9b\r\x00\u2028\u202e"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _requires_harmless(text: str) -> None:
    assert not [char for char in ACTING if char in text], ascii(text)
    assert FORGED not in text.splitlines()
    assert "all is well" in text


def _failure() -> Exception:
    """Return an error that was raised, with a note and a cause."""
    try:
        try:
            raise KeyError(HOSTILE)
        except KeyError as error:
            raise ValueError(HOSTILE) from error
    except ValueError as error:
        error.add_note(HOSTILE)
        return error


def _log_message(logger: logging.Logger) -> None:
    logger.warning("row 3 became a dead letter: %s", _failure())


def _log_error(logger: logging.Logger) -> None:
    logger.error("a round failed", exc_info=_failure())


def _log_stack_of_caller(logger: logging.Logger) -> None:
    record = logger.makeRecord(logger.name, logging.ERROR, "", 0, "all is well", (), None)
    record.stack_info = HOSTILE
    logger.handle(record)


def _log_text_of_another_formatter(logger: logging.Logger) -> None:
    error = _failure()
    record = logger.makeRecord(
        logger.name, logging.ERROR, "", 0, "failed", (), (type(error), error, error.__traceback__)
    )
    logging.Formatter().format(record)
    assert record.exc_text
    logger.handle(record)


def _raise_and_log(logger: logging.Logger) -> None:
    try:
        raise _failure()
    except ValueError:
        log_raised(logger, "user code raised in %s", HOSTILE.replace("\n", "\x1b"))


def _fail_attempt(logger: logging.Logger) -> None:
    stack = f"Traceback (most recent call last):\n  File\nValueError: {HOSTILE}"
    key = a_key(ordering_id=HOSTILE)
    LoggingTelemetry(VirtualClock(NOW_MS)).emit(
        AttemptFailed(
            3, key, 1, AttemptResult.FAILURE, 5, _failure(), is_showable=True, stack=stack
        )
    )


_LOGGED = [
    _log_message,
    _log_error,
    _log_stack_of_caller,
    _log_text_of_another_formatter,
    _raise_and_log,
    _fail_attempt,
]


@pytest.mark.parametrize("log", _LOGGED)
def test_no_text_of_an_error_acts_or_forges_a_line_of_the_log(log: object) -> None:
    """Messages, stacks, notes, causes and ids."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(TextLines("%(asctime)s %(levelname)-7s %(name)s %(message)s"))
    logger = logging.getLogger("hourhand.task_executor")
    logger.addHandler(handler)
    try:
        assert callable(log)
        log(logger)
    finally:
        logger.removeHandler(handler)

    line, *rest = written.getvalue().rstrip("\n").split("\n")
    _requires_harmless(written.getvalue())
    assert line.startswith("20")
    assert all(each.startswith("  ") for each in rest)


@pytest.mark.parametrize("log", [_raise_and_log, _fail_attempt])
def test_a_program_with_a_log_of_its_own_gets_stacks_that_forge_nothing(log: object) -> None:
    """What user code raised is formatted before any handler sees it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(name)s"))
    logger = logging.getLogger("hourhand.task_executor")
    logger.addHandler(handler)
    try:
        assert callable(log)
        log(logger)
    finally:
        logger.removeHandler(handler)

    _requires_harmless(written.getvalue())


def test_no_error_of_a_command_acts_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """With its trace or without."""
    say(HOSTILE)
    say_error(HOSTILE, "bug", 1)
    for debug in (False, True):
        with pytest.raises(Exception), reported_errors(debug=debug):  # noqa: B017, PT011
            raise _failure()
        printed = capsys.readouterr().err
        assert not [char for char in ACTING if char in printed], ascii(printed)
        assert "all is well" in printed


def test_results_for_people_keep_our_colours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a state, on a terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", _Terminal())
    word = coloured("failure", "failure")
    assert "\x1b" in word

    print_text(f"{word} {cell_of('names', [HOSTILE])} \x1b[8m\x1b[2J\x07")

    assert isinstance(sys.stdout, _Terminal)
    printed = sys.stdout.getvalue()
    assert printed.startswith(word)
    assert "\x1b" not in printed.removeprefix(word) and "\x07" not in printed


def test_csv_is_exact_in_a_file_and_cannot_act_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names of columns as well."""
    answer = QueryAnswer((HOSTILE,), [(HOSTILE,)], has_more=False)

    assert _printed(answer, RowFormat.CSV) == f'"{HOSTILE}"\n"{HOSTILE}"\n'
    monkeypatch.setattr(sys, "stdout", _Terminal())
    told = _printed(answer, RowFormat.CSV)
    _requires_harmless(told)
    assert told.count("\n") == 2


def test_health_in_text_is_a_line_for_each_check() -> None:
    """The detail may be a driver's error."""
    _, _, body = _as_text([Check("log", ok=False, detail=HOSTILE + "\udc80")])

    _requires_harmless(body.decode())
    assert body.count(b"\n") == 1


_PLAIN = {"as_json", "dumps", "get_help", "version_line", "_printed", "printable_text"}
_PLAIN |= {"printable_lines", "join", "line_text", "logged_stack"}


def test_every_command_prints_through_a_door_that_escapes() -> None:
    """Or JSON, whose encoding does."""
    found = []
    for path in Path(hourhand.scheduler.cli.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in ("echo", "print_exception") or not node.args:
                continue
            call = node.args[0]
            name = getattr(call, "func", None)
            said = getattr(name, "attr", getattr(name, "id", None))
            if said not in _PLAIN or (said == "join" and path.name != "text_output.py"):
                found.append(f"{path.name}:{node.lineno}")

    assert not found
