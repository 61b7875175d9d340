"""The node processes of a chaos run: started, killed, frozen, stopped; no other is touched.

Every blow is returned with its moments, so that it can be written down.  Decides nothing
about when.
"""

import threading
from collections.abc import Mapping
from pathlib import Path

from hourhand.scheduler.demo.node import NodeFailed, NodeProcess, node_environment
from tests.chaos.executor import (
    FOLDER_VARIABLE,
    LIMITED_KIND,
    NODE_VARIABLE,
    PROCESS_KIND,
    AsyncExecutor,
    BlockingExecutor,
    LimitedAsyncExecutor,
    LimitedBlockingExecutor,
    ProcessExecutor,
)
from tests.chaos.records import Journal, now_us
from tests.judge.history import Blow
from tests.servers.freezing import freeze, thaw
from tests.servers.machine import Machine
from tests.servers.ports import free_ports

_READY_S = 90.0
_LOOK_S = 0.02
_EXECUTORS = (
    (BlockingExecutor, LimitedBlockingExecutor),
    (AsyncExecutor, LimitedAsyncExecutor),
)
"""Nodes of odd numbers run the first two, those of even ones the others: the second of them what
has a limit."""

_PROCESSES = {"HOURHAND_TREE__EXECUTION__PROCESSES": "5"}
"""More than work at a time, also where nodes are down: a task that waits for a minute starts late
enough to meet what a frozen owner had still to write."""
_CHECKED = {"HOURHAND_OBSERVE__METRICS": "true", "HOURHAND_OBSERVE__SELF_CHECK_SHARE": "1"}
"""Every node checks itself, and all of its ordering ids: what it says is judged too."""


class Fleet:
    """Nodes 1 to ``count``; each runs in one process at a time."""

    def __init__(
        self,
        count: int,
        settings: Mapping[str, str],
        folder: Path,
        journal: Journal,
        *,
        doors: bool,
        library: Path | None = None,
    ) -> None:
        """With ``doors`` nodes of odd numbers are relays, the others serve timers; with the
        library of machines each node has one.
        """
        self.numbers = range(1, count + 1)
        self.ports = dict(zip(self.numbers[1::2], free_ports(count // 2), strict=True))
        """By node that serves timers: where."""
        self._doors = doors
        self.ended_alone: list[str] = []
        """Nodes that ended though nobody asked them to."""
        self._settings = settings
        self._folder = folder
        self._journal = journal
        self._machines = (
            {each: Machine(library, folder / f"machine-{each}") for each in self.numbers}
            if library
            else {}
        )
        self._running: dict[int, NodeProcess] = {}
        self._started = 0
        self._moment = threading.Event()

    def start(self, *numbers: int) -> None:
        """Start these nodes, all at once, and wait until they say that they run."""
        for number in numbers:
            self._started += 1
            log = self._folder / f"node-{number}-{self._started}.log"
            executor, limited = _EXECUTORS[(number - 1) % len(_EXECUTORS)]
            variables = {
                **self._settings,
                **_PROCESSES,
                **_CHECKED,
                FOLDER_VARIABLE: str(self._folder),
                NODE_VARIABLE: str(number),
            }
            path = f"{executor.__module__}:{executor.__name__}"
            command, ready = self._command(number)
            for kind, each in ((LIMITED_KIND, limited), (PROCESS_KIND, ProcessExecutor)):
                command += ["--executor", f"{kind}={each.__module__}:{each.__name__}"]
            machine = self._machines.get(number)
            environment = node_environment(variables) | (machine.variables if machine else {})
            node = NodeProcess(path, environment, log, command=command, ready_line=ready)
            self._running[number] = node
            self._journal.started(number, node.pid)
        until_us = now_us() + round(_READY_S * 1e6)
        while not all(self._running[number].says_ready for number in numbers):
            late = now_us() > until_us
            for number in numbers:
                node = self._running[number]
                if late or not node.is_running:
                    raise NodeFailed(f"node {number} did not come up:\n{node.tail()}")
            self._moment.wait(_LOOK_S)

    def pid(self, number: int) -> int:
        """Return the process of a node."""
        return self._running[number].pid

    def machine(self, number: int) -> Machine:
        """Return what a node runs on, however often it is started again."""
        return self._machines[number]

    def _command(self, number: int) -> tuple[list[str], str]:
        """Return what runs a node, and the line that says that it runs."""
        if not self._doors:
            return ["run"], "the node runs"
        if number in self.ports:
            return ["timers", "--port", str(self.ports[number])], "timers are served"
        return ["relay"], "the relay runs"

    def kill(self, *numbers: int) -> list[Blow]:
        """End them at once with SIGKILL."""
        self.look()
        blows = []
        for number in numbers:
            node, from_us = self._running.pop(number), now_us()
            node.kill()
            gone_us = now_us()
            blows.append(Blow("killed", number, node.pid, from_us, gone_us, gone_us))
        return blows

    def freeze(self, number: int, lasts_s: float) -> Blow:
        """Stop it with SIGSTOP, and let it go on with SIGCONT so much later."""
        self.look()
        # Our own child, and not waited for: nobody else can have its pid.
        pid, from_us = self._running[number].pid, now_us()
        try:
            freeze(pid)
            struck_us = now_us()
            self._moment.wait(lasts_s)
        finally:
            to_us = now_us()
            thaw(pid)
        return Blow("frozen", number, pid, from_us, struck_us, to_us)

    def drain(self, number: int) -> Blow:
        """End it gracefully with SIGTERM, and wait."""
        self.look()
        node, from_us = self._running.pop(number), now_us()
        code = node.stop()
        if code:
            self.ended_alone.append(f"node {number}, asked to stop, ended with {code}")
        gone_us = now_us()
        return Blow("drained", number, node.pid, from_us, gone_us, gone_us)

    def look(self) -> None:
        """Start again what ended by itself, and remember that it did."""
        for number, node in tuple(self._running.items()):
            if not node.is_running:
                self.ended_alone.append(f"node {number} (pid {node.pid}):\n{node.tail()}")
                self.start(number)

    def stop(self) -> None:
        """End all of them; used when the run is over, or given up."""
        for node in self._running.values():
            node.ask_to_stop()
            # A frozen one would not hear of it.
            if node.is_running:
                thaw(node.pid)
        for node in self._running.values():
            node.stop()
        self._running.clear()

    def doubts(self) -> list[str]:
        """Return what the nodes' self-checks take for broken promises, as their logs tell it."""
        return [
            f"{log.stem}: {line}"
            for log in sorted(self._folder.glob("node-*.log"))
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
            if "PromiseDoubted" in line
        ]
