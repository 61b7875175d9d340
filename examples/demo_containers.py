"""``make compose-demo``: three nodes in containers run tasks, and one container is killed.

Kafka, Cassandra and the nodes are those of docker/compose.yaml, in a project of their own that
is removed with its volumes at the end.  Executions are judged by the notes of each node.
Exit code 0 only if every check holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from examples.demo_cluster.executor import micros, now_us
from examples.demo_cluster.judge import promises
from examples.demo_cluster.workload import Workload, make_workload
from examples.demo_stage.checks import Check, count_check, show_checks
from examples.demo_stage.stage import Stage, perform
from hourhand import SchedulerClient, Settings
from hourhand.scheduler.demo.audit import Run
from hourhand.scheduler.demo.records import RecordReader
from tests.servers.compose import ComposeProject

NODES = (1, 2, 3)
_KILLED = 2
_UP_S = 420
_LEAD_S = 15
"""From the first record to the first task's time: all are accepted well before."""
_KILL_AFTER_S = 6
"""Counted from the start of the storm, whose tasks take a while each."""
_MISSING_S = 90


@dataclass(frozen=True, slots=True)
class Seen:
    """Evidence for the audit."""

    workload: Workload
    runs: list[Run]
    killed: Mapping[int, int]
    """Number of the node to the moment its container was known to be gone."""
    stop_codes: Mapping[int, int]


def play(stage: Stage, project: ComposeProject, tasks: int) -> Seen:
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
    stage.say(f"{accepted.accepted:,} tasks accepted by Kafka in its container")
    readers = {number: RecordReader(stage.folder / f"node-{number}") for number in NODES}
    stage.wait_until(lambda: now_us() > micros(workload.storm) + _KILL_AFTER_S * 1_000_000, 600)
    project.kill(f"node-{_KILLED}")
    gone_us = now_us()
    stage.say(f"the container of node {_KILLED} killed with SIGKILL")
    wanted = {job.task_id for job in workload.jobs}
    # A task that is missing after that is lost, and the audit says so.
    stage.wait_until(
        lambda: wanted <= _done(readers) and now_us() > micros(workload.ends), _MISSING_S
    )
    stage.say(f"{len(_done(readers)):,} tasks have run")
    codes = {number: project.stop(f"node-{number}") for number in NODES if number != _KILLED}
    return Seen(workload, _runs(readers), {_KILLED: gone_us}, codes)


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
        count_check("nodes that ran tasks", ran_on, len(NODES)),
        count_check("started by the killed node after its end", after),
        count_check("containers that end badly when asked to stop", badly),
    ]


def _run(stage: Stage, tasks: int) -> bool:
    stage.folder.chmod(0o755)
    for number in NODES:
        records = stage.folder / f"node-{number}"
        records.mkdir()
        # The nodes run as a user that this machine does not know.
        records.chmod(0o777)
    variables = {"DEMO_FOLDER": str(stage.folder)}
    with ComposeProject("compose.yaml", "compose.demo.yaml", variables=variables) as project:
        stage.say("starting Kafka, Cassandra and three nodes, each when what it needs is healthy …")
        project.up([f"node-{number}" for number in NODES], _UP_S)
        stage.say("three nodes are healthy")
        seen = play(stage, project, tasks)
    return show_checks(stage.console, "The audit", judge(seen))


def main(
    *,
    tasks: Annotated[int, typer.Option(min=1_000, max=100_000, help="How many.")] = 10_000,
) -> None:
    """Run tasks on three nodes in containers, one of which is killed."""
    perform("Hourhand in containers", lambda stage: _run(stage, tasks))


if __name__ == "__main__":
    typer.run(main)
