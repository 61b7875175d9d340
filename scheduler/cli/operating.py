"""What the operators' commands share: an opened service, a name for the audit log, a question.

Decides that nothing is done in bulk before its count was seen and agreed to.
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

from actors.model.display import printable_text
from actors.model.errors import InvalidInput
from actors.model.key import TaskKey, TaskPair
from scheduler.admin.acting import Action, ActReport, TasksActedOn, Tried
from scheduler.admin.outcome_words import words_of
from scheduler.admin.problems import Problem
from scheduler.admin.recurring import SchedulesChanged
from scheduler.admin.service import AdminService
from scheduler.admin.timers import TimersEnded
from scheduler.cli.failing import EXIT_CALLER, EXIT_UNDECIDED, UNKNOWN_KEY, say, say_error
from scheduler.cli.rendering import as_json, facts_of
from scheduler.cli.session import (
    CommandOptions,
    ResultOptions,
    command_session,
    require_installation,
)
from scheduler.cli.text_output import print_text
from scheduler.configuration.settings import Settings
from scheduler.wiring import open_installation

_SHOWN_MAX = 20
_UNDECIDED = "undecided"
_ACHIEVED = frozenset({"applied", "running", "deleted", "replayed"})

ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why: noted in the audit log.")
]


@dataclass(frozen=True, kw_only=True)
class ActOptions(ResultOptions):
    """The options of a command that does something to what there is."""

    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False
    reason: ReasonOption = ""


@contextmanager
def operator_service(settings: Settings, *, may_create: bool = False) -> Iterator[AdminService]:
    """Open an installation that is there; what is refused is the caller's fault, in one line."""
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
    """Hand an opened installation to a command, and end the program as its errors demand."""
    with (
        command_session(common) as settings,
        operator_service(settings) as service,
    ):
        yield service


def whoever_runs_this() -> str:
    """Return a name for the audit log."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"cli:{user}@{platform.node()}"


def agreed(count: int, what: str, *, yes: bool) -> None:
    """Ask whether that many are meant; InvalidInput where nobody can be asked."""
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
    """Send a command for each task, written down before it is sent."""
    target = str(keys[0]) if len(keys) == 1 else f"{len(keys)} tasks"
    shown = [str(key) for key in keys[:_SHOWN_MAX]]
    moved = {} if to is None else {"to": to.isoformat()}

    def act() -> tuple[list[Tried], str]:
        tried = service.actions.act(action, keys, to, wait_s)
        return tried, TasksActedOn.of(tried, action.value).words

    detail = {"count": len(keys), "keys": shown, **moved, "reason": reason}
    return service.audit.audited(whoever_runs_this(), action.value, target, detail, act)


def exit_for(outcomes: Mapping[str, int], *, waited: bool = True) -> None:
    """End the program by what an act came to: 2 where any was refused, 4 where any is undecided.

    ``waited``: whether the outcomes were asked for at all.
    """
    refused = sorted(set(outcomes) - _ACHIEVED - {_UNDECIDED})
    if refused:
        say("not all of it was done")
        raise typer.Exit(EXIT_CALLER)
    if waited and _UNDECIDED in outcomes:
        say("no node decided all of them in time (is one running?); the commands stay in the log")
        raise typer.Exit(EXIT_UNDECIDED)


def print_report(report: ActReport, action: str) -> None:
    """Print what became of many in sentences, and say what one may do next."""
    print_text("\n".join(report.said) or "nothing was found to do it to")
    for outcome in report.outcomes:
        if next_step := words_of(action, outcome).next_step:
            say(next_step)


@dataclass(frozen=True, slots=True)
class NamedAct:
    """Something to be done to what has names: schedules, timers, messages."""

    action: str
    many: str
    """A word for many of them."""
    known: Sequence[str]
    unknown: Sequence[str]
    act: Callable[[], TasksActedOn | SchedulesChanged | TimersEnded]
    waited: bool = True
    """Whether outcomes are waited for: if not, none is expected."""

    def run(self, service: AdminService, given: ActOptions) -> None:
        """Do it once that was agreed to, print what came of it; exit 2 where a name is unknown."""
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
