"""The tasks of the demonstration, their due times, and their writers.

``steady`` comes at 500 a second, ``burst`` all at one moment, ``storm`` while nodes stop, die
and start.  Half of each is written by the client, half as plain JSON by somebody else's
producer; every ordering id has tasks of both.  Beside the storm ``limited`` are due, all at one
moment, of a kind that has a limit.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hourhand import Task
from hourhand.scheduler.demo.audit import Planned

ORDERINGS = 400
STEADY_PER_S = 500
STORM_S = 22
_PAUSE_S = 3
"""Between the parts, so that none is measured in the wake of another."""
MISPLACED = 20
_STORM_WORK_MS = 50
LIMITED_KIND = "mail"
LIMIT_PER_S, LIMIT_BURST = 50, 16
"""Limit of that kind in the whole cluster: a share of one partition still starts one within a
second, and has a burst of 1, so no node has more than its share."""
_LIMITED_TASKS = 900
"""As many as the limit takes until nearly the end of the storm."""
_LIMITED_ORDERINGS = 300


@dataclass(frozen=True, slots=True)
class Job:
    """A task as this demonstration knows it, whoever writes it."""

    task_id: str
    ordering_id: str
    due: datetime
    part: str
    by_client: bool = False
    work_ms: int = 0
    """Duration of an attempt: without any, hardly a task would be in flight at the kill."""
    retry_after_s: int = 0
    kind: str | None = None

    @property
    def data(self) -> dict[str, int]:
        """Data for the executor, without empty members."""
        told = {"work_ms": self.work_ms, "retry_after_s": self.retry_after_s}
        return {name: value for name, value in told.items() if value}

    def planned(self, *, in_order: bool = True) -> Planned:
        """Return what the audit is to expect."""
        due_us = (self.due - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        return Planned(self.task_id, self.ordering_id, due_us, in_order=in_order)

    def task(self) -> Task:
        """Return it as the client takes it."""
        return Task(
            ordering_id=self.ordering_id,
            scheduled_time=self.due,
            uniqueness_key=self.task_id,
            data=dict(self.data),
            kind=self.kind,
        )

    def record(self) -> str:
        """Return the record's value as a program that knows nothing of Hourhand writes it."""
        due = self.due.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps(
            {
                "orderingId": self.ordering_id,
                "scheduledTime": due,
                "uniquenessKey": self.task_id,
                "taskData": self.data,
                "version": 1,
            }
        )


@dataclass(frozen=True, slots=True)
class Workload:
    """All tasks of the main part, with the moments that matter."""

    jobs: Sequence[Job]
    starts: datetime
    burst: datetime
    storm: datetime
    ends: datetime

    def part(self, name: str) -> set[str]:
        """Return the ids of one part's tasks."""
        return {job.task_id for job in self.jobs if job.part == name}


def make_workload(tasks: int, starts: datetime) -> Workload:
    """Lay ``tasks`` tasks out from ``starts`` on."""
    steady, burst = tasks * 4 // 10, tasks * 3 // 10
    burst_at = starts + timedelta(seconds=steady / STEADY_PER_S + _PAUSE_S)
    storm_at = burst_at + timedelta(seconds=2 * _PAUSE_S)
    storm = tasks - steady - burst
    times = [
        *(("steady", starts + timedelta(seconds=n / STEADY_PER_S)) for n in range(steady)),
        *(("burst", burst_at) for _ in range(burst)),
        *(("storm", storm_at + timedelta(seconds=n * STORM_S / storm)) for n in range(storm)),
    ]
    jobs = [
        Job(
            task_id=f"task-{number:06}",
            ordering_id=f"account-{number % ORDERINGS:03}",
            due=whole_millis(due),
            part=part,
            # The writers take turns within each ordering id, and in each round of all ids.
            by_client=(number // ORDERINGS + number % ORDERINGS) % 2 == 0,
            work_ms=_STORM_WORK_MS if part == "storm" else 0,
        )
        for number, (part, due) in enumerate(times)
    ]
    return Workload(jobs, starts, burst_at, storm_at, storm_at + timedelta(seconds=STORM_S))


def limited_jobs(due: datetime) -> list[Job]:
    """Return the tasks of the kind with a limit, all due at one moment, for the client to write."""
    return [
        Job(
            f"limited-{number:04}",
            f"recipient-{number % _LIMITED_ORDERINGS:03}",
            whole_millis(due),
            "limited",
            by_client=True,
            kind=LIMITED_KIND,
        )
        for number in range(_LIMITED_TASKS)
    ]


def misplaced_jobs(due: datetime) -> list[Job]:
    """Return tasks to be put into wrong partitions, each of an ordering id of its own."""
    return [
        Job(f"misplaced-{number:02}", f"stray-{number:02}", whole_millis(due), "misplaced")
        for number in range(MISPLACED)
    ]


def companions(jobs: Iterable[Job]) -> list[Job]:
    """Return for each job another one of its ordering id, to be put where Kafka puts it."""
    return [
        Job(f"companion-of-{job.task_id}", job.ordering_id, job.due, "misplaced") for job in jobs
    ]


def whole_millis(moment: datetime) -> datetime:
    """Cut a moment to what a task's time can hold."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
