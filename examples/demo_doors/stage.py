"""Common parts of both demonstrations: servers, nodes that die, a line a second, and a table.

Decides nothing about messages or timers, and nothing about what holds.
"""

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from examples.demo_cluster.executor import now_us
from examples.demo_cluster.installation import node_variables, open_installation
from examples.demo_cluster.show import Check
from hourhand import HourhandError, Settings
from hourhand.scheduler.demo.node import NodeFailed, NodeProcess, node_environment
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.process import ServerFailed
from tests.servers.termination import terminate_as_interrupt

READY_S = 60.0
_LOOK_S = 0.1


def wall_s() -> float:
    """Return the wall clock in seconds."""
    return now_us() / 1_000_000


class Stage:
    """One run: a console, a folder, settings, and the nodes of the group."""

    def __init__(self, console: Console, folder: Path, settings: Settings) -> None:
        self.console = console
        self.folder = folder
        self.settings = settings
        self.nodes: list[NodeProcess] = []
        self.started = 0
        self._pause = threading.Event()

    def say(self, text: str) -> None:
        """Tell what happens."""
        self.console.print(f"  [green]●[/] {text}", highlight=False)

    def start(
        self, count: int, command: Sequence[str], variables: Mapping[str, str], ready_line: str
    ) -> list[NodeProcess]:
        """Start nodes and wait until they say that they run."""
        environment = node_environment({**node_variables(self.settings), **variables})
        fresh = []
        for _ in range(count):
            self.started += 1
            log = self.folder / f"node-{self.started}.log"
            node = NodeProcess(None, environment, log, command=command, ready_line=ready_line)
            fresh.append(node)
            self.nodes.append(node)
        if not self.wait_until(lambda: all(node.says_ready for node in fresh), READY_S):
            tails = "\n".join(node.tail() for node in fresh)
            raise NodeFailed(f"the nodes did not start within {READY_S:.0f} s:\n{tails}")
        return fresh

    def kill(self, node: NodeProcess) -> float:
        """Kill a node; return the wall time just before."""
        killed_s = wall_s()
        node.kill()
        self.nodes.remove(node)
        return killed_s

    def stop_all(self) -> None:
        """Stop every node that runs."""
        for node in self.nodes:
            node.ask_to_stop()
        for node in self.nodes:
            node.stop()
        self.nodes.clear()

    def wait_until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Look again and again; return whether it came to hold within the time."""
        ends_s = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > ends_s:
                return False
            self._pause.wait(_LOOK_S)
        return True

    def watch(self, holds: Callable[[], bool], timeout_s: float, line: Callable[[], str]) -> bool:
        """Wait as ``wait_until`` does, and print a line a second meanwhile."""
        ends_s = time.monotonic() + timeout_s
        while time.monotonic() < ends_s:
            if self.wait_until(holds, min(1.0, ends_s - time.monotonic())):
                return True
            shown = "".join("●" if node.is_running else "○" for node in self.nodes)
            self.console.print(f"    {line()}   nodes {shown}", highlight=False)
        return holds()


def count_check(what: str, found: Sequence[object], expected: int = 0) -> Check:
    """Return the check that so many were found."""
    details = tuple(str(each) for each in found[:5])
    return Check(what, f"{expected:,}", f"{len(found):,}", len(found) == expected, details)


def show_checks(console: Console, title: str, checks: Sequence[Check]) -> bool:
    """Print a table of checks; return whether all hold."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_style="bold", title_justify="left")
    table.add_column("check", no_wrap=True)
    for name in ("expected", "seen"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for check in checks:
        verdict = "[green]✓[/]" if check.holds else "[bold red]✗[/]"
        table.add_row(check.what, check.expected, check.seen, verdict)
    console.print(table)
    for check in checks:
        for detail in () if check.holds else check.details:
            console.print(f"  {check.what}: {detail}", markup=False, highlight=False)
    broken = sum(not check.holds for check in checks)
    console.print(
        f"[bold red]{broken} of {len(checks)} checks failed[/]"
        if broken
        else f"[bold green]All {len(checks)} checks hold.[/]"
    )
    return not broken


def perform(title: str, play: Callable[[Stage], bool]) -> None:
    """Run a demonstration on servers and leave the process: 0 only if everything holds."""
    terminate_as_interrupt()
    console = Console(width=None if sys.stdout.isatty() else 110)
    folder = Path(tempfile.mkdtemp(prefix="hourhand-doors-"))
    console.print(f"[bold]{title}[/] on real Kafka and Cassandra\n")
    holds = False
    try:

        def say(text: str) -> None:
            console.print(f"  [green]●[/] {text}", highlight=False)

        with open_installation(folder / "servers", "cooperative-sticky", say) as settings:
            stage = Stage(console, folder, settings)
            try:
                holds = play(stage)
            finally:
                stage.stop_all()
    except (NodeFailed, HourhandError, ToolMissing, FetchFailed, ServerFailed) as error:
        console.print("\n[bold red]It did not come to an end:[/]")
        console.print(str(error), highlight=False, markup=False)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        console.print("interrupted: nothing is left behind")
        sys.exit(130)
    if holds:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        console.print(f"What the nodes said is in {folder}")
    sys.exit(0 if holds else 1)


def quantiles(values: Sequence[float]) -> str:
    """Return the middle and the ends of lateness in milliseconds, as text."""
    ordered = sorted(values)
    if not ordered:
        return "nothing came"
    shown = [
        f"{name} {ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.0f}"
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    ]
    return f"{', '.join(shown)} ms"
