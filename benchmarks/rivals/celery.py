"""Celery: workers and clients as programs, for tasks that compute in its prefork pool.

Everything at its defaults, except for the broker: a folder, which needs no server and is looked at
each 10 ms.  A task of a tenth of a second does not feel the broker.  No results are kept, so the
clock stops when the last task has computed.
"""

import importlib
import importlib.util
import os
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.loads import Load, data_of
from benchmarks.program import Program, tell, told, wait_for_command
from benchmarks.programs import process_work
from benchmarks.records import exactly_once, wall_s

NAME = "Celery"
_MODULE = "benchmarks.rivals.celery"
_TASK = "compute"
_POLL_S = 0.01


def is_installed() -> bool:
    """Return True if it can be run here; tell loudly where it is missing."""
    found = importlib.util.find_spec("celery") is not None
    if not found:
        text = f"\n*** WITHOUT {NAME}: pip install --group bench\n"
        sys.stderr.write(f"{text}*** Nothing is compared with it.\n\n")
    return found


def computed_per_s(bench: Bench, load: Load, processes: int) -> float:
    """Return how many tasks a second a worker of so many processes computes.

    Counted from the first that is sent to the end of the last.
    """
    records = bench.records(load.count)
    spec = {"broker": str(bench.folder / bench.servers.name("celery")), "load": asdict(load)}
    kept = {"records": str(records.path), "slots": records.slots, "processes": processes}
    with Program(_MODULE, {**spec, **kept, "kind": "worker"}, bench.folder) as worker:
        worker.expect("ready", READY_S)
        with Program(_MODULE, {**spec, "kind": "client"}, bench.folder) as client:
            client.expect("ready", READY_S)
            client.say("go")
            began_s = float(client.expect("done", RUN_S)["began_s"])
            records.wait_for(load.count, RUN_S)
    executions = list(records)
    exactly_once(executions, load.count)
    return load.count / (max(each.started_s for each in executions) - began_s)


def _app(folder: Path) -> Any:
    messages, control = folder / "messages", folder / "control"
    for each in (messages, control):
        each.mkdir(parents=True, exist_ok=True)
    app = importlib.import_module("celery").Celery("bench", broker="filesystem://")
    app.conf.broker_transport_options = {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(control),
        "polling_interval": _POLL_S,
    }
    app.conf.task_ignore_result = True
    # Its output is what tells the benchmark how far it is.
    app.conf.worker_redirect_stdouts = False
    return app


def _work(spec: dict[str, Any]) -> None:
    def keep_records(**_: object) -> None:
        process_work.keep_records(Path(spec["records"]), spec["slots"])

    app = _app(Path(spec["broker"]))

    def run(number: int, note: str) -> None:
        del note
        process_work.compute()
        process_work.note(number)

    app.task(name=_TASK)(run)
    signals = importlib.import_module("celery.signals")
    # Each process of the pool is forked from this one.
    signals.worker_process_init.connect(keep_records, weak=False)
    ready = threading.Event()
    signals.worker_ready.connect(lambda **_: ready.set(), weak=False)
    threading.Thread(target=_talk, args=(ready,), daemon=True).start()
    app.Worker(pool="prefork", concurrency=spec["processes"], loglevel="WARNING").start()


def _talk(ready: threading.Event) -> None:
    ready.wait()
    tell("ready")
    wait_for_command("stop")
    os.kill(os.getpid(), signal.SIGTERM)


def _send(spec: dict[str, Any]) -> None:
    load, app = Load(**spec["load"]), _app(Path(spec["broker"]))
    with app.connection_for_write() as connection:
        connection.connect()
        tell("ready")
        if not wait_for_command("go"):
            return
        began_s = wall_s()
        for number in load.numbers():
            app.send_task(_TASK, kwargs=data_of(number), connection=connection)
        tell("done", began_s=began_s)


def main() -> None:
    """Run what this process was told."""
    spec = told()
    if spec["kind"] == "worker":
        _work(spec)
    else:
        _send(spec)


if __name__ == "__main__":
    main()
