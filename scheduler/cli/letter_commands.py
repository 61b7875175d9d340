"""The command of ``hourhand`` that lists dead letters and brings their tasks back.

It shows the number of letters before it brings many back. Every replay is written to the audit log,
as the admin API's acts are.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from dataclasses import dataclass
from typing import Annotated

import typer

from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.ports.log import Position
from hourhand.scheduler.admin.acting import Preview
from hourhand.scheduler.admin.dead_letters import (
    LetterFilter,
    Replayed,
    letters_target,
    parse_places,
    place_text,
)
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.failing import say
from hourhand.scheduler.cli.listings import print_listing
from hourhand.scheduler.cli.operating import (
    ActOptions,
    agreed,
    exit_for,
    operator_session,
    print_report,
    whoever_runs_this,
)
from hourhand.scheduler.cli.rendering import as_json, facts_of
from hourhand.scheduler.cli.task_commands import WaitOption
from hourhand.scheduler.cli.task_text import cut_error
from hourhand.scheduler.cli.text_output import print_rows

_SHOWN_MAX = 20


@dataclass(frozen=True, kw_only=True)
class LetterOptions(ActOptions):
    """The filter for the dead letters that are listed, and the choice of those to bring back."""

    limit: Annotated[
        int, typer.Option(min=1, max=200, metavar="N", help="Most dead letters to list.")
    ] = 20
    before: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Cursor from the previous page.")
    ] = None
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only tasks of this kind.")] = (
        None
    )
    error_class: Annotated[
        str | None,
        typer.Option(
            "--error",
            metavar="CLASS",
            help="Only tasks whose last attempt raised this error class.",
        ),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Put aside at this time or later: RFC 3339, -2h."
        ),
    ] = None
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Put aside before this time: RFC 3339, -1h."),
    ] = None
    replay: Annotated[
        list[str] | None,
        typer.Option(metavar="PLACE", help="Bring back the task of this one; repeatable."),
    ] = None
    replay_all: Annotated[
        bool,
        typer.Option(
            "--replay-all", help="Bring back the tasks of all of them after a confirmation."
        ),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how many --replay-all concerns, and the first.")
    ] = False
    wait: WaitOption = 5

    def chosen(self, now_ms: int) -> LetterFilter:
        """Return the filter for letters; InvalidInput where a time cannot be read."""
        from_ms, to_ms = (
            None if each is None else task_input.parse_moment_ms(each, now_ms)
            for each in (self.start, self.end)
        )
        if from_ms is not None and to_ms is not None and from_ms >= to_ms:
            raise InvalidInput(f"--from {self.start} must be before --to {self.end}")
        kinds = frozenset() if self.kind is None else frozenset({self.kind})
        return LetterFilter(from_ms=from_ms, to_ms=to_ms, kinds=kinds, error_class=self.error_class)


def dead_letters(*, given: LetterOptions) -> None:
    """List dead letters, or bring their tasks back.

    A dead letter is a record that could not be processed, or a task that used up its attempts;
    newest first.  A replay opens the key of a failed task again with the data of its letter, and
    prints what its node made of it: replayed, or running, still_open, ran_already and
    already_closed, which change nothing, or undecided while no node has read it.  With
    --replay-all the newest letter of each task, without those that since ended well, or were
    cancelled, moved or brought back.

    Exit code 2 if one was not replayed, 4 if no node decided in time.

    \b
    Examples:
      hourhand dead-letters
      hourhand dead-letters --replay 0:12 --replay 0:13
      hourhand dead-letters --kind mail --error SMTPError --from -2d --replay-all --dry-run
    """
    with operator_session(given) as service:
        chosen = given.chosen(service.clock.now_ms())
        if given.replay and given.replay_all:
            raise InvalidInput(
                "--replay names letters and --replay-all takes all: give one of them"
            )
        if given.replay:
            _replay(service, parse_places(given.replay), given)
        elif given.replay_all or given.dry_run:
            keys_max = service.settings.admin.bulk_keys_max
            _replay_all(service, service.dead_letters.selected(chosen, keys_max), given)
        else:
            _list_letters(service, chosen, given)


def _list_letters(service: AdminService, chosen: LetterFilter, given: LetterOptions) -> None:
    data = service.settings.admin.show_data
    page = service.dead_letters.listing(given.before, given.limit, chosen, data=data)
    rows = [{**facts_of(each), "error": cut_error(each.error or "")} for each in page.letters]
    columns = ("place", "time", "replayable", "key", "kind", "ended", "reason", "error")
    following = f"--before {page.next_before}" if page.next_before else ""
    none = "no dead letters here" if following else "there are no dead letters"
    print_listing(given, page, rows, columns, none=none, following=following)


def _replay_all(service: AdminService, places: list[Position], given: LetterOptions) -> None:
    preview = Preview.of([place_text(each) for each in places])
    if given.dry_run and given.wants_json:
        typer.echo(as_json(preview))
    elif given.dry_run or not places:
        first = f": {', '.join(preview.first)}" if preview.first else ""
        say(f"{preview.count} letters can be brought back{first}")
    else:
        _replay(service, places, given)


def _replay(service: AdminService, places: list[Position], given: LetterOptions) -> None:
    places = list(dict.fromkeys(places))
    if len(places) > 1:
        agreed(len(places), "bring back the tasks of these letters", yes=given.yes)

    def act() -> tuple[Replayed, str]:
        report = service.dead_letters.replay(places, given.wait)
        return report, report.words

    texts = [place_text(each) for each in places]
    detail = {"count": len(texts), "places": texts[:_SHOWN_MAX], "reason": given.reason}
    who, target = whoever_runs_this(), letters_target(texts)
    report = service.audit.audited(who, "replay", target, detail, act)
    if given.wants_json:
        typer.echo(as_json(report))
    else:
        if len(report.results) <= _SHOWN_MAX:
            print_rows(report.results, ("place", "outcome", "detail"))
        print_report(report, "replay")
    exit_for(report.outcomes, waited=bool(given.wait))
