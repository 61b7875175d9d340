"""``python examples/nightly_jobs.py``: a job each night for every tenant, at half past two there.

Each tenant has a schedule in its own time zone and an ordering id of its own, so one whose job
is slow or fails holds up nobody else's.  A job's report is a file named after the tenant and the
night: a job that runs again writes the same one.
"""

import queue
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from hourhand import Scheduler, SchedulerClient, Settings, Task, TaskExecutor

NIGHTLY = "30 2 * * *"
TENANTS = {"acme": "Europe/Berlin", "globex": "America/New_York", "initech": "Asia/Tokyo"}
_WAIT_S = 60


class NightlyJob(TaskExecutor):
    """Writes one tenant's report of one night."""

    timeout = timedelta(hours=2)

    def __init__(self, reports: Path, done: "queue.SimpleQueue[Path]") -> None:
        self._reports = reports
        self._done = done

    def execute(self, task: Task) -> None:
        """Do the night's work; a real one would ask a database."""
        night = task.scheduled_time.astimezone(ZoneInfo(str(task.data["time_zone"])))
        report = self._reports / task.ordering_id / f"{night:%Y-%m-%d}.txt"
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(f"{task.ordering_id}: all accounts balanced\n", encoding="utf-8")
        self._done.put(report)


def set_up(client: SchedulerClient, tenants: Mapping[str, str]) -> None:
    """Set each tenant's schedule; one that is set already stays as it is, or takes the new zone."""
    accepted = [
        client.schedule_recurring(
            f"nightly-{tenant}",
            cron=NIGHTLY,
            time_zone=time_zone,
            ordering_id=tenant,
            data={"time_zone": time_zone},
            overlap="skip",  # a job that takes longer than a day is not started twice
            catch_up=timedelta(hours=6),  # after an outage the night is made up for until 8:30
        )
        for tenant, time_zone in tenants.items()
    ]
    for future in accepted:
        future.result(_WAIT_S)


def sign_off(client: SchedulerClient, tenant: str) -> None:
    """End a tenant's schedule."""
    client.delete_recurring(f"nightly-{tenant}").result(_WAIT_S)


def main() -> None:
    """Set up three tenants and, rather than wait for the night, run their jobs once now."""
    done: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with Scheduler(Settings(), executor=lambda: NightlyJob(Path("reports"), done)) as scheduler:
        set_up(scheduler, TENANTS)
        for tenant in TENANTS:
            scheduler.trigger_recurring(f"nightly-{tenant}").result(_WAIT_S)
        reports = sorted(done.get(timeout=_WAIT_S) for _ in TENANTS)
        for schedule in scheduler.list_recurring():
            print(schedule.name, "at", schedule.rule.cron, schedule.rule.time_zone)
    print(*reports, sep="\n")
    sys.exit(0 if [report.parent.name for report in reports] == sorted(TENANTS) else 1)


if __name__ == "__main__":
    main()
