"""``make compose-demo``: three nodes in containers run tasks, and one container is killed.

Kafka, Cassandra and the nodes are those of docker/compose.yaml, in a project of their own that
is removed with its volumes at the end.  Executions are judged by the notes of each node.
Exit code 0 only if every check holds.
"""

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from examples.demo_cluster.executor import micros, now_us
from examples.demo_cluster.judge import promises
from examples.demo_cluster.show import Check
from examples.demo_cluster.workload import Workload, make_workload
from examples.demo_doors.stage import show_checks
from hourhand import HourhandError, SchedulerClient, Settings
from hourhand.scheduler.demo.audit import Run
from hourhand.scheduler.demo.records import RecordReader
from tests.servers.compose import ComposeProject
from tests.servers.engine import EngineFailed
from tests.servers.maven import ToolMissing
from tests.servers.termination import terminate_as_interrupt

NODES = (1, 2, 3)
_KILLED = 2
_UP_S = 420
_LEAD_S = 15
"""From the first record to the first task's time: all are accepted well before."""
_KILL_AFTER_S = 6
"""Counted from the start of the storm, whose tasks take a while each."""
_LOOK_S = 0.2
_MISSING_S = 90


@dataclass(frozen=True, slots=True)
class Seen:
    """Evidence for the audit."""

    workload: Workload
    runs: list[Run]
    killed: Mapping[int, int]
    """Number of the node to the moment its container was known to be gone."""
    stop_codes: Mapping[int, int]


def play(project: ComposeProject, folder: Path, tasks: int, say: Callable[[str], None]) -> Seen:
    """Schedule, kill one node under load, wait until all has run, and stop the others."""
    settings = Settings(
        log="kafka",
        store="cassandra",
        kafka={"bootstrap_servers": f"localhost:{project.ports['KAFKA_PORT']}"},
        cassandra={"port": project.ports["CASSANDRA_PORT"]},
    )
    workload = make_workload(tasks, datetime.now(UTC) + timedelta(seconds=_LEAD_S))
    with SchedulerClient(settings) as client:
        accepted = client.schedule_tasks(job.task() for job in workload.jobs)
        accepted.raise_if_rejected()
    say(f"{accepted.accepted:,} tasks accepted by Kafka in its container")
    readers = {number: RecordReader(folder / f"node-{number}") for number in NODES}
    _watch(readers, lambda: now_us() > micros(workload.storm) + _KILL_AFTER_S * 1_000_000, 600)
    project.kill(f"node-{_KILLED}")
    gone_us = now_us()
    say(f"the container of node {_KILLED} killed with SIGKILL")
    wanted = {job.task_id for job in workload.jobs}
    # A task that is missing after that is lost, and the audit says so.
    _watch(
        readers, lambda: wanted <= _done(readers) and now_us() > micros(workload.ends), _MISSING_S
    )
    say(f"{len(_done(readers)):,} tasks have run")
    codes = {number: project.stop(f"node-{number}") for number in NODES if number != _KILLED}
    return Seen(workload, _runs(readers), {_KILLED: gone_us}, codes)


def _watch(readers: Mapping[int, RecordReader], ends: Callable[[], bool], timeout_s: float) -> None:
    pause, deadline = threading.Event(), time.monotonic() + timeout_s
    while not ends() and time.monotonic() < deadline:
        for reader in readers.values():
            reader.read()
        pause.wait(_LOOK_S)


def _done(readers: Mapping[int, RecordReader]) -> set[str]:
    return {run.task_id for run in _runs(readers) if run.succeeded}


def _runs(readers: Mapping[int, RecordReader]) -> list[Run]:
    """Return all attempts, each with its node's number for a pid.

    Every container counts its processes from 1, so pids tell nothing across containers.
    """
    for reader in readers.values():
        reader.read()
    return [replace(run, pid=number) for number, each in readers.items() for run in each.runs]


def judge(seen: Seen) -> list[Check]:
    """Return every check with its verdict."""
    ran_on = {run.pid for run in seen.runs}
    after = [
        run for run in seen.runs if run.pid == _KILLED and run.started_us > seen.killed[_KILLED]
    ]
    badly = [f"node {number}: {code}" for number, code in seen.stop_codes.items() if code]
    return [
        *promises(seen.workload.jobs, seen.runs, seen.killed),
        Check("nodes that ran tasks", "3", str(len(ran_on)), len(ran_on) == len(NODES)),
        Check("started by the killed node after its end", "0", str(len(after)), not after),
        Check(
            "containers that end well when asked to stop",
            str(len(seen.stop_codes)),
            str(len(seen.stop_codes) - len(badly)),
            not badly,
            badly,
        ),
    ]


def main(
    *,
    tasks: Annotated[int, typer.Option(min=1_000, max=100_000, help="How many.")] = 10_000,
) -> None:
    """Run tasks on three nodes in containers, one of which is killed."""
    console = Console()
    terminate_as_interrupt()
    folder = Path(tempfile.mkdtemp(prefix="hourhand-containers-"))
    folder.chmod(0o755)
    console.print("[bold]Hourhand[/] in containers\n")
    holds = False
    try:
        holds = _run(console, folder, tasks)
    except (ToolMissing, EngineFailed, HourhandError) as error:
        console.print("\n[bold red]It did not come to an end:[/]")
        console.print(str(error), highlight=False, markup=False)
    except KeyboardInterrupt:
        console.print("interrupted: nothing is left behind")
        sys.exit(130)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if holds else 1)


def _run(console: Console, folder: Path, tasks: int) -> bool:
    def say(text: str) -> None:
        console.print(f"  [green]●[/] {text}", highlight=False)

    for number in NODES:
        records = folder / f"node-{number}"
        records.mkdir()
        # The nodes run as a user that this machine does not know.
        records.chmod(0o777)
    variables = {"DEMO_FOLDER": str(folder)}
    with ComposeProject("compose.yaml", "compose.demo.yaml", variables=variables) as project:
        say("starting Kafka, Cassandra and three nodes, each when what it needs is healthy …")
        project.up([f"node-{number}" for number in NODES], _UP_S)
        say("three nodes are healthy")
        seen = play(project, folder, tasks, say)
    return show_checks(console, "The audit", judge(seen))


if __name__ == "__main__":
    typer.run(main)
