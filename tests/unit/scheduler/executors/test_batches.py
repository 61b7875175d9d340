"""Batches: which tasks go together, and what becomes of each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from tenacity import wait_fixed

from hourhand import (
    AttemptContext,
    BatchExecutor,
    BatchOutcome,
    Drop,
    Hourhand,
    Middleware,
    Retry,
    RetryPolicy,
    Task,
)
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.testing import VirtualScheduler, execute_task
from tests.builders import a_task

TIMEOUT_S = 60


class Row(BaseModel):
    """A payload."""

    id: int


class Insert(BatchExecutor):
    """Does what the test says, and notes what it got."""

    batch_tasks_max = 3
    batch_wait = timedelta(hours=1)
    work: Callable[[Sequence[Task]], Any] = staticmethod(lambda tasks: None)
    made = 0
    batches: list[list[str]]
    numbers: list[tuple[Sequence[int], Sequence[int]]]

    def __init__(self) -> None:
        type(self).made += 1

    def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome] | None:
        """Note the ordering ids and the numbers of the attempts."""
        self.batches.append([task.ordering_id for task in tasks])
        self.numbers.append((self.attempts, self.fences))
        found: Sequence[BatchOutcome] | None = self.work(tasks)
        return found


def insert(work: Callable[[Sequence[Task]], object] | None = None, **names: Any) -> type[Insert]:
    """Return an executor of its own."""
    own: dict[str, Any] = {"batches": [], "numbers": [], "made": 0, **names}
    if work is not None:
        own["work"] = staticmethod(work)
    return type("Insert", (Insert,), own)


def run(executor: type[BatchExecutor], *ordering_ids: str, **more: Any) -> VirtualScheduler:
    """Run a task of each ordering id that is due now, to its end, on a virtual node."""
    scheduler = VirtualScheduler(executors={"row": executor}, **more)
    for number, ordering_id in enumerate(ordering_ids):
        scheduler.schedule_task(
            Task(
                ordering_id=ordering_id,
                scheduled_time=scheduler.now,
                uniqueness_key=f"{number}",
                kind="row",
            )
        ).result(TIMEOUT_S)
    scheduler.run_due()
    return scheduler


def results(scheduler: VirtualScheduler) -> dict[str, AttemptResult]:
    """Return how the last attempt of each ordering id ended."""
    return {each.key.ordering_id: each.result for each in scheduler.executions}


# What goes together.


def test_due_tasks_of_a_kind_run_together_up_to_the_most() -> None:
    """Each knows the number of its attempt and its fence."""
    executor = insert()

    scheduler = run(executor, *"abcd")

    assert [len(each) for each in executor.batches] == [3, 1]
    assert sorted(name for batch in executor.batches for name in batch) == list("abcd")
    attempts, fences = executor.numbers[0]
    assert attempts == (1, 1, 1) and len(fences) == 3
    assert set(results(scheduler).values()) == {AttemptResult.SUCCESS}


def test_a_batch_has_one_task_of_an_ordering_id_and_keeps_their_order() -> None:
    """The next comes when the one before is durably done (P3, P4)."""
    executor = insert()

    run(executor, "a", "a", "b")

    assert executor.batches in ([["a", "b"], ["a"]], [["b", "a"], ["a"]])


def test_an_executor_serves_one_batch_after_another() -> None:
    """It may hold a connection."""
    executor = insert()

    run(executor, *"abcdefg")

    assert len(executor.batches) == 3 and executor.made <= 2


# What becomes of each.


def test_nothing_returned_means_that_all_are_done() -> None:
    """As with ``execute``."""
    scheduler = run(insert(lambda tasks: None), *"ab")

    assert set(results(scheduler).values()) == {AttemptResult.SUCCESS}


def test_each_task_has_its_own_outcome() -> None:
    """An exception in the sequence is that of one task alone."""
    said: dict[str, BatchOutcome] = {
        "a": None,
        "b": Drop("no such row"),
        "c": ValueError("not for c"),
    }

    scheduler = run(insert(lambda tasks: [said[task.ordering_id] for task in tasks]), *"abc")

    assert results(scheduler) == {
        "a": AttemptResult.SUCCESS,
        "b": AttemptResult.DROPPED,
        "c": AttemptResult.FAILURE,
    }
    (failed,) = [each for each in scheduler.executions if each.error_class]
    assert (failed.error_class, failed.error_message) == ("ValueError", "not for c")


def test_a_batch_that_raises_is_a_failed_attempt_of_each() -> None:
    """They are tried again together, as the retry policy says."""
    tries: list[int] = []

    def fail_once(tasks: Sequence[Task]) -> None:
        tries.append(len(tasks))
        if len(tries) == 1:
            raise OSError("database gone")

    executor = insert(fail_once, retry=RetryPolicy(attempts_max=3, wait=wait_fixed(5)))
    scheduler = run(executor, *"ab")
    assert set(results(scheduler).values()) == {AttemptResult.FAILURE}

    scheduler.advance(seconds=5)

    assert set(results(scheduler).values()) == {AttemptResult.SUCCESS}
    assert executor.numbers[-1][0] == (2, 2) and tries == [2, 2]


def test_a_batch_that_raises_runs_one_by_one_where_that_is_asked_for() -> None:
    """One task that cannot be done does not cost the others an attempt."""

    def refuse_b(tasks: Sequence[Task]) -> None:
        if any(task.ordering_id == "b" for task in tasks):
            raise ValueError("b cannot be done")

    executor = insert(refuse_b, retries_alone=True)
    scheduler = run(executor, *"abc")

    assert [len(each) for each in executor.batches] == [3, 1, 1, 1]
    assert results(scheduler) == {
        "a": AttemptResult.SUCCESS,
        "b": AttemptResult.FAILURE,
        "c": AttemptResult.SUCCESS,
    }
    assert {each.attempt for each in scheduler.executions} == {1}


@pytest.mark.parametrize("returned", [[None], 7, "done", [None, None, None]])
def test_what_says_nothing_of_each_task_is_a_failed_attempt(returned: object) -> None:
    """The error says what ``execute_many`` returns."""
    scheduler = run(insert(lambda tasks: returned), *"ab")

    assert set(results(scheduler).values()) == {AttemptResult.FAILURE}
    assert "execute_many returned" in (scheduler.executions[0].error_message or "")


@pytest.mark.parametrize("error", [SystemExit(1), GeneratorExit(), StopIteration("x")])
def test_whatever_user_code_raises_is_a_failed_attempt(error: BaseException) -> None:
    """Nothing of ours ends of it."""

    def fail(tasks: Sequence[Task]) -> None:
        raise error

    scheduler = run(insert(fail), *"ab")

    assert set(results(scheduler).values()) == {AttemptResult.FAILURE}


@pytest.mark.parametrize(
    "nonsense",
    [
        {"batch_tasks_max": 0},
        {"batches_max": True},
        {"batch_wait": 5},
        {"batch_wait": timedelta(-1)},
    ],
    ids=str,
)
def test_nonsense_about_batches_is_a_failed_attempt(nonsense: dict[str, Any]) -> None:
    """The error names what is wrong."""
    scheduler = run(insert(**nonsense), "a")

    assert results(scheduler) == {"a": AttemptResult.FAILURE}
    assert next(iter(nonsense)) in (scheduler.executions[0].error_message or "")


def test_a_constructor_that_raises_is_a_failed_attempt() -> None:
    """It is called once more by the next."""

    def refuse(_self: object) -> None:
        raise OSError("no database")

    scheduler = run(insert(__init__=refuse), *"ab")

    assert set(results(scheduler).values()) == {AttemptResult.FAILURE}


@pytest.mark.parametrize("is_async", [False, True])
def test_the_error_of_a_batch_shows_the_frames_of_user_code_alone(is_async: bool) -> None:
    """Not those of each of its tasks again, however many they are."""

    async def fail(_self: object, tasks: Sequence[Task]) -> None:
        raise OSError("database gone")

    more: dict[str, Any] = {"execute_many": fail} if is_async else {"work": lambda tasks: 1 // 0}
    stacks = [each.error_stack or "" for each in run(insert(**more), *"abc").executions]

    assert len(stacks) == 3 and all(stacks)
    assert not any("in raised" in each for each in stacks)


# Coroutines and middleware.


async def next_round() -> None:
    """Let all that is ready on the loop run."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    loop.call_soon(woken.set_result, None)
    await woken


class InsertAsync(BatchExecutor):
    """Awaits, and drops what is called b."""

    async def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
        """Say what becomes of each."""
        await next_round()
        return [Drop("b") if task.ordering_id == "b" else None for task in tasks]


def test_a_coroutine_function_is_awaited() -> None:
    """On a virtual node as on a real one."""
    scheduler = run(InsertAsync, *"ab")

    assert results(scheduler) == {"a": AttemptResult.SUCCESS, "b": AttemptResult.DROPPED}


class Noting(Middleware):
    """Notes each attempt and what it failed with; swallows the error of c and refuses d."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @contextmanager
    def around_attempt(self, attempt: AttemptContext) -> Iterator[None]:
        """Note before and after."""
        name = attempt.task.ordering_id
        if name == "d":
            raise PermissionError("not d")
        self.seen.append(f"before {name}")
        try:
            yield
        except ValueError:
            self.seen.append(f"failed {name}")
            if name != "c":
                raise
        else:
            self.seen.append(f"after {name}")


@pytest.mark.parametrize("is_async", [False, True])
def test_middleware_goes_around_each_task_of_a_batch(is_async: bool) -> None:
    """It sees the task's own error, may swallow it, and may keep one task from running."""
    said = {"b": ValueError("b"), "c": ValueError("c")}

    def work(tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
        return [said.get(task.ordering_id) for task in tasks]

    async def work_async(_self: object, tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
        return work(tasks)

    names: dict[str, Any] = {"batch_tasks_max": 4}
    executor = insert(work, **names, **({"execute_many": work_async} if is_async else {}))
    noting = Noting()

    scheduler = run(executor, *"abcd", middleware=[noting])

    assert results(scheduler) == {
        "a": AttemptResult.SUCCESS,
        "b": AttemptResult.FAILURE,
        "c": AttemptResult.SUCCESS,
        "d": AttemptResult.FAILURE,
    }
    assert sorted(noting.seen[:3]) == ["before a", "before b", "before c"]
    assert sorted(noting.seen[3:]) == ["after a", "failed b", "failed c"]


def test_async_middleware_is_for_coroutines() -> None:
    """A blocking batch says so."""

    class Awaiting(Middleware):
        @asynccontextmanager
        async def around_attempt(self, attempt: AttemptContext) -> AsyncIterator[None]:
            yield

    blocking = run(insert(), "a", middleware=[Awaiting()])
    awaited = run(InsertAsync, "a", middleware=[Awaiting()])

    assert results(blocking) == {"a": AttemptResult.FAILURE}
    assert results(awaited) == {"a": AttemptResult.SUCCESS}


# Registered functions, and executors outside of a node.


def test_a_function_takes_a_list_of_payloads() -> None:
    """A payload that does not fit costs its own task alone."""
    app, seen = Hourhand(), list[list[int]]()

    @app.batch("row", tasks_max=5)
    def insert_rows(rows: list[Row]) -> Sequence[BatchOutcome]:
        seen.append(sorted(row.id for row in rows))
        return [Retry(after=timedelta(hours=1)) if row.id == 2 else None for row in rows]

    with VirtualScheduler(executors=app) as scheduler:
        for number in (1, 2):
            insert_rows.schedule(Row(id=number), ordering_id=f"{number}").result(TIMEOUT_S)
        unfit = Task(
            ordering_id="3",
            scheduled_time=scheduler.now,
            uniqueness_key="3",
            data={"id": "three"},
            kind="row",
        )
        scheduler.schedule_task(unfit).result(TIMEOUT_S)
        scheduler.run_due()

        assert seen == [[1, 2]]
        assert results(scheduler) == {
            "1": AttemptResult.SUCCESS,
            "2": AttemptResult.RETRY,
            "3": AttemptResult.FAILURE,
        }
        assert scheduler.result_of(unfit.key) is None


def test_a_coroutine_function_takes_a_list_of_tasks() -> None:
    """It sees their keys and times."""
    app, seen = Hourhand(), list[object]()

    @app.batch("row")
    async def insert_rows(tasks: list[Task]) -> None:
        seen.extend(task.data["id"] for task in tasks)

    with VirtualScheduler(executors=app) as scheduler:
        receipt = insert_rows.schedule({"id": 7}, ordering_id="a").result(TIMEOUT_S)
        scheduler.run_due()

        assert seen == [7]
        assert scheduler.result_of(receipt.key) is CompletionResult.SUCCESS


def test_a_function_that_takes_no_list_is_refused() -> None:
    """Where it is declared."""
    app = Hourhand()

    def insert_row(row: Row) -> None: ...

    takes_one: Any = insert_row
    takes_two: Any = lambda rows, more: None  # noqa: E731
    with pytest.raises(InvalidExecutor, match=r"takes a list.*list\[Row\]"):
        app.batch("row")(takes_one)
    with pytest.raises(InvalidExecutor, match="takes one list"):
        app.batch("two")(takes_two)


def test_a_class_that_does_not_say_execute_many_is_refused() -> None:
    """Before a node starts."""

    class Unwritten(BatchExecutor):
        pass

    with pytest.raises(InvalidExecutor, match="does not define execute_many"):
        UserExecutors.of(None, {"row": Unwritten})


def test_an_executor_runs_one_task_where_there_is_no_node() -> None:
    """As ``execute_task`` of the test kit does."""
    executor = insert(lambda tasks: [Drop("alone")])

    assert execute_task(executor(), a_task(), attempt=3) == Drop("alone")
    assert executor.numbers == [((3,), (1,))]
    assert execute_task(InsertAsync(), a_task()) is None
    with pytest.raises(ValueError, match="no"):
        execute_task(insert(lambda tasks: [ValueError("no")])(), a_task())
