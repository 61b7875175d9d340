"""batch: rows that tasks insert into a PostgreSQL, many in one call beside one by one.

All on the embedded default, on nodes of default settings.  A batch is one ``executemany`` in a
transaction, on one connection.  One by one, each row is committed by itself: on one connection too,
and on as many as the node has workers.
"""

from benchmarks.bench import Bench
from benchmarks.families import throughput
from benchmarks.figures import Figure, Goal, Line
from benchmarks.loads import Load
from benchmarks.processor_time import Drain

MEASURES = ("batch",)
_WORKERS = 32
_WORKS = {
    "batch": ("insert_many", _WORKERS),
    "one by one": ("insert", 1),
    f"one by one on {_WORKERS} connections": ("insert", _WORKERS),
}
"""Measured ways: the work of a node's tasks, and its workers."""
_GOALS = {"one by one": Goal("at least", 8)}


def run(bench: Bench) -> list[Line]:
    """Take both, round by round; nothing where there is no PostgreSQL."""
    if bench.servers.postgres is None:
        bench.say("batch is left out: it inserts into a PostgreSQL")
        return []
    rounds: dict[str, list[Drain]] = {name: [] for name in _WORKS}
    for number in range(1, bench.sizes.rounds + 1):
        for name, (work, workers) in _WORKS.items():
            rounds[name].append(_one(bench, work, workers))
            bench.say(f"round {number}: {name} {throughput.summary(rounds[name][-1])}")
    mine, *others = (Figure.of([each.per_s for each in drains]) for drains in rounds.values())
    return [
        Line("batch", mine, throughput.UNIT, name, other, _GOALS.get(name))
        for name, other in zip(list(_WORKS)[1:], others, strict=True)
    ]


def in_batches(bench: Bench) -> Drain:
    """Run the batches alone, once."""
    return _one(bench, *_WORKS["batch"])


def _one(bench: Bench, work: str, workers: int) -> Drain:
    server, count = bench.servers.postgres, bench.sizes.batch_tasks
    if workers == 1:
        # Its rate does not depend on the number, and is a tenth of the others'.
        count //= 10
    assert server is not None, "rows are inserted where PostgreSQL is"
    database = bench.servers.name("rows")
    url = server.create(database)
    try:
        with server.connect(database) as connection:
            connection.execute("CREATE TABLE row (number bigint PRIMARY KEY, note text)")
        tree = {"execution": {"workers": workers}}
        with bench.servers.embedded("batch", tree=tree) as settings:
            drain = bench.drain(settings, Load(count, count), work=work, database=url)
        with server.connect(database) as connection:
            (rows,) = connection.execute("SELECT count(*) FROM row").fetchone()
    finally:
        server.drop(database)
    if rows != count:
        raise RuntimeError(f"{count} tasks inserted {rows} rows")
    return drain
