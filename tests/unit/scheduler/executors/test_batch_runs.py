"""Batches that hold several tasks of one ordering id, as users declare and see them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from hourhand import (
    AttemptContext,
    BatchExecutor,
    BatchOutcome,
    Drop,
    Hourhand,
    Limit,
    Middleware,
    Retry,
    RetryPolicy,
    Task,
    TaskKind,
)
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.testing import VirtualScheduler

TIMEOUT_S = 60


class Insert(BatchExecutor):
    """Does what the test says, and notes what it got."""

    runs_of_one_id = True
    batch_tasks_max = 5
    retry = RetryPolicy(attempts_max=3, wait=lambda _state: 60)  # type: ignore[arg-type]
    work: Callable[["Insert", Sequence[Task]], Any] = staticmethod(lambda insert, tasks: None)
    batches: list[str]
    numbers: list[Sequence[int]]

    def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome] | None:
        """Note the names and the numbers of the attempts."""
        self.batches.append("".join(task.uniqueness_key for task in tasks))
        self.numbers.append(self.attempts)
        found: Sequence[BatchOutcome] | None = type(self).work(self, tasks)
        return found


def insert(
    work: Callable[[Insert, Sequence[Task]], object] | None = None, **own: Any
) -> type[Insert]:
    """Return an executor of its own."""
    names: dict[str, Any] = {"batches": [], "numbers": [], **own}
    if work is not None:
        names["work"] = staticmethod(work)
    return type("Insert", (Insert,), names)


def only_first(name: str, outcome: object) -> Callable[[Insert, Sequence[Task]], object]:
    """Return work whose first attempt of one task ends so; all others are done."""

    def work(executor: Insert, tasks: Sequence[Task]) -> object:
        numbers = zip(tasks, executor.attempts, strict=True)
        return [outcome if (t.uniqueness_key, n) == (name, 1) else None for t, n in numbers]

    return work


def run(
    executor: Any, names: str, ordering_id: str = "customer-7", **more: Any
) -> VirtualScheduler:
    """Let tasks of one ordering id fall due at one moment."""
    scheduler = VirtualScheduler(executors={"row": executor}, **more)
    for name in names:
        task = Task(
            ordering_id=ordering_id,
            scheduled_time=scheduler.now + timedelta(seconds=10),
            uniqueness_key=name,
            kind="row",
        )
        scheduler.schedule_task(task).result(TIMEOUT_S)
    scheduler.advance(timedelta(seconds=10))
    return scheduler


def test_tasks_of_one_ordering_id_are_in_one_batch_in_their_order() -> None:
    """As many as a batch holds."""
    executor = insert()

    run(executor, "abcdefgh")

    assert executor.batches == ["abcde", "fgh"]


def test_without_it_a_batch_has_one_task_of_each() -> None:
    """That is what happens unless it is asked for."""
    executor = insert(runs_of_one_id=False)

    run(executor, "abc")

    assert executor.batches == ["a", "b", "c"]


@pytest.mark.parametrize("outcome", [ValueError("c"), Retry()], ids=["raised", "retry"])
def test_what_follows_a_task_that_is_not_done_runs_again_after_it(outcome: object) -> None:
    """The tasks before it are done; those behind it use up no attempt."""
    executor = insert(only_first("c", outcome))

    scheduler = run(executor, "abcde")
    at_once = list(executor.batches)
    scheduler.advance(timedelta(minutes=2))

    assert at_once == ["abcde"]
    assert "".join(executor.batches[1:]) == "cde"
    assert [number for each in executor.numbers[1:] for number in each] == [2, 1, 1]


def test_a_task_that_is_given_up_lets_the_next_ones_run_once_more() -> None:
    """Their outcome was void, as it came before that of the task before them."""
    executor = insert(
        lambda _, tasks: [ValueError("b") if t.uniqueness_key == "b" else None for t in tasks],
        retry=RetryPolicy(attempts_max=1),
    )

    run(executor, "abc")

    assert executor.batches == ["abc", "c"]


def test_a_dropped_task_is_done_with() -> None:
    """What follows it counts."""
    executor = insert(only_first("b", Drop("no")))

    run(executor, "abc")

    assert executor.batches == ["abc"]


def test_a_batch_that_raises_is_tried_again_from_its_first_task_on() -> None:
    """In order, and short at first."""
    failures = [ValueError("all")]

    def work(_: Insert, tasks: Sequence[Task]) -> None:
        del tasks
        if failures:
            raise failures.pop()

    executor = insert(work)
    scheduler = run(executor, "abcd")

    scheduler.advance(timedelta(minutes=2))

    assert executor.batches[0] == "abcd"
    assert "".join(executor.batches[1:]) == "abcd"
    assert [number for each in executor.numbers for number in each] == [1, 1, 1, 1, 2, 1, 1, 1]


def test_what_is_tried_alone_stops_at_the_first_that_fails() -> None:
    """The next ones of its ordering id are not called before it is done."""

    def work(executor: Insert, tasks: Sequence[Task]) -> None:
        for task, number in zip(tasks, executor.attempts, strict=True):
            if (task.uniqueness_key, number) == ("b", 1):
                raise ValueError("b")

    executor = insert(work, retries_alone=True)

    scheduler = run(executor, "abcd")
    at_once = list(executor.batches)
    scheduler.advance(timedelta(minutes=2))

    assert at_once == ["abcd", "a", "b"]
    assert "".join(executor.batches[3:]) == "bcd"


def test_a_coroutine_that_is_tried_alone_stops_there_too() -> None:
    """Both ways to write an executor mean the same."""
    batches: list[str] = []

    class Sending(BatchExecutor):
        runs_of_one_id = True
        retries_alone = True

        async def execute_many(self, tasks: Sequence[Task]) -> None:
            batches.append("".join(task.uniqueness_key for task in tasks))
            if any(task.uniqueness_key == "b" for task in tasks):
                raise ValueError("b")

    run(Sending, "abcd")

    assert batches == ["abcd", "a", "b"]


@pytest.mark.parametrize("is_async", [False, True])
def test_middleware_does_not_see_that_a_task_was_not_run(is_async: bool) -> None:
    """What swallows errors would make a task done that never ran."""
    seen: list[tuple[str, str]] = []
    batches: list[str] = []

    class Swallowing(Middleware):
        @contextmanager
        def around_attempt(self, attempt: AttemptContext) -> Iterator[None]:
            try:
                yield
            except Exception as error:  # noqa: BLE001 - that is what it does
                seen.append((attempt.task.uniqueness_key, type(error).__name__))

    def work(tasks: Sequence[Task]) -> None:
        names = "".join(task.uniqueness_key for task in tasks)
        batches.append(names)
        if len(names) > 1 or (batches.count(names) < 2 and names == "a"):
            raise ValueError(names)

    class Blocking(BatchExecutor):
        runs_of_one_id, retries_alone = True, True

        def execute_many(self, tasks: Sequence[Task]) -> None:
            work(tasks)

    class Coroutine(BatchExecutor):
        runs_of_one_id, retries_alone = True, True

        async def execute_many(self, tasks: Sequence[Task]) -> None:
            work(tasks)

    scheduler = run(Coroutine if is_async else Blocking, "abc", middleware=[Swallowing()])
    scheduler.advance(timedelta(minutes=2))

    assert seen == [("a", "ValueError")]
    assert {"b", "c"} <= set(batches), "the swallowed error made the first one a success"


def test_each_task_of_a_run_takes_its_token() -> None:
    """A rate is kept, and a batch is not larger than the burst of it."""
    executor = insert(batch_tasks_max=100, limits=Limit(rate=60, per=timedelta(minutes=1), burst=3))
    names = [chr(ord("a") + number) for number in range(13)]

    scheduler = run(executor, "".join(names))
    at_once = len("".join(executor.batches))
    scheduler.advance(timedelta(seconds=5))
    later = len("".join(executor.batches))
    scheduler.advance(timedelta(seconds=60))

    assert (at_once, later) == (3, 8)
    assert "".join(executor.batches) == "".join(names)


def test_a_cancelled_task_is_left_out_of_its_run() -> None:
    """The others keep their order."""
    executor = insert()
    scheduler = VirtualScheduler(executors={"row": executor})
    due = scheduler.now + timedelta(seconds=1)
    tasks = [
        Task(ordering_id="x", scheduled_time=due, uniqueness_key=name, kind="row") for name in "abc"
    ]
    for task in tasks:
        scheduler.schedule_task(task).result(TIMEOUT_S)

    scheduler.client.cancel_task(tasks[1].key).result(TIMEOUT_S)
    scheduler.advance(timedelta(seconds=1))

    assert executor.batches == ["ac"]


def test_a_constructor_that_raises_keeps_the_order() -> None:
    """No batch can be run, so the first task fails, and the others wait for it."""
    ran: list[str] = []
    failures = [OSError("no database")] * 2

    class Broken(Insert):
        batches = ran
        numbers: list[Sequence[int]] = []  # noqa: RUF012

        def __init__(self) -> None:
            if failures:
                raise failures.pop()

    scheduler = run(Broken, "abc")
    scheduler.advance(timedelta(minutes=10))

    assert "".join(ran) == "abc"


def test_a_default_executor_may_ask_for_runs() -> None:
    """Hourhand's own tasks, which have no kind either, are none of its business."""
    executor = insert()
    scheduler = VirtualScheduler(executor=executor)
    for name in "abc":
        due = scheduler.now + timedelta(seconds=1)
        task = Task(ordering_id="x", scheduled_time=due, uniqueness_key=name)
        scheduler.schedule_task(task).result(TIMEOUT_S)

    scheduler.advance(timedelta(seconds=1))

    assert executor.batches == ["abc"]


def test_a_function_of_a_registry_asks_for_runs() -> None:
    """By the argument of the same name."""
    app = Hourhand()
    batches: list[int] = []

    @app.batch("row", runs_of_one_id=True, tasks_max=4)
    def insert_rows(tasks: list[Task]) -> None:
        batches.append(len(tasks))

    run(app["row"], "abcdef")

    assert UserExecutors.of(None, app).run_tasks_max == {"row": 4}
    assert batches == [4, 2]


def test_runs_and_no_order_do_not_go_together() -> None:
    """A run keeps what the other one gives up."""
    with pytest.raises(InvalidExecutor, match="concurrency_per_id is 3, and runs_of_one_id"):
        TaskKind(insert(), concurrency_per_id=3)


def test_what_is_not_yes_or_no_is_refused() -> None:
    """The task fails, and the message says what is needed."""
    scheduler = run(insert(runs_of_one_id="yes"), "a")

    (execution,) = scheduler.executions
    assert "runs_of_one_id is 'yes', True or False is needed" in str(execution)
