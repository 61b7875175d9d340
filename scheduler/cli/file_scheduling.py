"""Scheduling a whole file of tasks, for ``hourhand schedule --from-file``.

Decides what is said while it goes on: progress, and the first bad lines and refused tasks.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import typer

from actors.model.errors import HourhandError, InvalidTask
from actors.model.task import Task
from actors.ports.clock import Clock
from scheduler import wiring
from scheduler.cli import task_input
from scheduler.cli.rendering import OutputFormat, as_json
from scheduler.cli.session import EXIT_CALLER, say
from scheduler.client.client import SchedulerClient
from scheduler.configuration.settings import Settings

_PROGRESS_MS = 1_000
_LINES_SHOWN_MAX = 20


def schedule_file(settings: Settings, name: str, output: OutputFormat) -> None:
    """Schedule every task of a file (``-``: standard input); exit 2 where any is refused."""
    invalid_lines = 0

    def on_invalid(number: int, error: HourhandError) -> None:
        nonlocal invalid_lines
        invalid_lines += 1
        if invalid_lines <= _LINES_SHOWN_MAX:
            say(f"line {number} is no task: {error}")

    shown = 0

    def on_rejected(task: Task, error: HourhandError) -> None:
        nonlocal shown
        shown += 1
        if shown <= _LINES_SHOWN_MAX:
            say(f"{task.key} is rejected: {error} [{error.code}]")

    with _opened(name) as lines, SchedulerClient(settings) as client:
        tasks = _with_progress(task_input.read_tasks(lines, on_invalid), wiring.open_clock())
        result = client.schedule_tasks(tasks, on_rejected)
    rejected = result.rejected_count + invalid_lines
    if output is OutputFormat.JSON:
        typer.echo(as_json({"accepted": result.accepted, "rejected": rejected}))
    else:
        typer.echo(f"accepted {result.accepted}, rejected {rejected}")
    if result.interrupted_by is not None:
        raise result.interrupted_by
    if rejected:
        raise typer.Exit(EXIT_CALLER)


def _opened(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidTask(f"cannot read {name!r}: {reason}") from None


def _with_progress(tasks: Iterator[Task], clock: Clock) -> Iterator[Task]:
    """Say once a second how many tasks were read: silence for an hour looks like a hang."""
    said_ms = clock.monotonic_ms()
    for count, task in enumerate(tasks, start=1):
        yield task
        if count % 1_000 == 0 and clock.monotonic_ms() - said_ms >= _PROGRESS_MS:
            said_ms = clock.monotonic_ms()
            say(f"{count} tasks read")
