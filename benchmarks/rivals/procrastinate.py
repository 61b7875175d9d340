"""procrastinate: workers and clients as programs, and how its jobs are counted as done.

One worker process with the concurrency that its documents suggest for jobs that wait for
nothing, jobs deferred in batches, everything else at its defaults.
"""

import asyncio
import importlib
from pathlib import Path
from typing import Any

from benchmarks.loads import Load, data_of
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import Records, wall_s
from benchmarks.rivals.rival import Rival

NAME = "procrastinate"
CONCURRENCY = 64
_CHUNK = 1_000
_DONE = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"


def _app(url: str) -> Any:
    found = importlib.import_module("procrastinate")
    return found.App(connector=found.PsycopgConnector(conninfo=url))


def _migrate(url: str) -> None:
    asyncio.run(_migrated(url))


async def _migrated(url: str) -> None:
    app = _app(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


RIVAL = Rival(NAME, "benchmarks.rivals.procrastinate", _migrate, _DONE, counts_done=True)


async def _work(spec: dict[str, Any]) -> None:
    records = Records(Path(spec["records"]), spec["slots"])
    app = _app(spec["url"])

    async def run(number: int, note: str) -> None:
        del note
        records.note(number)

    app.task(name="noop")(run)
    async with app.open_async():
        worker_task = asyncio.create_task(
            app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        )
        tell("ready")
        await asyncio.to_thread(wait_for_command, "stop")
        worker_task.cancel()
        await asyncio.gather(worker_task, return_exceptions=True)


async def _enqueue(spec: dict[str, Any]) -> None:
    load, app = Load(**spec["load"]), _app(spec["url"])
    async with app.open_async():
        deferrer = app.configure_task("noop", allow_unknown=True)
        tell("ready")
        if not await asyncio.to_thread(wait_for_command, "go"):
            return
        began_s = wall_s()
        for some in load.chunks(_CHUNK):
            await deferrer.batch_defer_async(*(data_of(number) for number in some))
        tell("done", began_s=began_s, ended_s=wall_s(), due_s=load.due_s)


def main() -> None:
    """Run what this process was told."""
    spec = told()
    asyncio.run(_work(spec) if spec["kind"] == "worker" else _enqueue(spec))


if __name__ == "__main__":
    main()
