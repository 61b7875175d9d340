"""One run of a demonstration: a console, a folder, processes of nodes, and the exit code.

A process that ends by itself ends the run.  Decides nothing about what a demonstration promises.
"""

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from examples.demo_stage.installation import Assignor, node_variables, open_installation
from hourhand import HourhandError, Settings
from hourhand.scheduler.demo.node import NodeFailed, NodeProcess, node_environment
from tests.servers.engine import EngineFailed
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.process import ServerFailed
from tests.servers.termination import terminate_as_interrupt

READY_S = 90.0
_LOOK_S = 0.1


class Stage:
    """The processes of one run; ``variables`` are the settings that all of them have."""

    def __init__(
        self, console: Console, folder: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self.console = console
        self.folder = folder
        self.variables: Mapping[str, str] = variables or {}
        self.nodes: list[NodeProcess] = []
        self._started = 0
        self._pause = threading.Event()

    def say(self, text: str) -> None:
        """Tell what happens."""
        self.console.print(f"  [green]●[/] {text}", highlight=False)

    def begin(
        self,
        command: Sequence[str],
        variables: Mapping[str, str] | None = None,
        ready_line: str = "the node runs",
    ) -> NodeProcess:
        """Start a process, and do not wait until it runs."""
        self._started += 1
        node = NodeProcess(
            None,
            node_environment({**self.variables, **(variables or {})}),
            self.folder / f"node-{self._started}.log",
            command=command,
            ready_line=ready_line,
        )
        self.nodes.append(node)
        return node

    def start(
        self,
        count: int,
        command: Sequence[str],
        variables: Mapping[str, str] | None = None,
        ready_line: str = "the node runs",
    ) -> list[NodeProcess]:
        """Start nodes and wait until they say that they run."""
        fresh = [self.begin(command, variables, ready_line) for _ in range(count)]
        self.require(lambda: all(node.says_ready for node in fresh), READY_S, "start")
        return fresh

    def kill(self, node: NodeProcess) -> None:
        """Kill a node; returns when it is gone."""
        self.nodes.remove(node)
        node.kill()

    def stop(self, node: NodeProcess) -> int:
        """Stop a node; return its exit code."""
        self.nodes.remove(node)
        return node.stop()

    def stop_all(self) -> list[int]:
        """Stop every node that runs; return their exit codes."""
        # All are asked before any is waited for.
        for node in self.nodes:
            node.ask_to_stop()
        return [self.stop(node) for node in tuple(self.nodes)]

    def wait_until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Look again and again; return whether it came to hold within the time."""
        ends_s = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > ends_s:
                return False
            self._pause.wait(_LOOK_S)
            for node in self.nodes:
                if not node.is_running:
                    raise NodeFailed(f"node {node.pid} ended by itself:\n{node.tail()}")
        return True

    def require(self, holds: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait until it holds; NodeFailed, with ``what`` the nodes did not do, if it does not."""
        if not self.wait_until(holds, timeout_s):
            tails = "\n".join(node.tail() for node in self.nodes)
            raise NodeFailed(f"the nodes did not {what} within {timeout_s:.0f} s:\n{tails}")

    def pause(self, seconds: float) -> None:
        """Let the nodes go on for a time."""
        self.wait_until(lambda: False, seconds)

    def wait_for_all(
        self, wanted: AbstractSet[str], done: Callable[[], AbstractSet[str]], still_s: float
    ) -> None:
        """Wait until all is done, or until nothing more was done for so long.

        A task that is missing then is lost, and the audit will say so.
        """
        known = -1
        while not wanted <= done() and known < len(done()):
            known = len(done())
            self.wait_until(lambda: wanted <= done(), still_s)

    def watch(self, holds: Callable[[], bool], timeout_s: float, line: Callable[[], str]) -> bool:
        """Wait as ``wait_until`` does, and print a line a second meanwhile."""
        ends_s = time.monotonic() + timeout_s
        while time.monotonic() < ends_s:
            if self.wait_until(holds, min(1.0, ends_s - time.monotonic())):
                return True
            shown = "●" * len(self.nodes)
            self.console.print(f"    {line()}   nodes {shown}", highlight=False)
        return holds()


def perform(
    title: str, play: Callable[[Stage], bool], *, output: str = "text", keep: bool = False
) -> NoReturn:
    """Run a demonstration and leave the process: 0 only if everything holds, 130 after Ctrl-C.

    With ``output`` "json" all words go to standard error.  The folder stays where something does
    not hold, or with ``keep``.
    """
    terminate_as_interrupt()
    width = None if sys.stdout.isatty() else 110
    console = Console(width=width, stderr=output == "json")
    folder = Path(tempfile.mkdtemp(prefix="hourhand-demo-"))
    stage = Stage(console, folder)
    console.print(f"[bold]{title}[/]\n")
    holds = False
    try:
        try:
            holds = play(stage)
        finally:
            stage.stop_all()
    except (EngineFailed, FetchFailed, HourhandError, NodeFailed, ServerFailed, ToolMissing) as why:
        console.print("\n[bold red]It did not come to an end:[/]")
        console.print(str(why), highlight=False, markup=False)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        console.print("interrupted: nothing is left behind")
        sys.exit(130)
    if holds and not keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        console.print(f"What the nodes said and noted is in {folder}", highlight=False)
    sys.exit(0 if holds else 1)


def on_servers(
    play: Callable[[Stage, Settings], bool], assignor: Assignor = "cooperative-sticky"
) -> Callable[[Stage], bool]:
    """Return a play that gets topics and a keyspace of its own, as its nodes do."""

    def played(stage: Stage) -> bool:
        with open_installation(stage.folder / "servers", assignor, stage.say) as settings:
            stage.variables = node_variables(settings)
            try:
                return play(stage, settings)
            finally:
                stage.stop_all()

    return played
