"""``hourhand rewind``: reads the log again, after a store lost rows; written to the audit log."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from collections.abc import Mapping
from typing import Annotated

import typer

from actors.model.errors import InvalidInput
from actors.ports.log import GroupOffsets
from scheduler import wiring
from scheduler.admin.rewinding import Move, Rewinding, parse_places
from scheduler.cli import task_input
from scheduler.cli.operating import (
    ReasonOption,
    YesOption,
    agreed,
    operator_session,
    print_rows,
    whoever_runs_this,
)
from scheduler.cli.rendering import OutputFormat, as_json
from scheduler.cli.session import CommandOptions, OutputOption, say


def rewind(
    *,
    to: Annotated[
        str,
        typer.Option(metavar="OFFSETS|TIME", help="As 0:1200,3:7 or RFC 3339, -2h; or earliest."),
    ],
    forward: Annotated[
        bool, typer.Option("--forward", help="Also past records that were never read.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would do.")] = False,
    yes: YesOption = False,
    reason: ReasonOption = "",
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Have the nodes, all of them stopped, read the log again from an earlier place.

    For a store that lost rows it had acknowledged.  Records read again are stored again; what was
    done stays done as long as its completion is kept, and where that is lost too it runs again.

    \b
    Examples:
      hourhand rewind --to 2026-02-09T01:00:00Z --dry-run
      hourhand rewind --to 0:1200,3:7 --yes --reason "the west was lost"
    """
    with operator_session(common) as service:
        if service.settings.log != "kafka":
            raise InvalidInput(
                "an embedded log lies beside its store: put a copy of the whole folder back"
            )
        offsets = wiring.open_group_offsets(service.settings)
        rewinding = Rewinding(offsets, service.stores.ownership, service.clock)
        wanted = _wanted(to, offsets, service.clock.now_ms())
        moves = rewinding.plan(wanted, forward=forward)
        if moves and not dry_run:
            again = sum(max(0, each.before - each.after) for each in moves)
            say(f"{again} records are read again; what was done stays done where that is kept")
            agreed(len(moves), "set the place of every partition named", yes=yes)
            places = ",".join(f"{each.partition}:{each.after}" for each in moves)
            detail = {"to": to, "places": places, "reason": reason}
            who, target = whoever_runs_this(), f"{len(moves)} partitions"
            service.audit.audited(who, "rewind", target, detail, lambda: rewinding.move(moves))
        _print(moves, output)


def _wanted(to: str, offsets: GroupOffsets, now_ms: int) -> Mapping[int, int]:
    if to == "earliest":
        return {partition: first for partition, (first, _) in offsets.bounds().items()}
    places = parse_places(to)
    return offsets.since(task_input.parse_moment_ms(to, now_ms)) if places is None else places


def _print(moves: list[Move], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        typer.echo(as_json({"moves": moves}))
    elif moves:
        print_rows(moves, ("partition", "before", "after"))
    else:
        say("every partition is at that place already")
