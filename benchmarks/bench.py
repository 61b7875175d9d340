"""Servers, sizes and the common steps of all families of measures.

Schedules a load, runs a node over it and waits for the end; decides nothing about measures.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.durable import Completions
from benchmarks.loads import Load
from benchmarks.processor_time import Drain, Followed
from benchmarks.program import Program
from benchmarks.records import Execution, Records, exactly_once, wall_s
from benchmarks.servers import Servers
from benchmarks.sizes import Sizes
from hourhand import Settings

READY_S = 120.0
RUN_S = 600.0

Curves = dict[str, list[tuple[float, float]]]


@dataclass
class Bench:
    """One call of the benchmark."""

    servers: Servers
    sizes: Sizes
    wanted: frozenset[str]
    """The measures to take."""
    curves: Curves = field(default_factory=dict)
    """Points of the plots, by name."""
    profiler: "Callable[[int], None] | None" = None
    """Called with the pid of a process that is about to be measured."""
    kept: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Resources that several families use, until the end of the call."""
    with_rivals: bool = True
    """False if nothing is compared with other systems."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of nodes and clients, added to those of this process."""
    backlogs: dict[int, Settings] = field(default_factory=dict)
    """Installations with so many far tasks, by that number."""

    @property
    def folder(self) -> Path:
        """Folder of the notes that programs leave."""
        return self.servers.folder / "programs"

    def say(self, text: str) -> None:
        """Tell whoever waits how far it is."""
        sys.stderr.write(f"  {text}\n")
        sys.stderr.flush()

    def uncounted(self) -> "Bench":
        """Return the bench for a first run that nobody counts.

        A Java server interprets what it does for the first time and compiles what it does often:
        at first that takes more of a small machine than the tasks or messages do.
        """
        return replace(self, profiler=None)

    def warming(self) -> "Bench":
        """Return the bench for such a run that lasts until servers have compiled what they do."""
        return replace(self.uncounted(), sizes=self.sizes.warming())

    def records(self, slots: int) -> Records:
        """Make a file for the executions of one process."""
        return Records(self.folder / self.servers.name("records"), slots)

    @contextlib.contextmanager
    def node(
        self, settings: Settings, slots: int, work: str = "noop", database: str = ""
    ) -> Iterator[tuple[Program, Records]]:
        """Run a node until the block ends, ready when the block begins."""
        records = self.records(slots)
        with self.start_node(settings, records, work, database) as node:
            node.expect("ready", READY_S)
            yield node, records

    def start_node(
        self, settings: Settings, records: Records, work: str = "noop", database: str = ""
    ) -> Program:
        """Start a node without waiting for it; ``database`` is where its tasks insert rows."""
        spec = {
            "settings": settings.model_dump(mode="json"),
            "records": str(records.path),
            "slots": records.slots,
            "work": work,
            "database": database,
        }
        module = "benchmarks.programs.node"
        return Program(module, spec, self.folder, environment=self.environment)

    def client(
        self, settings: Settings, load: Load, kind: str = "bulk", *, ahead_s: float = 0.0
    ) -> Program:
        """Start a client that is ready to schedule a load.

        If the load has no due time, its first task is due ``ahead_s`` after the client begins.
        """
        told = settings.model_dump(mode="json")
        spec = {"settings": told, "load": asdict(load), "kind": kind, "ahead_s": ahead_s}
        module = "benchmarks.programs.client"
        client = Program(module, spec, self.folder, environment=self.environment)
        client.expect("ready", READY_S)
        return client

    def schedule(
        self, settings: Settings, load: Load, kind: str = "bulk", followed: Followed | None = None
    ) -> tuple[Load, float]:
        """Schedule a load; return it with its due time, and when that began."""
        with (
            self.client(settings, load, kind) as client,
            (followed or Followed()).following({"client": client.pid}),
        ):
            return self.go(client, load)

    def go(self, client: Program, load: Load) -> tuple[Load, float]:
        """Let a client schedule its load."""
        client.say("go")
        done = client.expect("done", RUN_S)
        return replace(load, due_s=done["due_s"]), done["began_s"]

    def drain(
        self,
        settings: Settings,
        load: Load,
        *,
        ahead_s: float = 0.0,
        work: str = "noop",
        database: str = "",
    ) -> Drain:
        """Run a load on one node.

        It is due at once, or all of it ``ahead_s`` after the node was ready.  Counted from the
        first produce, or from the due time where that is later, to the last durable completion,
        and on the embedded default to the log's offset.
        """
        with (
            Completions(settings) as completions,
            self.node(settings, load.count, work, database) as (node, records),
        ):
            if self.profiler is not None:
                self.profiler(node.pid)
            if ahead_s:
                load = replace(load, due_s=float(round(wall_s() + ahead_s)))
            followed = Followed()
            with followed.following(self.servers.pids(settings) | {"node": node.pid}):
                load, began_s, executions = self.drained(settings, load, records, followed)
                and_offsets = settings.log == "embedded"
                ended_s = completions.wait_for(load, executions, and_offsets=and_offsets)
            per_s = load.count / (ended_s - max(began_s, load.due_s))
            return Drain(per_s, followed.us_a_task(load.count))

    def drained(
        self,
        settings: Settings,
        load: Load,
        records: Records,
        followed: Followed | None = None,
    ) -> tuple[Load, float, list[Execution]]:
        """Schedule a load and wait until all of it was started, once each."""
        load, began_s = self.schedule(settings, load, followed=followed)
        records.wait_for(load.count, RUN_S)
        executions = list(records)
        exactly_once(executions, load.count)
        return load, began_s, executions
