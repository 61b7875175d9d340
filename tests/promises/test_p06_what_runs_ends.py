"""P6: a cancel with ``running`` ends running code, whose outcome no longer counts."""

import asyncio
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from tenacity import wait_fixed

from hourhand import (
    CommandOutcome,
    Hourhand,
    PairReceipt,
    Receipt,
    RetryPolicy,
    Scheduler,
    Task,
    TaskExecutor,
)
from hourhand.scheduler.executors.registry import TaskFunction
from hourhand.scheduler.tasks.task_state import TaskState
from tests.promises.test_p07_thread_and_loop import WAIT_S, node
from tests.waiting import until

AT_ONCE = RetryPolicy(wait=wait_fixed(0))


class Tasks:
    """Kinds that run until they are let go, and a plain one behind them."""

    def __init__(self) -> None:
        self.app = app = Hourhand()
        self.begun = threading.Event()
        self.go = threading.Event()
        self.ran: SimpleQueue[str] = SimpleQueue()

        @app.task("coroutine", retry=AT_ONCE)
        async def coroutine(payload: dict[str, Any]) -> None:
            self.begin("coroutine")
            await asyncio.get_running_loop().create_future()

        @app.task("thread", retry=AT_ONCE)
        def thread(payload: dict[str, Any]) -> None:
            self.begin("thread")
            assert self.go.wait(WAIT_S)
            self.ran.put(f"cancelled: {app.cancelled}")

        @app.task("behind")
        def behind(payload: dict[str, Any]) -> None:
            self.ran.put(f"behind, cancelled: {app.cancelled}")

        self.coroutine, self.thread, self.behind = coroutine, thread, behind

    def begin(self, name: str) -> None:
        """Note that code has begun."""
        self.ran.put(name)
        self.begun.set()

    def started(self, function: TaskFunction[Any]) -> Receipt:
        """Schedule a task and one behind it; return once its code runs."""
        receipt: Receipt = function.schedule({}, ordering_id="o", uniqueness_key="1").result(WAIT_S)
        assert self.begun.wait(WAIT_S)
        self.behind.schedule({}, ordering_id="o", uniqueness_key="2").result(WAIT_S)
        return receipt


@pytest.fixture
def tasks() -> Tasks:
    """Return tasks of a test."""
    return Tasks()


def _comes_to(
    scheduler: Scheduler, receipt: Receipt | PairReceipt, outcome: CommandOutcome
) -> None:
    def found() -> bool:
        recorded = scheduler.outcome(receipt)
        return recorded is not None and recorded.outcome is outcome

    until(found)


@pytest.mark.parametrize("by_pair", [False, True])
def test_p6_a_coroutine_that_is_cancelled_ends_and_is_not_tried_again(
    tmp_path: Path, tasks: Tasks, by_pair: bool
) -> None:
    """What waits behind it runs then."""
    with node(tmp_path, tasks.app) as scheduler:
        key = tasks.started(tasks.coroutine).key
        if by_pair:
            _comes_to(
                scheduler,
                scheduler.cancel_task(("o", "1"), running=True).result(WAIT_S),
                CommandOutcome.CANCELLED,
            )
        else:
            receipt = scheduler.cancel_task(key, running=True).result(WAIT_S)
            waited = asyncio.run(scheduler.aio.wait_outcome(receipt, WAIT_S, ended=True))
            assert waited.outcome is CommandOutcome.CANCELLED
        ended = scheduler.wait_task(key, timeout=WAIT_S)
        seen = [tasks.ran.get(timeout=WAIT_S) for _ in range(2)]

        assert ended.state is TaskState.CANCELLED
        assert seen == ["coroutine", "behind, cancelled: False"]
        (attempt,) = scheduler.history(key)
        assert (attempt.attempt, attempt.error_class) == (1, "CancelledError")


def test_p6_code_in_a_thread_runs_on_until_it_looks(tmp_path: Path, tasks: Tasks) -> None:
    """Meanwhile the outcome is that it runs, and nothing behind it starts (P3, P4)."""
    with node(tmp_path, tasks.app) as scheduler:
        key = tasks.started(tasks.thread).key
        receipt = scheduler.cancel_task(key, running=True).result(WAIT_S)
        at_once = scheduler.wait_outcome(receipt, WAIT_S)
        still_runs = scheduler.wait_outcome(receipt, 0.1, ended=True)
        seen_meanwhile = tasks.ran.get(timeout=WAIT_S), tasks.ran.empty()
        tasks.go.set()
        ended = scheduler.wait_outcome(receipt, WAIT_S, ended=True)
        assert (at_once.outcome, ended.outcome) == (still_runs.outcome, CommandOutcome.CANCELLED)
        assert at_once.outcome is CommandOutcome.RUNNING
        seen = [tasks.ran.get(timeout=WAIT_S) for _ in range(2)]

        assert seen_meanwhile == ("thread", True)
        assert seen == ["cancelled: True", "behind, cancelled: False"]
        assert scheduler.wait_task(key, timeout=WAIT_S).state is TaskState.CANCELLED


def test_p6_a_task_that_waits_is_cancelled_as_by_any_cancel(tmp_path: Path, tasks: Tasks) -> None:
    """Its code was never called."""
    with node(tmp_path, tasks.app) as scheduler:
        tasks.started(tasks.thread)
        receipt = scheduler.cancel_task(("o", "2"), running=True).result(WAIT_S)
        _comes_to(scheduler, receipt, CommandOutcome.APPLIED)
        tasks.go.set()

        seen = [tasks.ran.get(timeout=WAIT_S) for _ in range(2)]
        assert seen == ["thread", "cancelled: False"]


def test_p6_an_executor_of_a_class_sees_it_too(tmp_path: Path) -> None:
    """Within middleware and whatever stands for it."""
    begun, go, seen, app = threading.Event(), threading.Event(), SimpleQueue[bool](), Hourhand()

    @app.executor("long")
    class Long(TaskExecutor):
        def execute(self, task: Task) -> None:
            begun.set()
            assert go.wait(WAIT_S)
            seen.put(self.cancelled)

    with node(tmp_path, app) as scheduler:
        task = Task(ordering_id="o", scheduled_time=scheduler.now, uniqueness_key="1", kind="long")
        key = scheduler.schedule_task(task).result(WAIT_S).key
        assert begun.wait(WAIT_S)
        receipt = scheduler.cancel_task(key, running=True).result(WAIT_S)
        _comes_to(scheduler, receipt, CommandOutcome.RUNNING)
        go.set()

        assert seen.get(timeout=WAIT_S)
