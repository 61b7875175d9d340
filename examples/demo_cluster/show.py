"""Output of the demonstration: what happens, then one line per check, then the figures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from hourhand.scheduler.demo.audit import Lateness


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, what it demands and what was seen."""

    what: str
    expected: str
    seen: str
    holds: bool
    details: Sequence[str] = ()
    """The first things that speak against it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """First figures; none of them is judged."""

    tasks: int
    burst_tasks_per_s: float
    """Tasks due at one moment, from that moment to the end of the last."""
    steady_per_s: int
    lateness: Lateness | None
    """Lateness of the tasks that came at ``steady_per_s``."""
    takeover_s: float | None
    """From the SIGKILL to the first start, on another node, in a partition of the killed one."""
    last_takeover_s: float | None
    """The same for the last of its partitions that had anything to run."""


def show(console: Console, checks: Sequence[Check], figures: Figures) -> None:
    """Print table, faults, figures and verdict."""
    _show_table(console, checks)
    _show_figures(console, figures)
    _show_verdict(console, checks)


def show_checks(console: Console, checks: Sequence[Check]) -> None:
    """Print table, faults and verdict."""
    _show_table(console, checks)
    _show_verdict(console, checks)


def _show_table(console: Console, checks: Sequence[Check]) -> None:
    table = Table(box=box.SIMPLE_HEAD, title="The audit", title_style="bold", title_justify="left")
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
        for detail in check.details if not check.holds else ():
            console.print(f"  {check.what}: {detail}", markup=False, highlight=False)


def _show_verdict(console: Console, checks: Sequence[Check]) -> None:
    broken = sum(not check.holds for check in checks)
    console.print(
        f"[bold red]{broken} of {len(checks)} checks failed[/]"
        if broken
        else f"[bold green]All {len(checks)} checks hold.[/]"
    )


def _show_figures(console: Console, figures: Figures) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_row("  end to end", f"[bold]{figures.burst_tasks_per_s:,.0f}[/] tasks/s")
    late = figures.lateness
    if late is not None:
        grid.add_row(
            f"  lateness at {figures.steady_per_s} tasks/s",
            f"p50 [bold]{late.p50_ms:.1f}[/] ms   p99 [bold]{late.p99_ms:.1f}[/] ms"
            f"   p99.9 [bold]{late.p999_ms:.1f}[/] ms",
        )
    if figures.takeover_s is not None:
        grid.add_row(
            "  SIGKILL to the first takeover",
            f"[bold]{figures.takeover_s:.1f}[/] s, to the last {figures.last_takeover_s:.1f} s",
        )
    console.print(grid)
    console.print()


def as_value(checks: Sequence[Check], figures: Figures) -> dict[str, object]:
    """Return all of it as one JSON value."""
    return {
        "holds": all(check.holds for check in checks),
        "checks": [asdict(check) for check in checks],
        "figures": asdict(figures),
    }
