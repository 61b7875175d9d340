"""Work for a dashboard to show: a steady stream, herds ahead, keys that block, broken records.

Decides what is scheduled when; every number of it is made from a seed.
"""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any

from examples.demo_stage.topic import write_raw
from hourhand import HourhandError, SchedulerClient, Settings, Task
from hourhand.actors.model.task.partition import partition_of

STUCK = ("acme-travel", "blue-harbor", "cedar-foods", "delta-print", "evergreen", "fjord-energy")
"""Ordering ids whose first task fails for good."""
BROKEN = (
    '{"orderingId": "acme-travel", "scheduledTime": "tomorrow", "uniquenessKey": "invoice-9"}',
    '{"orderingId": "blue-harbor", "scheduledTime": "2026-02-09T01:41:12Z"}',
    "<invoice><customer>cedar-foods</customer></invoice>",
)
"""Records that a producer of somebody else's wrote, and nobody can read."""
_CUSTOMERS = 400
_KINDS = ("reminder", "invoice", "trial-ends", "renewal")
_AHEAD_TASKS = 12_000
_MINUTE_S = 60
_ACCEPTED_S = 60.0
_STUCK_MS = 150
_FLAKY_SHARE = 0.004


class Load:
    """Schedules until it is closed."""

    def __init__(self, settings: Settings, per_s: float) -> None:
        self._settings = settings
        self._per_s = per_s
        self._random = random.Random(7)  # noqa: S311 - the same load each time
        self._client = SchedulerClient(settings)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-load", daemon=True)

    def begin(self) -> None:
        """Lay out what lies ahead, block some keys, then let tasks fall due all the time."""
        self._accepted(map(self._client.schedule_task, [*self._ahead(), *self._stuck()]))
        self._accepted(self._recurring())
        partitions = self._settings.topic.partitions
        write_raw(
            self._settings,
            [(partition_of(value, partitions), value[:12], value) for value in BROKEN],
        )
        self._thread.start()

    def close(self) -> None:
        """Schedule no more."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._client.close()

    def _run(self) -> None:
        number = 0
        while not self._closed.wait(1 / self._per_s):
            number += 1
            due = datetime.now(UTC) + timedelta(milliseconds=self._random.randint(200, 1_500))
            task = self._task(due, f"live-{number:06}", {"work_ms": self._random.randint(2, 60)})
            if self._random.random() < _FLAKY_SHARE:
                # It has its own ordering id, or a customer's other tasks would wait behind it.
                task = Task(
                    ordering_id=f"partner-{number:06}",
                    scheduled_time=due,
                    uniqueness_key="sync",
                    data={"again_s": 30},
                )
            try:
                self._client.schedule_task(task)
            except HourhandError:
                # Servers that are stopped under it, or a log that is full for a moment.
                continue

    def _ahead(self) -> Iterator[Task]:
        """Yield tasks of the next days: every hour begins with a herd, and every minute a bit."""
        now = datetime.now(UTC).replace(microsecond=0)
        for number in range(_AHEAD_TASKS):
            due = now + timedelta(seconds=120 + self._random.expovariate(1 / 18_000))
            if number % 3 == 0:
                due = due.replace(second=0) + timedelta(seconds=_MINUTE_S)
            if number % 9 == 0:
                due = due.replace(minute=0) + timedelta(hours=1)
            data = {"kind": _KINDS[number % 4], "amount": f"{self._random.randint(500, 90_000)}"}
            yield self._task(due, f"{_KINDS[number % 4]}-{number:05}", data)

    def _stuck(self) -> Iterator[Task]:
        """Yield tasks of ids that block: the first fails for good, the others wait behind it."""
        now = datetime.now(UTC)
        for place, ordering_id in enumerate(STUCK):
            for number in range(3 + 7 * place):
                due = now + timedelta(milliseconds=_STUCK_MS * (number + 1))
                data = {"kind": "invoice", "customer": ordering_id, "fails": 0 if number else 999}
                yield Task(
                    ordering_id=ordering_id,
                    scheduled_time=due,
                    uniqueness_key=f"invoice-{number:03}",
                    data=data,
                )

    def _recurring(self) -> "Iterator[Future[Any]]":
        client = self._client
        yield client.schedule_recurring(
            "nightly-report", cron="0 3 * * *", time_zone="Europe/Berlin"
        )
        yield client.schedule_recurring("month-end", cron="30 23 L * *")
        yield client.schedule_recurring(
            "heartbeat", every=timedelta(seconds=15), data={"work_ms": 5}
        )
        yield client.schedule_recurring("trial-sweep", cron="*/5 * * * *", data={"work_ms": 40})
        yield client.pause_recurring("trial-sweep")
        for number in range(40):
            wait = timedelta(minutes=30 + 2 * number)
            body = f'{{"order": {4_000 + number}}}'.encode()
            yield client.send_later(b"order", body, "orders-out", wait)

    def _task(self, due: datetime, name: str, data: dict[str, Any]) -> Task:
        customer = f"customer-{self._random.randrange(_CUSTOMERS):03}"
        return Task(ordering_id=customer, scheduled_time=due, uniqueness_key=name, data=data)

    def _accepted(self, futures: "Iterator[Future[Any]]") -> None:
        for future in list(futures):
            future.result(_ACCEPTED_S)
