"""Runs a load on a rival the way Hourhand's is run: worker ready first, then the client.

The clock stops when PostgreSQL holds every job as completed, as with Hourhand's store.
"""

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.loads import Load
from benchmarks.processor_time import Drain, Followed
from benchmarks.records import Execution, wall_s
from benchmarks.rivals.rival import Rival

_POLL_S = 0.02


def available(bench: Bench, rivals: Iterable[Rival]) -> list[Rival]:
    """Return those of the rivals that can be run here."""
    if bench.servers.postgres is None:
        return []
    return [rival for rival in rivals if rival.name not in bench.servers.missing]


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
    server = bench.servers.postgres
    assert server is not None, "rivals are run where PostgreSQL is"
    name = bench.servers.name("rival")
    url = rival.database(server, bench.servers.templates, name)
    try:
        done = _enqueued(bench, rival, url, load, Followed())
        return load.count / (float(done["ended_s"]) - float(done["began_s"]))
    finally:
        server.drop(name)


def _run(
    bench: Bench, rival: Rival, load: Load, followed: Followed
) -> tuple[list[Execution], float, float]:
    server = bench.servers.postgres
    assert server is not None, "rivals are run where PostgreSQL is"
    name = bench.servers.name("rival")
    url = rival.database(server, bench.servers.templates, name)
    records = bench.records(load.count)
    try:
        with rival.worker(url, records.path, records.slots, bench.folder) as worker:
            worker.expect("ready", READY_S)
            pids = {"worker": worker.pid}
            if server.pid is not None:
                pids["PostgreSQL"] = server.pid
            with followed.following(pids):
                began_s = _enqueued(bench, rival, url, load, followed)["began_s"]
                records.wait_for(load.count, RUN_S)
                return list(records), began_s, _done(bench, rival, name, load.count)
    finally:
        server.drop(name)


def _enqueued(
    bench: Bench, rival: Rival, url: str, load: Load, followed: Followed
) -> dict[str, Any]:
    with rival.client(url, asdict(load), bench.folder) as client:
        client.expect("ready", READY_S)
        with followed.following({"client": client.pid}):
            client.say("go")
            done: dict[str, Any] = client.expect("done", RUN_S)
        return done


def _done(bench: Bench, rival: Rival, database: str, count: int) -> float:
    assert bench.servers.postgres is not None
    ends_s = time.monotonic() + RUN_S
    with bench.servers.postgres.connect(database) as connection:
        while (left := rival.left(connection, count)) > 0:
            if time.monotonic() > ends_s:
                raise TimeoutError(f"{rival.name} has not completed {left} of {count} jobs")
            time.sleep(_POLL_S)
    return wall_s()
