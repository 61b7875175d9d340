"""PgQueuer: workers and clients as programs, and how its jobs are counted as done.

One worker process on one asyncpg connection and uvloop, as its command runs one, with batches of a
thousand: at its default of ten it runs a fraction of that.  Tables are durable, its default.
"""

import asyncio
import contextlib
import importlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.loads import Load, data_of
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import Records, wall_s
from benchmarks.rivals.rival import Rival

NAME = "PgQueuer"
BATCH = 1_000
_ENTRYPOINT = "noop"
# A finished job leaves this table in the statement that enters it in the log.
_LEFT = "SELECT count(*) FROM pgqueuer"


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    connection = await importlib.import_module("asyncpg").connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def _queries(connection: Any) -> Any:
    found = importlib.import_module("pgqueuer")
    return found.Queries(found.AsyncpgDriver(connection))


def _migrate(url: str) -> None:
    asyncio.run(_migrated(url))


async def _migrated(url: str) -> None:
    async with _connected(url) as connection:
        await _queries(connection).install()


RIVAL = Rival(NAME, "benchmarks.rivals.pgqueuer", _migrate, _LEFT)


async def _work(spec: dict[str, Any]) -> None:
    records = Records(Path(spec["records"]), spec["slots"])

    async def run(job: Any) -> None:
        records.note(json.loads(job.payload)["number"])

    async with _connected(spec["url"]) as connection:
        queue = importlib.import_module("pgqueuer").PgQueuer.from_asyncpg_connection(connection)
        queue.entrypoint(_ENTRYPOINT)(run)
        running = asyncio.create_task(queue.run(batch_size=BATCH))
        tell("ready")
        await asyncio.to_thread(wait_for_command, "stop")
        queue.shutdown.set()
        await running


async def _enqueue(spec: dict[str, Any]) -> None:
    load = Load(**spec["load"])
    async with _connected(spec["url"]) as connection:
        queries = _queries(connection)
        tell("ready")
        if not await asyncio.to_thread(wait_for_command, "go"):
            return
        began_s = wall_s()
        for some in load.chunks(BATCH):
            await queries.enqueue(
                [_ENTRYPOINT] * len(some),
                [json.dumps(data_of(number)).encode() for number in some],
                [0] * len(some),
                # From when the server gets it: late by as long as the call takes to get there.
                [_ahead(load, number) for number in some] if load.due_s else None,
            )
        tell("done", began_s=began_s, ended_s=wall_s(), due_s=load.due_s)


def _ahead(load: Load, number: int) -> timedelta:
    return timedelta(milliseconds=max(0.0, load.due_ms(number) - wall_s() * 1000))


def main() -> None:
    """Run what this process was told."""
    spec = told()
    uvloop = importlib.import_module("uvloop")
    uvloop.run(_work(spec) if spec["kind"] == "worker" else _enqueue(spec))


if __name__ == "__main__":
    main()
