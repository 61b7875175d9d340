"""Runs a load on a rival the way Hourhand's is run: worker ready first, then the client.

The clock stops when PostgreSQL holds every job as completed, as with Hourhand's store.
"""

import time
from dataclasses import asdict
from types import ModuleType
from typing import Any

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.loads import Load
from benchmarks.records import Execution, wall_s

_POLL_S = 0.02


def drain(bench: Bench, rival: ModuleType, load: Load) -> float:
    """Return jobs per second, from the first enqueue to the last durable completion."""
    _, began_s, ended_s = _run(bench, rival, load)
    return load.count / (ended_s - began_s)


def executions(bench: Bench, rival: ModuleType, load: Load) -> list[Execution]:
    """Return when the jobs of a load were started."""
    return _run(bench, rival, load)[0]


def enqueue(bench: Bench, rival: ModuleType, load: Load) -> float:
    """Return jobs enqueued per second by one process, without a worker."""
    server = bench.servers.postgres
    assert server is not None, "rivals are run where PostgreSQL is"
    name = bench.servers.name("rival")
    url = rival.database(server, bench.servers.templates, name)
    try:
        done = _enqueued(bench, rival, url, load)
        return load.count / (float(done["ended_s"]) - float(done["began_s"]))
    finally:
        server.drop(name)


def _run(bench: Bench, rival: ModuleType, load: Load) -> tuple[list[Execution], float, float]:
    server = bench.servers.postgres
    assert server is not None, "rivals are run where PostgreSQL is"
    name = bench.servers.name("rival")
    url = rival.database(server, bench.servers.templates, name)
    records = bench.records(load.count)
    try:
        with rival.worker(url, records.path, records.slots, bench.folder) as worker:
            worker.expect("ready", READY_S)
            began_s = _enqueued(bench, rival, url, load)["began_s"]
            records.wait_for(load.count, RUN_S)
            return list(records), began_s, _done(bench, rival, name, load.count)
    finally:
        server.drop(name)


def _enqueued(bench: Bench, rival: ModuleType, url: str, load: Load) -> dict[str, Any]:
    with rival.client(url, asdict(load), bench.folder) as client:
        client.expect("ready", READY_S)
        client.say("go")
        done: dict[str, Any] = client.expect("done", RUN_S)
        return done


def _done(bench: Bench, rival: ModuleType, database: str, count: int) -> float:
    assert bench.servers.postgres is not None
    ends_s = time.monotonic() + RUN_S
    with bench.servers.postgres.connect(database) as connection:
        while (found := rival.done(connection)) < count:
            if time.monotonic() > ends_s:
                raise TimeoutError(f"{rival.NAME} holds {found} of {count} jobs as completed")
            time.sleep(_POLL_S)
    return wall_s()
