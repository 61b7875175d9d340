"""Shows a verdict: the table of requirements, the faults, lateness, and each excused attempt."""

from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table

from tests.chaos.measures import Lateness, Measures
from tests.chaos.verdict import Verdict

_EXCUSED_MAX = 200


def show(console: Console, verdict: Verdict) -> None:
    """Print all of it."""
    _show_checks(console, verdict)
    _show_faults(console, verdict.measures)
    _show_lateness(console, verdict.measures)
    _show_excused(console, verdict)
    broken = sum(not check.holds for check in verdict.checks)
    console.print(
        f"[bold red]{broken} of {len(verdict.checks)} requirements failed[/]"
        if broken
        else f"[bold green]All {len(verdict.checks)} requirements are met.[/]"
    )


def _show_checks(console: Console, verdict: Verdict) -> None:
    found = verdict.findings
    title = (
        f"The audit: {found.offered:,} tasks offered, {found.accepted:,} accepted,"
        f" {found.refused:,} refused, {found.unknown:,} unknown, {found.attempts:,} attempts,"
        f" {verdict.seconds:.0f} s, seed {verdict.chaos.seed}"
    )
    table = _table(title, "requirement", "required", "seen", "excused", "")
    for check in verdict.checks:
        mark = "[green]✓[/]" if check.holds else "[bold red]✗[/]"
        table.add_row(check.what, check.required, check.seen, str(check.excused or ""), mark)
    console.print(table)
    for check in verdict.checks:
        for detail in check.details if not check.holds else ():
            console.print(f"  {check.what}: {detail}", markup=False, highlight=False)


def _show_faults(console: Console, measures: Measures) -> None:
    table = _table(
        "The faults", "fault", "struck", "lasted", "recovery", "longest idle", "caught up after"
    )
    for each in measures.recoveries:
        fault = each.fault
        table.add_row(
            fault.kind,
            fault.target,
            f"{(fault.back_us - fault.from_us) / 1e6:.1f} s",
            f"{each.longest_s:.2f} s",
            f"{each.idle_s:.2f} s",
            f"{each.caught_up_s:.1f} s",
        )
    console.print(table)


def _show_lateness(console: Console, measures: Measures) -> None:
    table = _table("Lateness of plain tasks", "", "tasks", "p50", "p99", "p99.9", "max")
    for name, late in (("without faults", measures.quiet), ("with faults", measures.disturbed)):
        if late is not None:
            table.add_row(name, f"{late.count:,}", *_shown(late))
    console.print(table)


def _shown(late: Lateness) -> list[str]:
    return [f"{each:,.1f} ms" for each in (late.p50_ms, late.p99_ms, late.p999_ms, late.max_ms)]


def _show_excused(console: Console, verdict: Verdict) -> None:
    excused = list(verdict.excused)
    if excused:
        console.print(f"[bold]Excused, {len(excused)} in all:[/]")
    for kind, finding in excused[:_EXCUSED_MAX]:
        console.print(f"  {kind}: {finding.told}: {finding.cause}", markup=False, highlight=False)
    if len(excused) > _EXCUSED_MAX:
        console.print("  (all of them are in the JSON file)")


def _table(title: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_style="bold", title_justify="left")
    for name in columns:
        justify: Literal["left", "right"] = "right" if table.columns else "left"
        table.add_column(name, no_wrap=True, justify=justify)
    return table
