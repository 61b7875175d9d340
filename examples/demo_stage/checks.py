"""Checks of a demonstration, and the table that shows them.

Decides how a check is told, and never what a demonstration promises.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.console import Console
from rich.table import Table

DETAILS_MAX = 5


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, what it demands and what was seen."""

    what: str
    expected: str
    seen: str
    holds: bool
    details: Sequence[str] = ()
    """The first things that speak against it."""


def number_check(what: str, expected: int, seen: int, against: Iterable[object] = ()) -> Check:
    """Return the check that a number is the expected one; ``against`` names what makes it wrong."""
    details = [str(each) for each in against][:DETAILS_MAX]
    return Check(what, f"{expected:,}", f"{seen:,}", seen == expected, details)


def count_check(what: str, found: Iterable[object], expected: int = 0) -> Check:
    """Return the check that so many were found."""
    every = list(found)
    return number_check(what, expected, len(every), every)


def show_checks(console: Console, title: str, checks: Sequence[Check]) -> bool:
    """Print table, faults and verdict; return whether all checks hold."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_style="bold", title_justify="left")
    table.add_column("check", no_wrap=True)
    for name in ("expected", "seen"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for check in checks:
        verdict = "[green]✓[/]" if check.holds else "[bold red]✗[/]"
        table.add_row(check.what, check.expected, check.seen, verdict)
    console.print()
    console.print(table)
    for check in checks:
        for detail in () if check.holds else check.details[:DETAILS_MAX]:
            console.print(f"  {check.what}: {detail}", markup=False, highlight=False)
    broken = sum(not check.holds for check in checks)
    console.print(
        f"[bold red]{broken} of {len(checks)} checks failed[/]"
        if broken
        else f"[bold green]All {len(checks)} checks hold.[/]"
    )
    return not broken


def print_json(checks: Sequence[Check], **more: object) -> None:
    """Print checks, and more values by name, as one line of JSON."""
    holds = all(check.holds for check in checks)
    value = {"holds": holds, "checks": [asdict(check) for check in checks], **more}
    print(json.dumps(value, separators=(",", ":")))
