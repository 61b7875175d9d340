"""What a page's examples take for granted: a client, virtual time, a reader's own code.

Names are those of the pages.  A reader's own code does little, but it does it: an example that
calls what is not there, or with other arguments, fails.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import scheduler as public
from scheduler import Task, TaskExecutor
from scheduler.testing import VirtualScheduler, execute_task

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Nothing(TaskExecutor):
    """Stands in until a page has an executor of its own."""

    def execute(self, task: Task) -> None:
        """Do nothing."""


class Bank:
    """Charges cards, and fails as it is told to."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        self.fails_with: type[Exception] | None = None
        self.only_for = ""

    def charge(self, card: object, cents: object, *, idempotency_key: str) -> None:
        """Charge a card."""
        del cents
        if self.fails_with is not None and card == self.only_for:
            raise self.fails_with
        self.charged.append(idempotency_key)


class Ledger(AbstractContextManager["Ledger"]):
    """A store with transactions that knows fences and keys."""

    def __init__(self) -> None:
        self._fences: dict[str, int] = {}
        self._written: dict[str, object] = {}

    def __exit__(self, *_error: object) -> None:
        """Commit."""

    def refuse_older(self, name: str, fence: int) -> None:
        """Raise where a newer owner was here."""
        if fence < self._fences.setdefault(name, fence):
            raise PermissionError(name)

    def write_once(self, key: str, value: object) -> None:
        """Write what is not there yet."""
        self._written.setdefault(key, value)


class Page:
    """One page's names, and the executor that it defined last."""

    def __init__(self) -> None:
        self._executor: Callable[[], TaskExecutor] = Nothing
        self.scheduler = VirtualScheduler(self._make_executor, now=datetime.now(UTC))
        self.names: dict[str, Any] = {
            **{name: getattr(public, name) for name in public.__all__},
            **_reader(),
            "__name__": "page",
            "Outcome": public.Done | public.Drop | public.Retry,
            "client": self.scheduler.client,
            "scheduler": self.scheduler,
        }

    def run(self, text: str, name: str, line: int) -> None:
        """Run a block, then every executor and test that it defines."""
        before = {**self.names}
        code = compile("\n" * (line - 1) + text, name, "exec")
        exec(code, self.names)  # noqa: S102 - the point is to run it
        for found in self._new(before):
            if isinstance(found, type) and issubclass(found, TaskExecutor):
                self._executor = found
                execute_task(found(), a_task(timedelta(days=1)), attempt=3)
            elif getattr(found, "__name__", "").startswith("test_"):
                found(**_fixtures(found))

    def _make_executor(self) -> TaskExecutor:
        return self._executor()

    def _new(self, before: dict[str, Any]) -> Iterator[Any]:
        for name, value in self.names.items():
            if before.get(name) is not value and getattr(value, "__module__", "") == "page":
                yield value


def a_task(due_in: timedelta, ordering_id: str = "customer-7") -> Task:
    """Return a task with everything in its data that an example looks for."""
    data: dict[str, Any] = {
        "args": [42],
        "card": ordering_id,
        "cents": 990,
        "invoice": 42,
        "job": 1,
        "kind": "remind",
        "name": "tasks.remind",
    }
    return Task(
        ordering_id=ordering_id,
        scheduled_time=BEGIN + due_in,
        uniqueness_key="invoice-42",
        data=data,
    )


def _fixtures(test: Any) -> dict[str, Any]:
    offered = {"virtual_scheduler": lambda made: VirtualScheduler(made, now=BEGIN)}
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
    return {name: offered[name] for name in wanted}


def _reader() -> dict[str, Any]:
    now = datetime.now(UTC)
    mails: list[object] = []

    async def expire(account: str) -> None:
        mails.append(account)

    def send(invoice: object, fence: int | None = None) -> None:
        mails.append((invoice, fence))

    def a_charge(customer: str, due_in: timedelta) -> Task:
        task = a_task(timedelta(0), customer)
        return task.model_copy(update={"scheduled_time": datetime.now(UTC) + due_in})

    return {
        "HOUR": timedelta(hours=1),
        "UTC": UTC,
        "a_charge": a_charge,
        "a_task": a_task,
        "at": now + timedelta(days=1),
        "bank": Bank(),
        "celery": SimpleNamespace(send_task=lambda name, args, task_id: mails.append(task_id)),
        "charge": mails.append,
        "contextmanager": contextmanager,
        "datetime": datetime,
        "done": lambda job: job == 1,
        "expire": expire,
        "invoices": SimpleNamespace(exists=lambda invoice: invoice == 42),
        "later": now + timedelta(days=2),
        "ledger": Ledger(),
        "mail": SimpleNamespace(send=send, is_down=lambda: False),
        "printer": SimpleNamespace(print=mails.append),
        "remind": mails.append,
        "reserve": mails.append,
        "signed_up": now,
        "timedelta": timedelta,
    }
