"""P7: what user code does to its thread, event loop or process is not another attempt's matter."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from decimal import Decimal, getcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from tenacity import wait_fixed

from hourhand import Hourhand, Limit, RetryPolicy, Scheduler, Settings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from hourhand.scheduler.tasks.task_state import TaskState
from hourhand.scheduler.testing import VirtualScheduler

WAIT_S = 30.0
TASKS = 12

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


async def one_turn() -> None:
    """Let the loop do what else is ready."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


@contextlib.contextmanager
def node(folder: Path, app: Hourhand) -> Iterator[Scheduler]:
    """A node with one worker, so that attempts share its thread."""
    settings = Settings(
        embedded=EmbeddedSettings(folder=folder),
        topic=TopicSettings(partitions=1),
        tree={"execution": {"workers": 1, "lease_retry_ms": 50}},
    )
    with Scheduler(settings, executors=app) as scheduler:
        yield scheduler


def context_setters(done: Callable[[object], object]) -> Hourhand:
    """Return tasks that note what they find in their context, and change it."""
    app = Hourhand()

    def look() -> None:
        done((str(Decimal("1234.56") * 1), tenant.get()))
        getcontext().prec = 3
        tenant.set("acme")

    one_at_a_time = Limit(concurrency=1)

    @app.task("blocking", limits=one_at_a_time)
    def blocking(payload: dict[str, Any]) -> None:
        look()

    @app.task("coroutine", limits=one_at_a_time)
    async def coroutine(payload: dict[str, Any]) -> None:
        look()

    @app.task("awaitable")
    def awaitable(payload: dict[str, Any]) -> Any:
        async def later() -> None:
            look()

        return later()

    @app.batch("batch", tasks_max=1, wait=timedelta(0))
    def batch(payloads: list[dict[str, Any]]) -> None:
        look()

    @app.batch("async-batch", tasks_max=1, wait=timedelta(0))
    async def async_batch(payloads: list[dict[str, Any]]) -> None:
        look()

    functions = (blocking, coroutine, awaitable, batch, async_batch)
    app.scheduled = functions  # type: ignore[attr-defined]
    return app


def test_p7_each_attempt_has_a_context_of_its_own(tmp_path: Path) -> None:
    """Variables of a context and the precision of decimals end with the attempt that set them."""
    found: SimpleQueue[object] = SimpleQueue()
    app = context_setters(found.put)
    tenant.set("of whoever schedules")
    with node(tmp_path, app):
        for number in range(TASKS):
            for function in app.scheduled:  # type: ignore[attr-defined]
                function.schedule({}, ordering_id=f"{number}").result(WAIT_S)

        seen = {found.get(timeout=WAIT_S) for _ in range(5 * TASKS)}

    assert seen == {("1234.56", "nobody")}


def test_p7_a_virtual_node_gives_each_attempt_a_context_too() -> None:
    """What the test has set is not seen either, as on a node."""
    found: list[object] = []
    app = context_setters(found.append)
    tenant.set("of the test")
    with VirtualScheduler(executors=app) as scheduler:
        for function in app.scheduled * 2:  # type: ignore[attr-defined]
            task = function.make_task({}, ordering_id="o", at=scheduler.now)
            scheduler.schedule_task(task).result()
        scheduler.run_due()

    assert found == [("1234.56", "nobody")] * 10 and tenant.get() == "of the test"


@pytest.mark.parametrize("of_batch", [False, True], ids=["single", "batch"])
def test_p7_attempts_that_are_cancelled_before_their_first_step_run_later(
    tmp_path: Path,
    of_batch: bool,
) -> None:
    """User code cancels all tasks of its loop, as a common snippet does to clean up."""
    app, ran = Hourhand(), SimpleQueue[int]()
    begun, go = threading.Event(), threading.Event()

    @app.task("cancelling")
    async def cancelling(payload: dict[str, Any]) -> None:
        begun.set()
        # On purpose it blocks the loop: what is submitted meanwhile has not begun.
        assert go.wait(WAIT_S)
        for _ in range(5):
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await one_turn()

    @app.task("single", retry=RetryPolicy(wait=wait_fixed(0.05)))
    async def single(payload: dict[str, int]) -> None:
        ran.put(payload["number"])

    @app.batch("batch", wait=timedelta(0), retry=RetryPolicy(wait=wait_fixed(0.05)))
    async def batch(payloads: list[dict[str, int]]) -> None:
        for payload in payloads:
            ran.put(payload["number"])

    with node(tmp_path, app) as scheduler:
        cancelling.schedule({}, ordering_id="c").result(WAIT_S)
        assert begun.wait(WAIT_S)
        function = batch if of_batch else single
        receipts = [
            function.schedule({"number": number}, ordering_id=f"{number}").result(WAIT_S)
            for number in range(TASKS)
        ]
        go.set()

        for receipt in receipts:
            ended = scheduler.wait_task(receipt.key, timeout=WAIT_S)
            assert ended.state is TaskState.SUCCESS
        assert {ran.get(timeout=WAIT_S) for _ in range(TASKS)} == set(range(TASKS))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("ends", ["exit", "returns", "raises"])
@pytest.mark.parametrize("kind", ["blocking", "coroutine", "batch"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_p7_a_child_that_user_code_forks_off_ends_with_its_call(
    tmp_path: Path, kind: str, ends: str
) -> None:
    """It does not go on as a worker, and ends as it would in a thread of the user's own."""
    app, codes = Hourhand(), SimpleQueue[int]()
    born = os.getpid()

    def fork() -> None:
        child = os.fork()
        if child:
            codes.put(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        elif ends == "exit":
            sys.exit(7)
        elif ends == "raises":
            sys.stderr.close()
            raise ValueError("in the child")

    @app.task("blocking", retry=RetryPolicy(attempts_max=1))
    def blocking(payload: dict[str, Any]) -> None:
        fork()

    @app.task("coroutine", retry=RetryPolicy(attempts_max=1))
    async def coroutine(payload: dict[str, Any]) -> None:
        fork()

    @app.batch("batch", wait=timedelta(0), retry=RetryPolicy(attempts_max=1))
    def batch(payloads: list[dict[str, Any]]) -> None:
        fork()

    with node(tmp_path, app) as scheduler:
        function = {"blocking": blocking, "coroutine": coroutine, "batch": batch}[kind]
        receipt = function.schedule({}, ordering_id="o").result(WAIT_S)
        ended = scheduler.wait_task(receipt.key, timeout=WAIT_S)

        assert ended.state is TaskState.SUCCESS
    assert codes.get(timeout=WAIT_S) == {"exit": 7, "returns": 0, "raises": 1}[ends]
    assert os.getpid() == born
