"""Huey in a file of SQLite: workers and clients as programs, and how its jobs are counted as done.

One consumer of threads at its defaults.  It has no call for many jobs, so each is a transaction.
``SqliteHuey`` leaves SQLite's default, which syncs each commit; ``fsync=True`` says the same.
"""

import importlib
import importlib.util
import logging
from pathlib import Path
from typing import Any

from benchmarks.loads import Load, data_of
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import Records, wall_s
from benchmarks.rivals.rival import Rival, RivalMissing

NAME = "Huey"
_MODULE = "benchmarks.rivals.huey"
# A job leaves this table as it is taken, and is run then.
_LEFT = "SELECT count(*) FROM task"


def _install() -> None:
    if importlib.util.find_spec("huey") is None:
        raise RivalMissing("pip install --group bench")


def _huey(path: str) -> Any:
    return importlib.import_module("huey").SqliteHuey("bench", filename=path, fsync=True)


def _migrate(path: str) -> None:
    _huey(path).storage.close()


RIVAL = Rival(NAME, _MODULE, _migrate, _LEFT, install=_install, survives="no / no")


def _work(spec: dict[str, Any]) -> None:
    records = Records(Path(spec["records"]), spec["slots"])
    # It tells of each job.
    logging.getLogger("huey").setLevel(logging.WARNING)
    huey = _huey(spec["url"])

    def noop(number: int, note: str) -> None:
        del note
        records.note(number)

    huey.task(name="noop")(noop)
    consumer = huey.create_consumer(workers=1, periodic=False)
    consumer.start()
    tell("ready")
    wait_for_command("stop")
    consumer.stop(graceful=True)


def _enqueue(spec: dict[str, Any]) -> None:
    load = Load(**spec["load"])
    huey = _huey(spec["url"])

    def noop(number: int, note: str) -> None:
        del number, note

    task = huey.task(name="noop")(noop)
    tell("ready")
    if not wait_for_command("go"):
        return
    began_s = wall_s()
    for some in load.chunks(1):
        for number in some:
            task(**data_of(number))
    tell("done", began_s=began_s, ended_s=wall_s(), due_s=load.due_s)


def main() -> None:
    """Run what this process was told."""
    spec = told()
    (_work if spec["kind"] == "worker" else _enqueue)(spec)


if __name__ == "__main__":
    # Under its importable name, not as __main__: the module of a function names its jobs.
    importlib.import_module(_MODULE).main()
