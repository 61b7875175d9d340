"""Parts that the operators' commands share: an opened service, a name for the audit log, a
question.

Nothing is done in bulk before the person saw the count and agreed.
"""

import getpass
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.values.display import printable_text
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.scheduler.admin.acting import Action, ActReport, TasksActedOn, Tried
from hourhand.scheduler.admin.outcome_words import words_of
from hourhand.scheduler.admin.problems import Problem
from hourhand.scheduler.admin.recurring import SchedulesChanged
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.admin.timers import TimersEnded
from hourhand.scheduler.cli.failing import EXIT_CALLER, EXIT_UNDECIDED, UNKNOWN_KEY, say, say_error
from hourhand.scheduler.cli.rendering import as_json, facts_of
from hourhand.scheduler.cli.session import (
    CommandOptions,
    ResultOptions,
    command_session,
    require_installation,
)
from hourhand.scheduler.cli.text_output import print_text
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.wiring import open_installation

_SHOWN_MAX = 20
_UNDECIDED = "undecided"
_ACHIEVED = frozenset({"applied", "running", "cancelled", "deleted", "replayed"})

ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Reason for the audit log.")
]


@dataclass(frozen=True, kw_only=True)
class ActOptions(ResultOptions):
    """The options of a command that changes something."""

    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False
    reason: ReasonOption = ""


@contextmanager
def operator_service(settings: Settings, *, may_create: bool = False) -> Iterator[AdminService]:
    """Open an existing installation; a refused request is printed as the caller's fault, in one
    line.
    """
    if not may_create:
        require_installation(settings)
    service = AdminService(open_installation(settings))
    try:
        yield service
    except Problem as problem:
        raise InvalidInput(problem.detail) from None
    except TimeoutError:
        raise InvalidInput("the store did not answer in time; try again") from None
    finally:
        service.close()


@contextmanager
def operator_session(common: CommandOptions) -> Iterator[AdminService]:
    """Hand an opened installation to a command, and end the program with the exit code of its
    errors.
    """
    with (
        command_session(common) as settings,
        operator_service(settings) as service,
    ):
        yield service


def whoever_runs_this() -> str:
    """Return the user's name for the audit log."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"cli:{user}@{platform.node()}"


def agreed(count: int, what: str, *, yes: bool) -> None:
    """Ask for confirmation of the count; InvalidInput where standard input is not a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(f"this would {what} ({count}): pass --yes to do it without being asked")
    typer.confirm(printable_text(f"{what} ({count})?"), abort=True, err=True)


def act_on_tasks(
    service: AdminService,
    action: Action,
    keys: Sequence[TaskKey | TaskPair],
    to: datetime | None,
    reason: str,
    *,
    wait_s: float,
) -> list[Tried]:
    """Send a command for each task, after an entry in the audit log."""
    target = str(keys[0]) if len(keys) == 1 else f"{len(keys)} tasks"
    shown = [str(key) for key in keys[:_SHOWN_MAX]]
    moved = {} if to is None else {"to": to.isoformat()}

    def act() -> tuple[list[Tried], str]:
        tried = service.actions.act(action, keys, to, wait_s)
        return tried, TasksActedOn.of(tried, action.value).words

    detail = {"count": len(keys), "keys": shown, **moved, "reason": reason}
    return service.audit.audited(whoever_runs_this(), action.value, target, detail, act)


def exit_for(outcomes: Mapping[str, int], *, waited: bool = True) -> None:
    """End the program by the outcomes of an act: 2 if any was refused, 4 if any is undecided.

    ``waited``: False if the outcomes were not asked for.
    """
    refused = sorted(set(outcomes) - _ACHIEVED - {_UNDECIDED})
    if refused:
        say("not everything was done")
        raise typer.Exit(EXIT_CALLER)
    if waited and _UNDECIDED in outcomes:
        say("no node decided all of them in time (is one running?); the commands stay in the log")
        raise typer.Exit(EXIT_UNDECIDED)


def print_report(report: ActReport, action: str) -> None:
    """Print the outcomes in sentences, and suggest the next command."""
    print_text("\n".join(report.said) or "no task was found to act on")
    for outcome in report.outcomes:
        if next_step := words_of(action, outcome).next_step:
            say(next_step)


@dataclass(frozen=True, slots=True)
class NamedAct:
    """An act on things with names: schedules, timers, messages."""

    action: str
    many: str
    """The plural of the thing's name."""
    known: Sequence[str]
    unknown: Sequence[str]
    act: Callable[[], TasksActedOn | SchedulesChanged | TimersEnded]
    waited: bool = True
    """True if the command waits for outcomes."""

    def run(self, service: AdminService, given: ActOptions) -> None:
        """Run the act after confirmation and print its outcomes; exit 2 if a name is unknown."""
        report: TasksActedOn | SchedulesChanged | TimersEnded = TasksActedOn.of([], "")
        if len(self.known) > 1:
            agreed(len(self.known), f"{self.action} these {self.many}", yes=given.yes)
        if self.known:
            report = service.audit.audited_report(
                whoever_runs_this(), (self.action, self.many), self.known, given.reason, self.act
            )
        report = replace(report, unknown=list(self.unknown))
        if given.wants_json:
            typer.echo(as_json(report))
        elif self.known:
            print_report(report, self.action)
        for each in map(facts_of, report.results):
            if "detail" in each:
                say(f"{each.get('name') or each.get('key')}: {each['detail']}")
        if self.unknown:
            named = ", ".join(map(repr, self.unknown[:5]))
            message = f"there are no {self.many} of this name in this installation: {named}"
            say_error(message, UNKNOWN_KEY, EXIT_CALLER)
        if self.unknown:
            raise typer.Exit(EXIT_CALLER)
        exit_for(report.outcomes, waited=self.waited)
