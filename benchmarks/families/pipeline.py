"""pipeline_read, pipeline_load, pipeline_cores, pipeline_memory: Spark over what is stored.

Reading is compared with the DataStax connector in the same Spark session, loading with the bare
driver's batches; each on as many cores as the other.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from benchmarks.bench import RUN_S, Bench
from benchmarks.families import backlog
from benchmarks.figures import Figure, Goal, Line
from benchmarks.program import Program
from hourhand import Settings
from tests.servers.maven import fetch_jars

MEASURES = ("pipeline_read", "pipeline_load", "pipeline_cores", "pipeline_memory")
UNIT = "rows/s"
CONNECTOR = "3.5.1"
_BOTH = "local[2]"
_ONE = "local[1]"
_APART = "local-cluster[1,2,2048]"
"""An executor of two cores beside the driver, as on a cluster."""
_WARM_DAYS = 30
_DAYS = 1


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted."""
    lines: list[Line] = []
    if bench.wanted & {"pipeline_read", "pipeline_cores"}:
        lines += _read(bench)
    if bench.wanted & {"pipeline_load", "pipeline_cores"}:
        lines += _load(bench)
    if "pipeline_memory" in bench.wanted:
        lines.append(_memory(bench))
    return lines


@contextlib.contextmanager
def _spark(
    bench: Bench, settings: Settings, master: str, jars: tuple[str, ...] = ()
) -> Iterator[Program]:
    spec: dict[str, Any] = {"settings": settings.model_dump(mode="json"), "master": master}
    spec["jars"] = jars
    if master == _APART:
        spec["work"] = str(bench.folder / "spark")
    with Program("benchmarks.programs.pipeline", spec, bench.folder) as program:
        # A session takes a node's time several times over to begin, more so on a busy machine.
        program.expect("ready", RUN_S)
        yield program


def _ask(program: Program, command: str) -> dict[str, Any]:
    program.say(command)
    return program.expect("done", RUN_S)


def _connector_jars() -> tuple[str, ...]:
    """Fetch the connector with what it needs, except for what Spark itself brings."""
    name = f"com.datastax.spark:spark-cassandra-connector_2.13:{CONNECTOR}"
    brought = (
        "org.scala-lang:scala-library",
        "org.scala-lang:scala-reflect",
        "org.slf4j:slf4j-api",
    )
    folder = fetch_jars("spark-cassandra-connector", (name,), excluded=brought)
    return tuple(str(each) for each in sorted(folder.glob("*.jar")))


def _read(bench: Bench) -> list[Line]:
    """Read the same rows by both, in turn, and then by one of them on one core."""
    rows = bench.sizes.backlog_tasks
    settings = backlog.shared(bench, rows)
    rates: dict[str, list[float]] = {"hourhand": [], "connector": []}
    with _spark(bench, settings, _BOTH, _connector_jars()) as program:
        for number in range(bench.sizes.rounds + 1):
            for which, found in rates.items():
                seconds = _ask(program, f"read {which}")["seconds"]
                # The first of each compiles, connects and fills caches.
                if number:
                    found.append(rows / seconds)
                    bench.say(f"round {number}: {which} reads {found[-1]:,.0f} {UNIT}")
    lines = []
    ours = Figure.of(rates["hourhand"])
    if "pipeline_read" in bench.wanted:
        theirs = Figure.of(rates["connector"])
        against = f"DataStax connector {CONNECTOR}"
        goal = Goal("at least", 1.0)
        lines.append(Line("pipeline_read", ours, UNIT, against, theirs, goal, {"rows": rows}))
    if "pipeline_cores" in bench.wanted:
        with _spark(bench, settings, _ONE) as program:
            _ask(program, "read hourhand")
            one = rows / _ask(program, "read hourhand")["seconds"]
        lines.append(_growth("read", ours, Figure.of([one])))
    return lines


def _load(bench: Bench) -> list[Line]:
    """Load a file into installations of their own, and write the same rows without Spark.

    Each has written as many rows of other hours before: what is compared is the work itself, not
    how long a virtual machine takes to compile it.
    """
    rows = bench.sizes.pipeline_rows
    rates: dict[str, list[float]] = {_ONE: [], _BOTH: [], "bare": []}
    for number in range(1, bench.sizes.rounds + 1):
        # A measure without a goal is taken once.
        both = number == 1 and "pipeline_cores" in bench.wanted
        masters = (_ONE, _BOTH) if both else (_ONE,)
        for master in masters:
            rates[master].append(_loaded(bench, master, rows))
            bench.say(f"round {number}: {master} loads {rates[master][-1]:,.0f} {UNIT}")
        rates["bare"].append(_bare(bench, rows))
        bench.say(f"round {number}: the bare driver writes {rates['bare'][-1]:,.0f} {UNIT}")
    ours, bare = Figure.of(rates[_ONE]), Figure.of(rates["bare"])
    lines = []
    if "pipeline_load" in bench.wanted:
        against, goal = "bare driver's batches", Goal("at least", 0.8)
        lines.append(Line("pipeline_load", ours, f"{UNIT}, 1 core", against, bare, goal))
    if "pipeline_cores" in bench.wanted:
        lines.append(_growth("load", Figure.of(rates[_BOTH]), ours))
    return lines


def _loaded(bench: Bench, master: str, rows: int) -> float:
    path = str(bench.folder / bench.servers.name("tasks"))
    with bench.servers.installation("load") as settings, _spark(bench, settings, master) as program:
        # Compiling and connecting are not measured.  These rows lie in other hours: a row is looked
        # up in the store if its hour has rows, which the bare driver never does.
        _ask(program, f"make {path}-before.parquet {rows} {_WARM_DAYS}")
        _ask(program, f"load {path}-before.parquet")
        _ask(program, f"make {path}.parquet {rows} {_DAYS}")
        done = _ask(program, f"load {path}.parquet")
    if (done["rows"], done["invalid"]) != (rows, 0):
        raise RuntimeError(f"{rows} rows were to be loaded, {done} was")
    return rows / float(done["seconds"])


def _bare(bench: Bench, rows: int) -> float:
    with bench.servers.installation("bare") as settings:
        spec = {"settings": settings.model_dump(mode="json"), "rows": rows}
        spec["days"] = [_WARM_DAYS, _DAYS]
        with Program("benchmarks.limits.bare_batches", spec, bench.folder) as program:
            program.expect("ready", RUN_S)
            return rows / float(_ask(program, "go")["seconds"])


def _memory(bench: Bench) -> Line:
    """Audit few and many rows, and see what the driver holds at most.

    The driver is the process of the job with its JVM, apart from the executor, whose sorts and
    joins take what Spark gives them before they go to disk.  Its memory is the JVM's heap after a
    full collection, asked for twice a second, and the resident memory of its Python.
    """
    peaks = []
    for rows in bench.sizes.pipeline_memory_rows:
        with _spark(bench, backlog.shared(bench, rows), _APART) as program:
            done = _ask(program, "audit")
        peaks.append(float(done["peak_mib"]))
        bench.say(f"audit of {done['rows']:,} rows: {peaks[-1]:,.0f} MiB held by the driver")
    few, many = bench.sizes.pipeline_memory_rows
    against = f"{few:,} rows"
    goal = Goal("at most", 1.25)
    peak = Figure.of([peaks[1]])
    return Line(
        "pipeline_memory", peak, "MiB", against, Figure.of([peaks[0]]), goal, {"rows": many}
    )


def _growth(what: str, two: Figure, one: Figure) -> Line:
    return Line("pipeline_cores", two, f"{UNIT}, {what} on 2 cores", "1 core", one)
