"""The figures of the demonstration, as text."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from hourhand.scheduler.demo.audit import Lateness


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


def show_figures(console: Console, figures: Figures) -> None:
    """Print the figures."""
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
