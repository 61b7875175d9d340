"""Flow control on this machine, with no server: ``make demo-flow``.

Two tenants, three kinds, a limit, a priority, a fair share and a batch executor, on one embedded
node.  One tenant brings ten times as much as the other.  Prints what was promised and what was
seen; the exit code is 0 only where all of it holds.
"""

import bisect
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from rich.console import Console

from examples.demo_stage.checks import Check, count_check, number_check, show_checks
from hourhand import FairShare, Hourhand, Limit, Scheduler, Settings, Task
from hourhand.scheduler.adapters.clock import SystemClock

TENANTS = {"big": 10, "small": 1}
"""Relative amounts of mail of each tenant."""
MAILS, ROWS, JOBS = 50, 200, 300
"""Tasks of the small tenant, by kind."""
ALERTS = 40
RATE, BURST = 50, 10
AT_ONCE = 3
JOB_S = 0.004
WORKERS = 4
LATE_MS_MAX = 500.0
DEADLINE_S = 75.0

app = Hourhand()
_clock, _never = SystemClock(), threading.Event()


class Start(NamedTuple):
    """One start of user code."""

    at_ms: float
    kind: str
    tenant: str
    key: str


class Seen:
    """Notes of the executors."""

    def __init__(self) -> None:
        self.starts: list[Start] = []
        self.batches: list[int] = []
        self.jobs_at_once_max = 0
        self._jobs_at_once = 0
        self._lock = threading.Lock()

    def start(self, kind: str, task: Task) -> None:
        """Note the start of a task."""
        tenant = str(task.data["tenant"])
        self.starts.append(Start(_clock.monotonic_ms(), kind, tenant, str(task.key)))

    def count_job(self, change: int) -> None:
        """Note that a job began or ended."""
        with self._lock:
            self._jobs_at_once += change
            self.jobs_at_once_max = max(self.jobs_at_once_max, self._jobs_at_once)

    def of(self, kind: str, tenant: str | None = None) -> list[float]:
        """Return when tasks of a kind began, in order."""
        return sorted(
            each.at_ms
            for each in self.starts
            if each.kind == kind and tenant in {None, each.tenant}
        )


seen = Seen()


@app.task("mail", limits=Limit(rate=RATE, burst=BURST, key="tenant"))
async def mail(payload: dict[str, Any], task: Task) -> None:
    """Would send a mail through a service that allows so many a second to each customer of ours."""
    del payload
    seen.start("mail", task)


@app.batch("row", tasks_max=100, wait=timedelta(milliseconds=50))
def insert_rows(tasks: list[Task]) -> None:
    """Would insert rows."""
    seen.batches.append(len(tasks))
    for task in tasks:
        seen.start("row", task)


@app.task("job", limits=Limit(concurrency=AT_ONCE), fair=FairShare(key="tenant"))
def job(payload: dict[str, Any], task: Task) -> None:
    """Keep a worker for some milliseconds."""
    del payload
    seen.start("job", task)
    seen.count_job(1)
    _never.wait(JOB_S)
    seen.count_job(-1)


@app.task("alert", priority=10)
def alert(payload: dict[str, Any], task: Task) -> None:
    """Would wake somebody up."""
    del payload
    seen.start("alert", task)


def tasks_due(scheduler: Scheduler) -> Iterator[tuple[Task, float]]:
    """Yield all tasks, and when each is due by the clock that starts are measured with."""
    begin, begin_ms = scheduler.now + timedelta(seconds=3), _clock.monotonic_ms() + 3_000
    for kind, count in (("mail", MAILS), ("row", ROWS), ("job", JOBS)):
        for tenant, times in TENANTS.items():
            for number in range(count * times):
                yield _task(kind, tenant, number, begin), begin_ms
    for number in range(ALERTS):
        after_ms = 50 * number
        due = begin + timedelta(milliseconds=after_ms)
        yield _task("alert", "small", number, due), begin_ms + after_ms


def _task(kind: str, tenant: str, number: int, due: Any) -> Task:
    return Task(
        ordering_id=f"{kind}-{tenant}-{number}",
        scheduled_time=due,
        uniqueness_key="once",
        data={"tenant": tenant},
        kind=kind,
    )


def judged(due_ms: dict[str, float]) -> Iterator[Check]:
    """Yield what was promised, beside what was seen."""
    ran = Counter(each.key for each in seen.starts)
    yield number_check("tasks that ran", len(due_ms), len(due_ms.keys() & ran.keys()))
    yield count_check("tasks that ran again", [key for key, times in ran.items() if times > 1])
    early = [each.key for each in seen.starts if each.at_ms < due_ms[each.key] - 2]
    yield count_check("early tasks", early)
    for tenant in TENANTS:
        yield from _judged_mails(tenant)
    most = seen.jobs_at_once_max
    yield Check("jobs at once", f"<= {AT_ONCE}", f"{most}", most <= AT_ONCE)
    sizes = seen.batches
    mean = sum(sizes) / max(1, len(sizes))
    yield Check(
        "rows in a batch: mean, most",
        ">= 10, <= 100",
        f"{mean:.0f}, {max(sizes, default=0)}",
        bool(sizes) and max(sizes) <= 100 and mean >= 10,
    )
    big, small = seen.of("job", "big"), seen.of("job", "small")
    before = bisect.bisect(big, small[-1]) if small else len(big)
    yield Check(
        "jobs of big beside those of small",
        f"about {len(small)}",
        f"{before:,}",
        before <= 1.5 * len(small),
    )
    late_ms = [e.at_ms - due_ms[e.key] for e in seen.starts if e.kind == "alert"]
    busy_ms = seen.of("job")[-1] - seen.of("job")[0]
    yield Check(
        f"alerts in {busy_ms / 1000:.1f} s of backlog: latest",
        f"<= {LATE_MS_MAX:.0f} ms",
        f"{max(late_ms):.0f} ms",
        max(late_ms) <= LATE_MS_MAX < busy_ms,
    )


def _judged_mails(tenant: str) -> Iterator[Check]:
    """Judge the limit of one tenant: never exceeded, and used."""
    mails = seen.of("mail", tenant)
    level, excess = 1.0, 0.0
    for before_ms, at_ms in pairwise(mails):
        # A bucket that leaks at the rate and holds the burst.
        level = max(0.0, level - (at_ms - before_ms) * RATE / 1_000) + 1
        excess = max(excess, level - BURST)
    yield Check(
        f"mails of {tenant} above {RATE}/s and {BURST} at once",
        "<= 0.5",
        f"{max(0.0, excess):.2f}",
        excess <= 0.5,
    )
    least_s = max(0, len(mails) - BURST) / RATE
    took_s = (mails[-1] - mails[0]) / 1_000
    yield Check(
        f"time for {len(mails)} of them",
        f"about {least_s:.1f} s",
        f"{took_s:.1f} s",
        took_s <= 1.05 * least_s + 0.5,
    )


def main() -> int:
    """Run it; return the exit code."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hourhand-flow-") as folder:
        settings = Settings(embedded={"folder": folder}, tree={"execution": {"workers": WORKERS}})
        with Scheduler(settings, executors=app) as scheduler:
            due_ms: dict[str, float] = {}
            futures = []
            for task, at_ms in tasks_due(scheduler):
                due_ms[str(task.key)] = at_ms
                futures.append(scheduler.schedule_task(task))
            for future in futures:
                future.result(30)
            console.print(f"{len(futures):,} tasks are scheduled; they run now", highlight=False)
            ends_ms = _clock.monotonic_ms() + 1_000 * DEADLINE_S
            while len(seen.starts) < len(due_ms) and _clock.monotonic_ms() < ends_ms:
                _never.wait(0.2)
    title = "Flow control: two tenants, one node"
    return 0 if show_checks(console, title, list(judged(due_ms))) else 1


if __name__ == "__main__":
    sys.exit(main())
