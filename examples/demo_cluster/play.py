"""The play: writes tasks, starts, stops and kills nodes, and collects the evidence.

It judges nothing; ``judge`` does.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from examples.demo_cluster.executor import ClusterExecutor, LimitedExecutor, micros, now_us
from examples.demo_cluster.workload import (
    LIMITED_KIND,
    Job,
    Workload,
    companions,
    limited_jobs,
    make_workload,
    misplaced_jobs,
    whole_millis,
)
from examples.demo_stage.installation import SESSION_TIMEOUT_MS
from examples.demo_stage.stage import READY_S, Stage
from examples.demo_stage.topic import (
    Found,
    committed_offsets,
    read_all,
    write_by_console,
    write_raw,
)
from hourhand import SchedulerClient, Settings
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import HourhandError
from hourhand.scheduler import wiring
from hourhand.scheduler.demo.audit import Run
from hourhand.scheduler.demo.node import NodeFailed, NodeProcess
from hourhand.scheduler.demo.records import FOLDER_VARIABLE, RecordReader
from hourhand.scheduler.ports.bulk import BulkTable

POISON_KEY = "poisoner"
RETRY_AFTER_S = 20
"""Long enough to end the node before, however busy the machine is."""
_LEAD_S = 14
"""From the first record written to the first task's time: all are accepted well before."""
_LEAD_OF_WRITES = 6
"""Or as many times what the first two records took, where the machine is busy."""
_ACCEPTED_BEFORE_S = 2
_STOP_AFTER_S, _START_AFTER_S, _KILL_AFTER_S = 1, 3, 9
"""Counted from the start of the storm."""
_AT_WORK_S_MAX = 12
"""Seconds that the kill waits for the restarted node: partitions that move to it just before would
be taken for the killed node's, taken over at once.
"""
_STILL_S_MAX = 30
"""Nothing ends for so long where something is lost."""
_QUIET_S = 3


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the checks look at."""

    jobs: Sequence[Job]
    """Every task that was accepted."""
    workload: Workload
    runs: Sequence[Run]
    killed: Mapping[int, int]
    """Pid to the moment it was known to be gone."""
    kill_sent_us: int
    handovers: Sequence[tuple[int, int]]
    """From when until when partitions went from nodes to others while limited tasks were due."""
    first_node_pid: int
    """Process id of the only node before the whole cluster was restarted."""
    stop_codes: Sequence[int]
    """Exit codes of the nodes that were asked to stop."""
    refusal: str
    """The client's answer to a task in the past; empty where it was accepted."""
    commits: Mapping[int, int]
    """Committed offsets while no node ran."""
    records: Sequence[Found]
    dead_letters: Sequence[Found]
    stored: Mapping[str, Sequence[int]]
    """Task id to the partitions that its completions are stored in."""


class Play:
    """One run, in the order of its methods."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self._stage = stage
        self._settings = settings
        self._records = stage.folder / "records"
        self._records.mkdir()
        self._reader = RecordReader(self._records)
        self._jobs: list[Job] = []
        self._stop_codes: list[int] = []
        self._handovers: list[tuple[int, int]] = []
        self._lead_s = float(_LEAD_S)

    def run(self, tasks: int) -> Evidence:
        """Let everything happen; no node is left running."""
        first_pid, commits = self._run_old_tasks()
        workload, refusal = self._schedule(tasks)
        killed, kill_sent_us = self._disturb(workload)
        self._wait_for_all()
        self._stop_codes += self._stage.stop_all()
        self._reader.read()
        topic = self._settings.topic
        return Evidence(
            jobs=self._jobs,
            workload=workload,
            runs=self._reader.runs,
            killed=killed,
            kill_sent_us=kill_sent_us,
            handovers=self._handovers,
            first_node_pid=first_pid,
            stop_codes=self._stop_codes,
            refusal=refusal,
            commits=commits,
            records=read_all(self._settings, topic.name),
            dead_letters=read_all(self._settings, topic.dead_letter),
            stored=self._stored_partitions(),
        )

    def _run_old_tasks(self) -> tuple[int, dict[int, int]]:
        """Have one node read tasks hours old, then restart the whole cluster under one of them.

        Its first attempt asks for another one, so the row is stored, its record is committed,
        and only the store can bring it back.
        """
        now = whole_millis(datetime.now(UTC))
        old = [
            Job("old-in-the-log", "old-1", now - timedelta(hours=3), "old"),
            Job(
                "old-in-the-store",
                "old-2",
                now - timedelta(hours=5),
                "old",
                retry_after_s=RETRY_AFTER_S,
            ),
        ]
        began_us = now_us()
        write_by_console(self._settings, [(job.ordering_id, job.record()) for job in old])
        self._lead_s = max(_LEAD_S, _LEAD_OF_WRITES * (now_us() - began_us) / 1_000_000)
        self._jobs += old
        node = self._start_nodes(1)[0]
        self._stage.say(
            "node 1 alone: two tasks, due 3 and 5 hours ago, were written while none ran"
        )
        self._stage.require(lambda: len(self._runs()) >= len(old), READY_S, "run old tasks")
        self._stop_codes += self._stage.stop_all()
        self._stage.say("the whole cluster is stopped; one of the two still waits in the store")
        return node.pid, committed_offsets(self._settings)

    def _schedule(self, tasks: int) -> tuple[Workload, str]:
        """Start three nodes and write everything, half of it with Kafka's own producer."""
        self._start_nodes(3)
        self._stage.say(
            f"three nodes run: pids {', '.join(str(node.pid) for node in self._stage.nodes)}"
        )
        starts = datetime.now(UTC) + timedelta(seconds=self._lead_s)
        workload = make_workload(tasks, starts)
        strays = misplaced_jobs(starts)
        others = [job for job in workload.jobs if not job.by_client] + companions(strays)
        with SchedulerClient(self._settings) as client, ThreadPoolExecutor(1) as pool:
            lines = [(job.ordering_id, job.record()) for job in others]
            written = pool.submit(write_by_console, self._settings, lines)
            limited = limited_jobs(workload.storm)
            ours = [*(job for job in workload.jobs if job.by_client), *limited]
            result = client.schedule_tasks(job.task() for job in ours)
            result.raise_if_rejected()
            self._stage.say(f"the client wrote {result.accepted:,} tasks")
            refusal = _refusal(client)
            write_raw(self._settings, [*self._misplaced(strays), (3, POISON_KEY, '{"broken')])
            self._stage.say(f"{len(strays)} records went into wrong partitions, and a broken one")
            written.result()
        self._stage.say(f"Kafka's console producer wrote {len(others):,} tasks")
        if datetime.now(UTC) > starts - timedelta(seconds=_ACCEPTED_BEFORE_S):
            raise NodeFailed(f"writing took over {self._lead_s:.0f} s: too slow to judge the order")
        self._jobs += [*workload.jobs, *limited, *strays, *companions(strays)]
        return workload, refusal

    def _misplaced(self, strays: Sequence[Job]) -> list[tuple[int, str, str]]:
        count = self._settings.topic.partitions
        return [
            ((partition_of(job.ordering_id, count) + 1) % count, job.ordering_id, job.record())
            for job in strays
        ]

    def _disturb(self, workload: Workload) -> tuple[dict[int, int], int]:
        """Stop one node, start it again, kill another one, all under load."""
        stopped, killed = self._stage.nodes[:2]
        self._watch_until(workload.storm + timedelta(seconds=_STOP_AFTER_S))
        stop_sent_us = now_us()
        self._stop_codes.append(self._stage.stop(stopped))
        self._handovers.append((stop_sent_us, now_us()))
        self._stage.say(f"pid {stopped.pid} stopped gracefully, exit code {self._stop_codes[-1]}")
        self._watch_until(workload.storm + timedelta(seconds=_START_AFTER_S))
        start_us = now_us()
        started = self._start_nodes(1)[0]
        self._stage.say(f"pid {started.pid} started in its place")
        self._watch_until(workload.storm + timedelta(seconds=_KILL_AFTER_S))
        self._stage.wait_until(lambda: self._has_run(started), _AT_WORK_S_MAX)
        sent_us = now_us()
        self._stage.kill(killed)
        gone_us = now_us()
        # Partitions of the new node moved until now; the killed one's move after its session.
        taken_us = gone_us + 2 * SESSION_TIMEOUT_MS * 1_000
        self._handovers += [(start_us, sent_us), (sent_us, taken_us)]
        self._stage.say(f"pid {killed.pid} killed with SIGKILL")
        self._watch_until(workload.ends)
        return {killed.pid: gone_us}, sent_us

    def _wait_for_all(self) -> None:
        wanted = {job.task_id for job in self._jobs}
        self._stage.wait_for_all(wanted, self._succeeded, _STILL_S_MAX)
        self._stage.pause(_QUIET_S)
        self._stage.say(f"{len(self._succeeded()):,} tasks have run")

    def _has_run(self, node: NodeProcess) -> bool:
        return any(run.pid == node.pid for run in self._runs())

    def _runs(self) -> list[Run]:
        self._reader.read()
        return self._reader.runs

    def _succeeded(self) -> set[str]:
        self._reader.read()
        return self._reader.succeeded

    def _start_nodes(self, count: int) -> list[NodeProcess]:
        module = ClusterExecutor.__module__
        executors = (
            f"{module}:{ClusterExecutor.__name__}",
            f"{LIMITED_KIND}={module}:{LimitedExecutor.__name__}",
        )
        command = ("run", *(word for each in executors for word in ("--executor", each)))
        return self._stage.start(count, command, {FOLDER_VARIABLE: str(self._records)})

    def _watch_until(self, moment: datetime) -> None:
        self._stage.wait_until(lambda: now_us() >= micros(moment), 600)

    def _stored_partitions(self) -> dict[str, list[int]]:
        stored: dict[str, list[int]] = {}
        with closing(wiring.open_bulk(self._settings)) as bulk:
            # Not by a query of its own: completions are rows and entries of segments.
            for page in bulk.scan_part(BulkTable.STATUSES, 0, 1, ["uniqueness_key", "partition"]):
                for key, partition in zip(page["uniqueness_key"], page["partition"], strict=True):
                    stored.setdefault(str(key), []).append(int(str(partition)))
        return stored


def _refusal(client: SchedulerClient) -> str:
    job = Job("in-the-past", "old-3", datetime.now(UTC) - timedelta(hours=1), "refused")
    try:
        client.schedule_task(job.task()).result(timeout=30)
    except HourhandError as error:
        return f"{type(error).__name__}: {error}"
    return ""
