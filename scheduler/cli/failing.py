"""The end of a command that fails: its exit code and its lines on standard error.

Decides exit codes: 2 where the caller is at fault, 3 where the installation is, 1 for a bug, 4
where a command was sent and no node has decided yet. An error is one line on standard error with
its code, and a JSON object under ``-o json``; a trace is shown under ``--debug`` only.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import NoReturn

import typer

from hourhand.actors.model.values.display import printable_lines
from hourhand.actors.model.values.errors import CallerError, HourhandError, OperatorError
from hourhand.scheduler.cli.line_format import choose_line_format, line_text, says_json
from hourhand.scheduler.runtime.interrupts import EXIT_INTERRUPTED

EXIT_BUG = 1
EXIT_CALLER = 2
EXIT_OPERATOR = 3
EXIT_UNDECIDED = 4

UNKNOWN_KEY = "unknown-key"
"""Error code for a key that the store does not know; the admin API uses the same one."""

_errors_as_json: ContextVar[bool] = ContextVar("errors_as_json", default=False)


def choose_error_format(arguments: Sequence[str]) -> None:
    """Print errors as JSON from now on, if these arguments ask for JSON, or the log is JSON.

    Called before the arguments are parsed, because a usage error has a format too.
    """
    typed = [each.lower() for each in arguments]
    asked = not {("-o", "json"), ("--output", "json")}.isdisjoint(pairwise(typed))
    joined = not {"-ojson", "--output=json"}.isdisjoint(typed)
    _errors_as_json.set(asked or joined)
    choose_line_format(arguments)


@contextmanager
def reported_errors(*, debug: bool) -> Iterator[None]:
    """Turn errors into one line on standard error and an exit code."""
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except HourhandError as error:
        _fail(error, str(error), error.code, _exit_code(error), debug=debug)
    except Exception as error:  # noqa: BLE001 - the last handler before the user
        hint = "" if debug else "; run it again with --debug and report the trace"
        message = f"unexpected {type(error).__name__}: {error}"
        _fail(error, message, "bug", EXIT_BUG, debug=debug, hint=hint)


def _exit_code(error: HourhandError) -> int:
    if isinstance(error, CallerError):
        return EXIT_CALLER
    return EXIT_OPERATOR if isinstance(error, OperatorError) else EXIT_BUG


def _fail(
    error: Exception, message: str, code: str, exit_code: int, *, debug: bool, hint: str = ""
) -> NoReturn:
    trace = "".join(traceback.format_exception(error)).rstrip("\n") if debug else None
    if trace is not None and not says_json():
        typer.echo(printable_lines(trace), err=True)
    say_error(message, code, exit_code, hint, trace)
    raise typer.Exit(exit_code) from error


def say_error(
    message: str, code: str, exit_code: int, hint: str = "", trace: str | None = None
) -> None:
    """Print an error as one line, whatever the message holds; JSON has the trace in it."""
    line = " ".join(message.splitlines())
    if _errors_as_json.get():
        error = {"code": code, "message": line, "exitCode": exit_code}
        typer.echo(json.dumps({"error": error}, separators=(",", ":")), err=True)
    elif says_json():
        stack = {} if trace is None else {"stack": trace}
        fields = {"code": code, "exit_code": exit_code, **stack}
        typer.echo(line_text(f"{line}{hint}", level="ERROR", **fields), err=True)
    else:
        say(f"{line} [{code}]{hint}")


def say(line: str) -> None:
    """Print a line for the person on standard error, which results never use."""
    typer.echo(line_text(line), err=True)


def leave_at_once() -> None:
    """End the process without waiting for user code, which may never end."""
    say("stopped at once; attempts that were cut off will run again")
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_INTERRUPTED)
