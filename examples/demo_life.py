"""The life of a task on this machine, with no server: ``make demo-life``.

A shop charges invoices and sends reminders.  Some reminders expire behind a slow call, some are
replaced by a later one, a charge waits for its bank by snoozes and returns what it charged, a
receipt follows it, and the cancellation of an order takes back its charge at once.  Prints what was
promised and what was seen; the exit code is 0 only where all of it holds.
"""

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rich.console import Console

from examples.demo_stage.checks import Check, number_check, show_checks
from hourhand import Done, Hourhand, Scheduler, Settings, Snooze, Task, TaskInfo
from hourhand.scheduler.adapters.clock import SystemClock

CUSTOMERS = {"on time": 20, "behind a slow call": 8, "replaced": 6}
"""Customers that get a reminder, by what becomes of it."""
CHARGES, CANCELLED = 24, 6
"""Orders that are charged, and orders that are cancelled before."""
EXPIRES_S, SLOW_S = 1.0, 2.5
"""A reminder is worth nothing after the first; the call before some reminders takes the second."""
BEGIN_S, SETTLED_S, SNOOZE_S = 1.0, 2.0, 0.4
"""When all is due, when the bank answers, and how long a charge waits before it asks again."""
LATER_S = 1.5
DEADLINE_S = 40.0

app = Hourhand()
_clock = SystemClock()


@dataclass
class Bank:
    """The bank that the charges ask."""

    settled: threading.Event = field(default_factory=threading.Event)
    calls: Counter[str] = field(default_factory=Counter)
    """By order."""


@dataclass
class Sent:
    """The reminders that were sent, as customer and the hour that it was told; and the receipts."""

    mails: list[tuple[str, str]] = field(default_factory=list)
    receipts: dict[str, int] = field(default_factory=dict)
    """The cents that a receipt tells, by its ordering id."""


bank, sent = Bank(), Sent()
_never = threading.Event()


@app.task("sync")
def sync(task: Task) -> None:
    """Call another system, which is slow."""
    del task
    _never.wait(SLOW_S)


@app.task("remind", expires_after=timedelta(seconds=EXPIRES_S))
def remind(task: Task) -> None:
    """Send a reminder, which is worth nothing when it is late."""
    sent.mails.append((task.ordering_id, str(task.data["visit"])))


@app.task("charge")
def charge(task: Task) -> Done | Snooze:
    """Charge an invoice as soon as the bank has settled it."""
    bank.calls[task.ordering_id] += 1
    if not bank.settled.is_set():
        return Snooze(timedelta(seconds=SNOOZE_S), times_max=50)
    return Done({"charged": task.data["cents"], "snoozes": app.snoozed})


@app.task("receipt")
def receipt(task: Task) -> None:
    """Send a receipt for the charge that came before."""
    (charged,) = task.after
    if isinstance(charged.result, dict):
        sent.receipts[task.ordering_id] = int(str(charged.result["charged"]))


@dataclass(frozen=True, slots=True)
class Seen:
    """The end of the story, for the judge."""

    mails: Sequence[tuple[str, str]]
    receipts: Mapping[str, int]
    calls: Mapping[str, int]
    reminders: Mapping[str, Sequence[TaskInfo]]
    """The reminders in the end, by what should become of them."""
    charges: Sequence[TaskInfo]
    results: Mapping[str, Any]
    """The value that each charge returned, by order."""
    cancelled: Sequence[TaskInfo]
    outcomes: Sequence[str]
    """The outcomes of the cancellations."""


def _cents(number: int) -> int:
    return 1_000 + number


def judged(seen: Seen) -> Iterator[Check]:
    """Yield what was promised, beside what was seen."""
    for group, state in (
        ("on time", "success"),
        ("behind a slow call", "expired"),
        ("replaced", "success"),
    ):
        states = Counter(info.state.value for info in seen.reminders[group])
        yield number_check(f"reminders {group}: {state}", CUSTOMERS[group], states[state])
    late = [name for name, _ in seen.mails if name.startswith("behind")]
    yield number_check("mails to who no longer needs one", 0, len(late))
    told = [hour for name, hour in seen.mails if name.startswith("replaced")]
    yield Check(
        "mails with the replaced hour, the new one",
        f"0, {CUSTOMERS['replaced']}",
        f"{told.count('10:00')}, {told.count('16:00')}",
        told.count("10:00") == 0 and told.count("16:00") == CUSTOMERS["replaced"],
    )
    states = Counter(info.state.value for info in seen.charges)
    yield number_check("charges: success", CHARGES, states["success"])
    right = [
        seen.results.get(f"order-{number}", {}).get("charged") == _cents(number)
        for number in range(CHARGES)
    ]
    yield number_check("results that are what was charged", CHARGES, right.count(True))
    snoozed = [result.get("snoozes", 0) for result in seen.results.values()]
    yield Check(
        "snoozes of a charge", ">= 1", f"{min(snoozed, default=0)} to {max(snoozed, default=0)}",
        min(snoozed, default=0) >= 1,
    )  # fmt: skip
    most = max((row.attempt for info in seen.charges for row in info.attempts), default=1)
    yield number_check("attempts of a charge, at most", 1, most)
    mailed = [seen.receipts.get(f"receipt-{number}") == _cents(number) for number in range(CHARGES)]
    yield number_check("receipts that tell what was charged", CHARGES, mailed.count(True))
    uncalled = len(seen.receipts) - CHARGES
    yield number_check("receipts for cancelled orders", 0, uncalled)
    states = Counter(info.state.value for info in seen.cancelled)
    yield number_check("cancelled orders: cancelled", CANCELLED, states["cancelled"])
    called = [name for name in seen.calls if name.startswith("cancelled")]
    yield number_check("calls to the bank for them", 0, len(called))
    yield number_check("cancellations: applied", CANCELLED, list(seen.outcomes).count("applied"))


class _Play:
    """Schedules the whole story, and reads what became of it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._begin = scheduler.now + timedelta(seconds=BEGIN_S)
        self._ends_ms = _clock.monotonic_ms() + 1_000 * DEADLINE_S

    def run(self) -> Seen:
        """Play it; return what there is to judge."""
        reminders = {group: list(self._remind(group)) for group in CUSTOMERS}
        charges = [self._charge(f"order-{number}", number) for number in range(CHARGES)]
        cancelled = [self._charge(f"cancelled-{number}", 0) for number in range(CANCELLED)]
        commands = [
            self._scheduler.cancel_task((task.ordering_id, task.uniqueness_key)).result(30)
            for task in cancelled
        ]
        outcomes = [
            self._scheduler.wait_outcome(each, self._left_s()).outcome.value for each in commands
        ]
        _never.wait(BEGIN_S + SETTLED_S)
        bank.settled.set()
        return Seen(
            reminders={group: self._ended(tasks) for group, tasks in reminders.items()},
            charges=self._ended(charges),
            results={
                task.ordering_id: self._scheduler.wait_result(task.key, self._left_s())
                for task in charges
            },
            cancelled=self._ended(cancelled),
            outcomes=outcomes,
            mails=list(sent.mails),
            receipts=self._receipts(),
            calls=dict(bank.calls),
        )

    def _remind(self, group: str) -> Iterator[Task]:
        for number in range(CUSTOMERS[group]):
            customer = f"{group}-{number}"
            if group == "behind a slow call":
                self._schedule("sync", customer, -0.5)
            reminder = self._schedule("remind", customer, 0.0, visit="10:00")
            if group == "replaced":
                reminder = self._schedule("remind", customer, LATER_S, replace=True, visit="16:00")
            yield reminder

    def _charge(self, order: str, number: int) -> Task:
        task, mail = (
            self._task(kind, ordering_id, 0.0, cents=_cents(number))
            for kind, ordering_id in (
                ("charge", order),
                ("receipt", order.replace("order", "receipt")),
            )
        )
        self._scheduler.schedule_task(task, then=mail).result(30)
        return task

    def _receipts(self) -> dict[str, int]:
        for number in range(CHARGES):
            mail = self._task("receipt", f"receipt-{number}", 0.0)
            self._scheduler.wait_task(mail.key, self._left_s())
        return dict(sent.receipts)

    def _schedule(
        self, kind: str, ordering_id: str, after_s: float, *, replace: bool = False, **data: Any
    ) -> Task:
        task = self._task(kind, ordering_id, after_s, **data)
        self._scheduler.schedule_task(task, replace=replace).result(30)
        return task

    def _task(self, kind: str, ordering_id: str, after_s: float, **data: Any) -> Task:
        return Task(
            ordering_id=ordering_id,
            scheduled_time=self._begin + timedelta(seconds=after_s),
            uniqueness_key=kind,
            kind=kind,
            data=data,
        )

    def _ended(self, tasks: Sequence[Task]) -> list[TaskInfo]:
        return [self._scheduler.wait_task(task.key, self._left_s()) for task in tasks]

    def _left_s(self) -> float:
        return max(0.1, (self._ends_ms - _clock.monotonic_ms()) / 1_000)


def main() -> int:
    """Run it; return the exit code."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hourhand-life-") as folder:
        settings = Settings(embedded={"folder": folder})
        with Scheduler(settings, executors=app) as scheduler:
            console.print("invoices are charged and customers reminded; this takes seconds")
            seen = _Play(scheduler).run()
    title = "The life of a task: what was promised, and what was seen"
    return 0 if show_checks(console, title, list(judged(seen))) else 1


if __name__ == "__main__":
    sys.exit(main())
