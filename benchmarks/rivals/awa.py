"""awa-pg: workers and clients as programs, and how its jobs are counted as done.

One queue, its Rust engine with Python handlers, migrations as its documents say, everything
else at its defaults.  ``main`` is a worker or a client, by the kind it is told.
"""

import asyncio
import importlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.loads import NOTE, Load
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import Records, wall_s
from benchmarks.rivals.rival import Rival

NAME = "awa-pg"
WORKERS = 256
"""With 64 it ran fewer than half as many jobs a second on two cores."""
_QUEUE = "bench"
_CHUNK = 5_000
_CALLS_AT_ONCE = 8
_GRAIN_MS = 10
"""COPY takes one due time a call, so jobs ahead are due in steps of this."""
# Its own view of jobs joins every job with its row; these are the tables a finished job is in, and
# what it has counted of those that it has deleted since, some seconds later.
_DONE = """
SELECT (SELECT count(*) FROM awa.done_entries)
     + (SELECT coalesce(sum(cardinality(job_ids)), 0) FROM awa.receipt_completion_batches)
     + (SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups)
"""


@dataclass
class NoOp:
    """The arguments of a job; its class names its kind."""

    number: int
    note: str


def _client(url: str) -> Any:
    return importlib.import_module("awa").AsyncClient(url)


async def _nothing(job: Any) -> None:
    """Do nothing with a job."""


def _migrate(url: str) -> None:
    asyncio.run(_migrated(url))


async def _migrated(url: str) -> None:
    found = _client(url)
    await found.migrate()
    # Its first worker makes the storage that COPY needs active.
    found.task(NoOp, queue=_QUEUE)(_nothing)
    await found.start([(_QUEUE, 1)])
    await found.shutdown()
    # A database that somebody is connected to cannot be copied.
    await found.close()


RIVAL = Rival(NAME, "benchmarks.rivals.awa", _migrate, _DONE, counts_done=True, grain_ms=_GRAIN_MS)


async def _work(spec: dict[str, Any]) -> None:
    records = Records(Path(spec["records"]), spec["slots"])
    note = records.note
    found = _client(spec["url"])

    async def run(job: Any) -> None:
        note(job.args.number)

    found.task(NoOp, queue=_QUEUE)(run)
    await found.start([(_QUEUE, WORKERS)])
    tell("ready")
    await asyncio.to_thread(wait_for_command, "stop")
    await found.shutdown()


async def _enqueue(spec: dict[str, Any]) -> None:
    load, found = Load(**spec["load"]), _client(spec["url"])
    tell("ready")
    if not await asyncio.to_thread(wait_for_command, "go"):
        return
    began_s = wall_s()
    room = asyncio.Semaphore(_CALLS_AT_ONCE)

    async def copy(some: Sequence[int], run_at: datetime | None) -> None:
        async with room:
            jobs = [NoOp(number, NOTE) for number in some]
            await found.enqueue_many_copy(jobs, queue=_QUEUE, run_at=run_at)

    if load.due_s:
        by_due = itertools.groupby(load.numbers(), lambda number: RIVAL.due_ms(load, number))
        later = [copy(list(some), datetime.fromtimestamp(ms / 1000, UTC)) for ms, some in by_due]
        await asyncio.gather(*later)
    else:
        for some in load.chunks(_CHUNK):
            await copy(some, None)
    tell("done", began_s=began_s, ended_s=wall_s(), due_s=load.due_s)


def main() -> None:
    """Run what this process was told."""
    spec = told()
    asyncio.run(_work(spec) if spec["kind"] == "worker" else _enqueue(spec))


if __name__ == "__main__":
    # Under its importable name, not as __main__: the class of the arguments names the kind.
    importlib.import_module(RIVAL.module).main()
