"""Runs a load on a rival the way Hourhand's is run: worker ready first, then the client.

The clock stops when its database holds every job as completed, as with Hourhand's store.
"""

import contextlib
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.loads import Load
from benchmarks.processor_time import Drain, Followed
from benchmarks.records import Execution, wall_s
from benchmarks.rivals.rival import Rival, RivalMissing

_POLL_S = 0.02
_BUSY_S = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """A database of a rival that has its tables and nothing else."""

    url: str
    """Its address, or the path of its file."""
    pids: Mapping[str, int]
    """The processes that serve it, by name."""
    connect: Callable[[], Any]
    """Opens a connection for counting."""


def available(bench: Bench, rivals: Iterable[Rival]) -> list[Rival]:
    """Return those of the rivals that can be run here; tell loudly which cannot be installed."""
    return [rival for rival in rivals if bench.with_rivals and _is_available(bench, rival)]


def _is_available(bench: Bench, rival: Rival) -> bool:
    if rival.install is None:
        return bench.servers.postgres is not None and rival.name not in bench.servers.missing
    try:
        rival.install()
    except RivalMissing as error:
        sys.stderr.write(f"\n*** WITHOUT {rival.name}: {error}\n")
        sys.stderr.write("*** Nothing is compared with it.\n\n")
        return False
    return True


def drain(bench: Bench, rival: Rival, load: Load) -> Drain:
    """Run a load, from the first enqueue to the last durable completion."""
    followed = Followed()
    _, began_s, ended_s = _run(bench, rival, load, followed)
    return Drain(load.count / (ended_s - began_s), followed.us_a_task(load.count))


def executions(bench: Bench, rival: Rival, load: Load) -> list[Execution]:
    """Return when the jobs of a load were started."""
    return _run(bench, rival, load, Followed())[0]


def enqueue(bench: Bench, rival: Rival, load: Load) -> float:
    """Return jobs enqueued per second by one process, without a worker."""
    with place(bench, rival) as found:
        done = _enqueued(bench, rival, found.url, load, Followed())
        return load.count / (float(done["ended_s"]) - float(done["began_s"]))


@contextlib.contextmanager
def place(bench: Bench, rival: Rival) -> Iterator[Place]:
    """Make a database for a rival, and remove it."""
    name = bench.servers.name("rival")
    if rival.install is not None:
        folder = bench.folder / name
        folder.mkdir(parents=True)
        url = str(folder / "jobs.db")
        try:
            rival.migrate(url)
            yield Place(url, {}, partial(_connected, url))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    server = bench.servers.postgres
    assert server is not None, "rivals are run where PostgreSQL is"
    url = rival.database(server, bench.servers.templates, name)
    pids = {} if server.pid is None else {"PostgreSQL": server.pid}
    try:
        yield Place(url, pids, partial(server.connect, name))
    finally:
        server.drop(name)


def _connected(path: str) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None))


def _run(
    bench: Bench, rival: Rival, load: Load, followed: Followed
) -> tuple[list[Execution], float, float]:
    records = bench.records(load.count)
    with (
        place(bench, rival) as found,
        rival.worker(found.url, records.path, records.slots, bench.folder) as worker,
    ):
        worker.expect("ready", READY_S)
        with followed.following({"worker": worker.pid, **found.pids}):
            began_s = _enqueued(bench, rival, found.url, load, followed)["began_s"]
            records.wait_for(load.count, RUN_S)
            return list(records), began_s, _done(rival, found, load.count)


def _enqueued(
    bench: Bench, rival: Rival, url: str, load: Load, followed: Followed
) -> dict[str, Any]:
    with rival.client(url, asdict(load), bench.folder) as client:
        client.expect("ready", READY_S)
        with followed.following({"client": client.pid}):
            client.say("go")
            done: dict[str, Any] = client.expect("done", RUN_S)
        return done


def _done(rival: Rival, found: Place, count: int) -> float:
    ends_s = time.monotonic() + RUN_S
    with found.connect() as connection:
        while (left := rival.left(connection, count)) > 0:
            if time.monotonic() > ends_s:
                raise TimeoutError(f"{rival.name} has not completed {left} of {count} jobs")
            time.sleep(_POLL_S)
    return wall_s()
