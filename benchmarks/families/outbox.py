"""outbox: tasks within transactions of a PostgreSQL, until they start; River inserts jobs so."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.figures import Figure, Line, quantile
from benchmarks.program import ROOT, Program
from benchmarks.records import Records, exactly_once
from benchmarks.rivals import river
from benchmarks.rivals.rival import RivalMissing
from hourhand import outbox
from tests.servers.own_settings import set_options
from tests.servers.postgres import PostgresServer

MEASURES = ("outbox",)
_WRITERS = 4
_PACED_PER_S = 100.0
"""A rate at which neither side has a queue."""
_STOPPED_S = 30.0
_LOOK_S = 0.05
_LISTENING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hourhand outbox'"

Application = Callable[[dict[str, Any]], Program]


class _Taken(NamedTuple):
    commits_per_s: float
    """Commits of the application while its tasks run on the same cores."""
    rate_per_s: float
    """From the first transaction to the start of the last task."""
    late_ms: list[float]
    """From each commit to the start of its task, in order."""


def run(bench: Bench) -> list[Line]:
    """Take the measure if it is wanted, beside River where that can be built."""
    server = bench.servers.postgres
    if "outbox" not in bench.wanted:
        return []
    if server is None:
        bench.say("outbox: nothing is measured without PostgreSQL")
        return []
    sides = {"Hourhand": _hourhand}
    try:
        river.build()
        sides[river.NAME] = _river
    except RivalMissing as error:
        bench.say(f"outbox: without {river.NAME}: {error}")
    rows = bench.sizes.enqueue_tasks // 10
    committed: dict[str, list[float]] = {name: [] for name in sides}
    fast: dict[str, list[float]] = {name: [] for name in sides}
    late: dict[str, list[list[float]]] = {name: [] for name in sides}
    for _ in range(bench.sizes.rounds):
        for name, side in sides.items():
            unpaced = _take(bench, server, side, rows, 0.0)
            committed[name].append(unpaced.commits_per_s)
            fast[name].append(unpaced.rate_per_s)
            paced = int(_PACED_PER_S * bench.sizes.lateness_s)
            late[name].append(_take(bench, server, side, paced, _PACED_PER_S).late_ms)
            bench.say(f"outbox, {name}: {fast[name][-1]:,.0f} rows/s, {_told(late[name][-1])}")
    return _lines(committed, fast, late)


def _lines(
    committed: dict[str, list[float]],
    fast: dict[str, list[float]],
    late: dict[str, list[list[float]]],
) -> list[Line]:
    figures = {
        "commits/s": {name: Figure.of(rates) for name, rates in committed.items()},
        "rows/s": {name: Figure.of(rates) for name, rates in fast.items()},
        **{
            f"ms from commit to start, p{share * 100:g}": {
                name: Figure.of([quantile(each, share) for each in rounds])
                for name, rounds in late.items()
            }
            for share in (0.5, 0.99)
        },
    }
    rival = river.NAME if river.NAME in fast else None
    return [
        Line("outbox", by_name["Hourhand"], unit, rival, by_name.get(river.NAME))
        for unit, by_name in figures.items()
    ]


def _told(late_ms: list[float]) -> str:
    shown = (f"p{share * 100:g} {quantile(late_ms, share):.1f} ms" for share in (0.5, 0.99))
    return ", ".join(shown)


Side = Callable[
    [Bench, PostgresServer, str, Records, int],
    AbstractContextManager[Application],
]


def _take(bench: Bench, server: PostgresServer, side: Side, count: int, rate: float) -> _Taken:
    """Run so many transactions, and wait until the task of each has started."""
    name = bench.servers.name("outbox")
    url = server.create(name)
    with server.connect(name) as connection:
        connection.execute("CREATE TABLE invoice (number bigint PRIMARY KEY)")
    committed, started = bench.records(count), bench.records(count)
    spec = {
        "url": url,
        "records": str(committed.path),
        "slots": count,
        "count": count,
        "rate": rate,
        "writers": _WRITERS,
    }
    try:
        with side(bench, server, name, started, count) as open_application:
            with open_application(spec) as application:
                application.expect("ready", READY_S)
                application.say("go")
                done = application.expect("done", RUN_S)
            started.wait_for(count, RUN_S)
            executions = list(started)
            exactly_once(executions, count)
    finally:
        server.drop(name)
    commits = {each.number: each.started_s for each in committed}
    last_s = max(each.started_s for each in executions)
    # A task may start before its application hears of the commit.
    late = sorted(max(0.0, each.started_s - commits[each.number]) for each in executions)
    return _Taken(
        commits_per_s=count / (done["ended_s"] - done["began_s"]),
        rate_per_s=count / (last_s - done["began_s"]),
        late_ms=[each * 1000 for each in late],
    )


@contextlib.contextmanager
def _hourhand(
    bench: Bench, server: PostgresServer, database: str, started: Records, count: int
) -> Iterator[Application]:
    """Run a mover and a node beside Kafka and Cassandra."""
    del count
    with server.connect(database) as connection:
        for statement in outbox.migration_statements("postgresql"):
            connection.execute(statement)
    with bench.servers.installation("outbox") as settings:
        folder = bench.folder / bench.servers.name("mover")
        folder.mkdir(parents=True)
        with bench.start_node(settings, started) as node:
            node.expect("ready", READY_S)
            options = set_options(settings, folder)
            with _mover(server, database, options, folder):
                yield lambda spec: Program("benchmarks.programs.transactions", spec, bench.folder)


@contextlib.contextmanager
def _mover(
    server: PostgresServer, database: str, options: list[str], folder: Path
) -> Iterator[None]:
    with (folder / "errors").open("wb") as errors:
        mover = subprocess.Popen(
            [sys.executable, "-m", "hourhand", "outbox", "--url", server.url(database), *options],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )
    try:
        ends_s = time.monotonic() + READY_S
        with server.connect(database) as connection:
            while not connection.execute(_LISTENING).fetchone()[0]:
                if time.monotonic() > ends_s or mover.poll() is not None:
                    raise TimeoutError((folder / "errors").read_text(errors="replace")[-1_500:])
                time.sleep(_LOOK_S)
        yield
    finally:
        mover.terminate()
        try:
            mover.wait(_STOPPED_S)
        except subprocess.TimeoutExpired:
            mover.kill()
            mover.wait()


@contextlib.contextmanager
def _river(
    bench: Bench, server: PostgresServer, database: str, started: Records, count: int
) -> Iterator[Application]:
    """Run a worker of River."""
    url = server.url(database)
    river.migrate(url, bench.folder)
    told = {"url": url, "records": str(started.path), "slots": count}
    with river.program(bench.folder, kind="worker", **told) as worker:
        worker.expect("ready", READY_S)
        yield lambda spec: river.program(bench.folder, kind="application", **spec)
