"""The screen of ``hourhand demo``: progress while it runs, then a table and a histogram.

On a terminal the progress is drawn in place; elsewhere it is a plain line at intervals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hourhand.scheduler.demo.audit import Findings, Lateness, Run

LATE_MS = 1_000
"""Delay from which a start counts as late on the screen."""
_EDGES_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_BAR_COLUMNS = 44
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PLAIN_EVERY_MS = 2_000.0
_SHOWN_MAX = 5
_RARE_FAULTS = frozenset({"unexpected", "unended", "fences"})
"""Shown only if there is one: they need an explanation that the others do not."""


@dataclass(frozen=True, slots=True)
class DemoProgress:
    """The progress of a run."""

    scheduled: int
    run: int
    retried: int
    late: int
    node: str
    """The node's activity, in a few words."""


class Screen:
    """Shows the progress of one run; a context manager."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, refresh_per_second=10, transient=True)
        self._plain_at_ms = 0.0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(text, highlight=False)

    def show(self, progress: DemoProgress, now_ms: float) -> None:
        """Show the progress of the run; ``now_ms`` only spaces out the plain lines."""
        if self.console.is_terminal:
            self._live.update(_panel(progress))
        elif now_ms >= self._plain_at_ms:
            self._plain_at_ms = now_ms + _PLAIN_EVERY_MS
            self.say(
                f"  scheduled {progress.scheduled}  run {progress.run}"
                f"  retried {progress.retried}  late {progress.late}  ({progress.node})"
            )


def _panel(progress: DemoProgress) -> Group:
    grid = Table.grid(padding=(0, 2))
    bar = ProgressBar(
        max(1, progress.scheduled),
        progress.run,
        width=40,
        complete_style="green",
        finished_style="green",
    )
    grid.add_row("    scheduled", f"[bold]{progress.scheduled:>6,}[/]", "")
    grid.add_row("    run", f"[bold]{progress.run:>6,}[/]", bar)
    grid.add_row("    retried", f"[bold]{progress.retried:>6,}[/]", "")
    grid.add_row(f"    late > {LATE_MS // 1000} s", f"[bold]{progress.late:>6,}[/]", "")
    return Group(Text(), grid, Text.from_markup(f"    node         {progress.node}"))


def findings_table(findings: Findings) -> Table:
    """Return the verdict, one line a promise."""
    table = _table("What the executors wrote down", "", "seen", "allowed", "")
    table.add_row("scheduled", f"{findings.scheduled:,}", "", "")
    ran_all = findings.run == findings.scheduled
    table.add_row("run", f"{findings.run:,}", f"{findings.scheduled:,}", _verdict(ran_all))
    table.add_row("retried", f"{findings.retried:,}", "", "")
    table.add_row("repeated: in flight at the kill", f"{len(findings.repeated):,}", "", "")
    for name, found in findings.faults.items():
        if found or name not in _RARE_FAULTS:
            label = f"{name}: for no reason" if name == "duplicates" else name
            table.add_row(label, f"{len(found):,}", "0", _verdict(not found))
    return table


def lateness_table(lines: Mapping[str, Lateness | None]) -> Table:
    """Return the lateness of several sets of tasks, one line each."""
    table = _table("How late tasks started", "", "tasks", "p50", "p99", "p99.9", "max")
    for name, late in lines.items():
        if late is not None:
            values = (late.p50_ms, late.p99_ms, late.p999_ms, late.max_ms)
            table.add_row(name, f"{late.count:,}", *map(_ms, values))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_style="bold", title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _verdict(holds: bool) -> str:  # noqa: FBT001 - the claim is the argument
    return "[green]✓[/]" if holds else "[bold red]✗[/]"


def _ms(value_ms: float) -> str:
    return f"{value_ms:.0f} ms" if value_ms < LATE_MS else f"{value_ms / 1000:.1f} s"


def verdict_line(findings: Findings, outage_s: float) -> str:
    """Return the run in one sentence."""
    if not findings.holds:
        return "[bold red]A promise was broken[/]: please report what is listed above.\n"
    return (
        f"[bold green]Nothing lost, nothing early[/], and {outage_s:.1f} s after the kill"
        " everything was on time again.\n"
    )


def fault_lines(findings: Findings) -> list[str]:
    """Return the first findings of each kind, a line each."""
    lines = []
    for name, found in findings.faults.items():
        lines += [f"{name}: {each}" for each in found[:_SHOWN_MAX]]
        if len(found) > _SHOWN_MAX:
            lines.append(f"{name}: and {len(found) - _SHOWN_MAX} more")
    return lines


def histogram(first: Sequence[Run]) -> Table:
    """Return the number of tasks by their delay; each step is about twice the previous one.

    Bars are square roots of the counts, or a few hundred starts after an outage would be invisible
    beside thousands on time.
    """
    counts = [0] * (len(_EDGES_MS) + 1)
    for run in first:
        late_ms = (run.started_us - run.due_us) / 1000
        counts[sum(late_ms >= edge for edge in _EDGES_MS)] += 1
    last = max(index for index, count in enumerate(counts) if count or index == 0)
    tallest = max(counts) ** 0.5
    grid = Table.grid(padding=(0, 1))
    grid.caption = "bars: square root of the number of tasks"
    grid.add_column(justify="right")
    grid.add_column()
    grid.add_column(justify="right")
    for index, count in enumerate(counts[: last + 1]):
        late = index < len(_EDGES_MS) and _EDGES_MS[index] <= LATE_MS
        bar = Text(_bar(count**0.5 / tallest), style="green" if late else "yellow")
        grid.add_row(f"  {_label(index)}", bar, f"{count:,}")
    return grid


def _label(index: int) -> str:
    if index == 0:
        return f"< {_ms(_EDGES_MS[0])}"
    if index == len(_EDGES_MS):
        return f"≥ {_ms(_EDGES_MS[-1])}"
    return f"{_ms(_EDGES_MS[index - 1])} - {_ms(_EDGES_MS[index])}"


def _bar(share: float) -> str:
    eighths = round(share * _BAR_COLUMNS * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
