"""``hourhand limits``: list, change and reset limits while nodes run.

Each change is written to the audit log; nodes read it from the store.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from dataclasses import dataclass
from typing import Annotated

import typer

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.admin.limit_settings import (
    ChangedLimits,
    LimitNumbers,
    LimitSetting,
    LimitSettings,
    NodeRate,
    ValueRate,
    limit_words,
)
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.failing import say
from hourhand.scheduler.cli.listings import print_listing
from hourhand.scheduler.cli.operating import (
    ActOptions,
    ReasonOption,
    agreed,
    operator_session,
    whoever_runs_this,
)
from hourhand.scheduler.cli.rendering import facts_of
from hourhand.scheduler.cli.session import Commands, ResultOptions
from hourhand.scheduler.cli.text_output import print_rows

app = Commands(
    no_args_is_help=True,
    help="Change how many tasks of a kind may start, while nodes run.",
)


@dataclass(frozen=True, kw_only=True)
class NumberOptions(ResultOptions):
    """The new numbers of a limit; absent ones stay unchanged."""

    rate: Annotated[
        float | None, typer.Option(min=0, metavar="N", help="Most starts in each --per.")
    ] = None
    rate_of: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE=N", help="The rate of one value of the limit's key: gold=80."),
    ] = None
    per: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The time of the rate: 1s, 1h.")
    ] = None
    burst: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Most starts at once after a pause.")
    ] = None
    concurrency: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Most tasks that run at the same time.")
    ] = None
    reason: ReasonOption = ""


@app.command("list")
def list_limits(
    *,
    common: ResultOptions,
) -> None:
    """List limits: what the code declares, and what holds.

    As nodes that run declare them.  An unused one was changed, and no node declares it.  Below it
    stands how much of each rate every node may start now: its share by the partitions it has, and
    what nodes without work lend to those where tasks wait.

    \b
    Example:
      hourhand limits list
    """
    with operator_session(common) as service:
        service.cluster.read()
        found = service.limits.settings()
        _print(found, common)
        if not common.wants_json:
            _print_rates(found)


@app.command("set")
def set_limit(
    name: Annotated[str, typer.Argument(metavar="LIMIT", help="The limit's name: mail#1.")],
    *,
    numbers: NumberOptions,
) -> None:
    """Change a limit until it is reset.

    Numbers that are not given stay unchanged.  Every node knows within a second.  The change
    outlives restarts.  Attempts that run may end.

    \b
    Examples:
      hourhand limits set mail#1 --rate 20 --reason "the provider is slow"
      hourhand limits set call#1 --rate-of gold=80
      hourhand limits set report#2 --concurrency 8
    """
    with operator_session(numbers) as service:
        per_ms = None if numbers.per is None else task_input.parse_duration_ms(numbers.per)
        change = LimitChange.of_numbers(
            name,
            numbers.rate,
            per_ms,
            numbers.burst,
            numbers.concurrency,
            _rates_of(numbers.rate_of or []),
        )
        service.cluster.read()
        who = whoever_runs_this()

        def act() -> tuple[ChangedLimits, str]:
            changed = service.limits.change(change, who, numbers.reason)
            return changed, changed.words

        detail = {**service.limits.planned(change), "reason": numbers.reason}
        changed = service.audit.audited(who, "limit", name, detail, act)
        say(f"{name}: {changed.words}")
        _print(service.limits.settings(changed.config), numbers)


@app.command()
def reset(
    names: Annotated[list[str], typer.Argument(metavar="LIMIT", help="Names of limits.")],
    *,
    common: ActOptions,
) -> None:
    """Have limits as the code declares them again.

    \b
    Example:
      hourhand limits reset mail#1
    """
    with operator_session(common) as service:
        service.cluster.read()
        if len(names) > 1:
            agreed(len(names), "reset these limits", yes=common.yes)

        def act() -> tuple[ChangedLimits, str]:
            changed = service.limits.reset(names)
            return changed, changed.words

        detail = {"limits": names, "reason": common.reason}
        changed = service.audit.audited(
            whoever_runs_this(), "reset limit", limit_words(names), detail, act
        )
        say(changed.words)
        _print(service.limits.settings(changed.config), common)


def _print(found: LimitSettings, common: ResultOptions) -> None:
    columns = ("limit", "state", "declared", "effective", "key", "since", "who", "reason")
    rows = [
        {
            **({} if each.changed is None else facts_of(each.changed)),
            "limit": each.limit,
            "state": each.state,
            "declared": _words(each.declared),
            "effective": _words(each.effective),
            "key": each.key,
        }
        for each in found.limits
    ]
    print_listing(common, found, rows, columns, none="no running node declares a limit")


def _print_rates(found: LimitSettings) -> None:
    """Print the number of starts that each node has of each rate, and the sums."""
    rows = [row for each in found.limits for rate in each.rates for row in _rate_rows(each, rate)]
    if rows:
        typer.echo()
        print_rows(rows, ("limit", "value", "node", "own", "lent", "borrowed", "starts"))


def _rate_rows(setting: LimitSetting, of: ValueRate) -> list[dict[str, object]]:
    assert setting.effective is not None, "only limits in effect have rates"
    per_s = (setting.effective.per_ms or 0) / 1_000
    value = "any other" if of.value is None else of.value
    nodes: list[tuple[str, NodeRate | ValueRate]] = [(each.node, each) for each in of.nodes]
    return [
        {
            "limit": setting.limit,
            "value": value,
            "node": node,
            "own": f"{each.own:.1%}",
            "lent": f"{each.lent:.1%}",
            "borrowed": f"{each.borrowed:.1%}",
            "starts": f"{each.rate:g} per {per_s:g} s",
        }
        for node, each in (*nodes, ("all", of))
    ]


def _rates_of(given: list[str]) -> dict[str, float]:
    """Read rates of single values; InvalidTask for one that is not VALUE=N, or is named twice."""
    rates: dict[str, float] = {}
    for each in given:
        value, equals, number = each.rpartition("=")
        if value in rates:
            raise InvalidTask(f"--rate-of names {shown(value)} twice: leave out one of them")
        try:
            rates[value] = float(number if equals else "")
        except ValueError:
            raise InvalidTask(
                f"--rate-of is {shown(each)}, a value and its rate are needed, such as gold=80"
            ) from None
    return rates


def _words(numbers: LimitNumbers | None) -> str | None:
    if numbers is None:
        return None
    said = []
    if numbers.rate is not None and numbers.per_ms is not None:
        said.append(f"{numbers.rate:g} per {numbers.per_ms / 1000:g} s, burst {numbers.burst}")
        said += [f"{rate:g} of {value}" for value, rate in numbers.rates.items()]
    if numbers.concurrency is not None:
        said.append(f"{numbers.concurrency} at once")
    return ", ".join(said)
