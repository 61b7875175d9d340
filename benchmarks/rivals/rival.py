"""A rival as the benchmark uses it: a database, a worker, a client, and the jobs that are left.

Decides which arguments all of them get.  Tables and programs of a rival are in a module of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loads import Load
from benchmarks.program import Program
from tests.servers.postgres import PostgresServer


class RivalMissing(RuntimeError):
    """It is not there and cannot be installed here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Another system that runs the same work."""

    name: str
    module: str
    """Module that its programs run; the names of its databases end with it."""
    migrate: Callable[[str], None]
    """Makes its tables in the database at an address."""
    counted: str
    """The statement that counts its jobs."""
    counts_done: bool = False
    """True if these are the completed jobs, and not those that are left."""
    grain_ms: int = 1
    """Its jobs are due in steps of this."""
    command: tuple[str, ...] | None = None
    """Command that starts its programs; None means Python."""
    told: tuple[tuple[str, str | float], ...] = ()
    """Further arguments of its programs."""
    install: Callable[[], None] | None = None
    """Installs it where it is in a file of SQLite; raises RivalMissing.  Others use PostgreSQL."""
    survives: str = "yes / yes"
    """Survival of what it acknowledged: the death of its processes / of the machine."""

    def database(self, server: PostgresServer, templates: set[str], name: str) -> str:
        """Make a database with its tables and return its address."""
        template = f"{self.module.rpartition('.')[2]}_template"
        if template not in templates:
            self.migrate(server.create(template))
            templates.add(template)
        return server.create(name, template)

    def due_ms(self, load: Load, number: int) -> int:
        """Return when the job of a task is due."""
        return load.due_ms(number) // self.grain_ms * self.grain_ms

    def left(self, connection: Any, jobs: int) -> int:
        """Count those of so many jobs that its database does not hold as completed."""
        found = int(connection.execute(self.counted).fetchone()[0])
        return jobs - found if self.counts_done else found

    def worker(self, url: str, records: Path, slots: int, folder: Path) -> Program:
        """Start a process that works on the queue."""
        return self.program(folder, kind="worker", url=url, records=str(records), slots=slots)

    def client(self, url: str, load: dict[str, Any], folder: Path) -> Program:
        """Start a process that enqueues a load when told to."""
        return self.program(folder, kind="client", url=url, load=load)

    def program(self, folder: Path, **spec: Any) -> Program:
        """Start one of its programs."""
        return Program(self.module, {**dict(self.told), **spec}, folder, command=self.command)
