"""``python examples/trial_expiry.py``: trials end after fourteen days, unless the customer pays.

The end of a trial is a task; a payment cancels it.  A cancel can come too late, so the executor
looks at the account as well: the database has the last word, and running a task twice is harmless.
"""

import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hourhand import Drop, Receipt, Scheduler, SchedulerClient, Settings, Task, TaskExecutor

TRIAL = timedelta(days=14)
WARNING = timedelta(days=11)
_WAIT_S = 60


class Accounts:
    """The shop's own table of accounts; any thread may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._open()) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, state TEXT)"
            )

    def state(self, name: str) -> str | None:
        """Return ``trial``, ``warned``, ``paid`` or ``expired``; None for a stranger."""
        with closing(self._open()) as database:
            row = database.execute("SELECT state FROM account WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def enter(self, name: str) -> None:
        """Begin a trial."""
        with closing(self._open()) as database, database:
            database.execute("INSERT OR REPLACE INTO account VALUES (?, 'trial')", (name,))

    def warn(self, name: str) -> bool:
        """Note that the customer was warned; False where the trial is over or was warned of."""
        return self._changed(
            "UPDATE account SET state = ? WHERE name = ? AND state = 'trial'", "warned", name
        )

    def end(self, name: str, state: str) -> bool:
        """End a trial as ``paid`` or ``expired``; False where it is over already."""
        return self._changed(
            "UPDATE account SET state = ? WHERE name = ? AND state IN ('trial', 'warned')",
            state,
            name,
        )

    def _changed(self, statement: str, *values: str) -> bool:
        with closing(self._open()) as database, database:
            return database.execute(statement, values).rowcount == 1

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_WAIT_S)


class TrialStep(TaskExecutor):
    """Warns, or ends a trial."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def execute(self, task: Task) -> Drop | None:
        """Move the account on, where it is still on trial."""
        name = task.ordering_id
        if task.uniqueness_key == "warning":
            changed = self._accounts.warn(name)
        else:
            changed = self._accounts.end(name, "expired")
        # Drop closes the task as well; `hourhand show` then tells the reason.
        return None if changed else Drop(f"the account is {self._accounts.state(name)}")


def steps(name: str, began: datetime) -> list[Task]:
    """Return the tasks of a trial; the same keys whoever asks, so a cancel needs no notes."""
    return [
        Task(ordering_id=name, scheduled_time=began + WARNING, uniqueness_key="warning"),
        Task(ordering_id=name, scheduled_time=began + TRIAL, uniqueness_key="end"),
    ]


def sign_up(client: SchedulerClient, accounts: Accounts, name: str, began: datetime) -> None:
    """Begin a trial; returns when its end is durable."""
    accounts.enter(name)
    for accepted in [client.schedule_task(task) for task in steps(name, began)]:
        accepted.result(_WAIT_S)


def pay(
    client: SchedulerClient, accounts: Accounts, name: str, began: datetime
) -> list[Receipt] | None:
    """Take a payment and cancel what the trial still holds; None where it comes too late."""
    if not accounts.end(name, "paid"):
        return None
    cancelled = [client.cancel_task(task.key) for task in steps(name, began)]
    return [future.result(_WAIT_S) for future in cancelled]


def main() -> None:
    """Let three trials come to their end: two customers are silent, one pays just before it."""
    accounts = Accounts(Path("accounts.sqlite"))
    began = datetime.now(UTC)
    with Scheduler(Settings(), executor=lambda: TrialStep(accounts)) as scheduler:
        # Eleven days less a second ago, so that the next step is due in a second.
        sign_up(scheduler, accounts, "early", began - WARNING + timedelta(seconds=1))
        # The warnings of these two are long past: only the end is scheduled.
        almost_over = began - TRIAL + timedelta(seconds=1)
        for name in ("silent", "payer"):
            accounts.enter(name)
            scheduler.schedule_task(steps(name, almost_over)[1]).result(_WAIT_S)
        receipts = pay(scheduler, accounts, "payer", almost_over) or []
        _wait_for(lambda: accounts.state("silent") == "expired")
        _wait_for(lambda: accounts.state("early") == "warned")
        _wait_for(lambda: scheduler.outcome(receipts[-1]) is not None)
        decided = scheduler.outcome(receipts[-1])
        print("cancelling the end of payer's trial:", decided.outcome if decided else "undecided")
    states = {name: accounts.state(name) for name in ("early", "silent", "payer")}
    print(*(f"{name} is {state}" for name, state in states.items()), sep="\n")
    sys.exit(0 if list(states.values()) == ["warned", "expired", "paid"] else 1)


def _wait_for(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(_WAIT_S * 20):
        if holds():
            return
        pause.wait(0.05)
    raise TimeoutError(f"it did not happen within {_WAIT_S} s")


if __name__ == "__main__":
    main()
