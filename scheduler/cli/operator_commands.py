"""Commands of ``hourhand`` that do not act on single tasks: pause, resume, rewind.

``rewind`` is for a store that lost rows: the log is read again. Every act is written to the audit
log, as the admin API's acts are.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from collections.abc import Mapping
from typing import Annotated

import typer

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import PauseScope
from hourhand.actors.model.values.errors import InvalidInput, InvalidTask
from hourhand.actors.ports.log import GroupOffsets
from hourhand.scheduler import wiring
from hourhand.scheduler.admin import rewinding
from hourhand.scheduler.admin.pausing import CHANGED_WORDS, ShownPauses, Target, target_words
from hourhand.scheduler.admin.rewinding import Rewinding
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.failing import say
from hourhand.scheduler.cli.listings import print_listing
from hourhand.scheduler.cli.operating import (
    ActOptions,
    agreed,
    operator_session,
    whoever_runs_this,
)

_SHOWN_MAX = 20
_WAIT_S = 10.0

PartitionOption = Annotated[int | None, typer.Option(min=0, metavar="N", help="One partition.")]
OrderingOption = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="One ordering id; repeatable.")
]
IdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ORDERING_ID", help="Ordering ids, as --ordering-id names them."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Everything.")]


def pause(
    ordering_ids: IdsArgument = None,
    *,
    everything: AllOption = False,
    partition: PartitionOption = None,
    ordering_id: OrderingOption = None,
    common: ActOptions,
) -> None:
    """Pause everything, a partition or ordering ids; or list pauses.

    Without any of these it lists what is paused.  Every node knows within a second.  A
    pause lasts until it is resumed, even over restarts.  Attempts that run may end; none starts.

    \b
    Examples:
      hourhand pause
      hourhand pause customer-7 --reason "bad address"
      hourhand pause --all --yes
    """
    with operator_session(common) as service:
        named = [*(ordering_ids or ()), *(ordering_id or ())]
        targets = _targets(service, partition, named, everything=everything)
        if targets:
            before = change_pauses(service, "pause", targets, common.reason, yes=common.yes)
            _say_changes(targets, before, "paused", "was paused already")
        _print_pauses(service, common)


def resume(
    ordering_ids: IdsArgument = None,
    *,
    everything: AllOption = False,
    partition: PartitionOption = None,
    ordering_id: OrderingOption = None,
    common: ActOptions,
) -> None:
    """Resume what was paused.

    Each pause is resumed by its own name: `resume --all` does not resume an ordering id that was
    paused by itself.

    \b
    Examples:
      hourhand resume --all
      hourhand resume customer-7
    """
    with operator_session(common) as service:
        named = [*(ordering_ids or ()), *(ordering_id or ())]
        targets = _targets(service, partition, named, everything=everything)
        if not targets:
            raise InvalidTask("name what to resume: --all, --partition or ordering ids")
        before = change_pauses(service, "resume", targets, common.reason, yes=common.yes)
        _say_changes(targets, before, "was not paused", "resumed")
        _print_pauses(service, common)


def _targets(
    service: AdminService,
    partition: int | None,
    ordering_ids: list[str],
    *,
    everything: bool,
) -> list[Target]:
    found = [service.pauses.target(PauseScope.ORDERING, None, each) for each in ordering_ids]
    if partition is not None:
        found.append(service.pauses.target(PauseScope.PARTITION, partition, None))
    if everything:
        found.append(service.pauses.target(PauseScope.ALL, None, None))
    return found


def change_pauses(
    service: AdminService,
    action: str,
    targets: list[Target],
    reason: str,
    *,
    yes: bool,
) -> set[Target]:
    """Change the operator config; return the targets that were paused before."""
    pauses = service.pauses.config().pauses
    before = {(each.scope, each.partition, each.ordering_id) for each in pauses}
    if len(targets) > 1 or any(scope is not PauseScope.ORDERING for scope, _, _ in targets):
        partitions = service.partition_count if PauseScope.ALL in [t[0] for t in targets] else 1
        agreed(partitions, f"{action} {', '.join(t[0] for t in targets[:5])}", yes=yes)
    who = whoever_runs_this()

    def act() -> tuple[OperatorConfig, str]:
        change = service.pauses
        config = change.pause(targets, who, reason) if action == "pause" else change.resume(targets)
        return config, CHANGED_WORDS[action]

    told = [{"scope": s.value, "partition": p, "orderingId": o} for s, p, o in targets]
    detail = {"targets": told[:_SHOWN_MAX], "reason": reason}
    service.audit.audited(who, action, target_words(targets), detail, act)
    return before & set(targets)


def _say_changes(targets: list[Target], before: set[Target], absent: str, present: str) -> None:
    """Print each target's change, which depends on whether it was paused before."""
    for target in targets[:_SHOWN_MAX]:
        say(f"{target_words([target])}: {present if target in before else absent}")


def _print_pauses(service: AdminService, common: ActOptions) -> None:
    found = ShownPauses.of(service.pauses.config())
    columns = ("scope", "partition", "orderingId", "since", "who", "reason")
    print_listing(common, found, found.pauses, columns, none="nothing is paused")


def rewind(
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="OFFSETS|TIME", help="0:1200,3:7; or a time: RFC 3339, -2h; or earliest."
        ),
    ],
    forward: Annotated[
        bool, typer.Option("--forward", help="Allow skipping records that were never read.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the effect without doing it.")
    ] = False,
    common: ActOptions,
) -> None:
    """Read the log again from an earlier offset, after a data loss.

    For a store that lost rows it had acknowledged.  All nodes must be stopped.  Records that are
    read again are stored again.  A task that was done does not run again as long as its completion
    is kept.

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
        moving = Rewinding(offsets, service.stores.ownership, service.clock)
        wanted = _wanted(to, offsets, service.clock.now_ms())
        moves = moving.plan(wanted, forward=forward)
        if moves and not dry_run:
            again = sum(max(0, each.before - each.after) for each in moves)
            say(f"{again} records are read again; tasks whose completion is kept do not run again")
            agreed(len(moves), "set the place of every named partition", yes=common.yes)
            places = ",".join(f"{each.partition}:{each.after}" for each in moves)
            detail = {"to": to, "places": places, "reason": common.reason}
            who, target = whoever_runs_this(), f"{len(moves)} partitions"
            service.audit.audited(who, "rewind", target, detail, lambda: moving.move(moves))
        columns, none = ("partition", "before", "after"), "every partition is already at that place"
        print_listing(common, {"moves": moves}, moves, columns, none=none)


def _wanted(to: str, offsets: GroupOffsets, now_ms: int) -> Mapping[int, int]:
    if to == "earliest":
        return {partition: first for partition, (first, _) in offsets.bounds().items()}
    places = rewinding.parse_places(to)
    return offsets.since(task_input.parse_moment_ms(to, now_ms)) if places is None else places
