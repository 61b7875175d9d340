"""Kinds of which one ordering id runs several tasks at once, as users declare and see them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from hourhand import BatchExecutor, Hourhand, RetryPolicy, Task, TaskExecutor, TaskKind
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.testing import VirtualScheduler

TIMEOUT_S = 60


class Noting(TaskExecutor):
    """Notes what runs; the first attempt of what is called a fails."""

    retry = RetryPolicy(attempts_max=3, wait=lambda _state: 60)  # type: ignore[arg-type]
    ran: list[str]

    def execute(self, task: Task) -> None:
        """Note it."""
        self.ran.append(task.uniqueness_key)
        if task.uniqueness_key == "a" and self.attempt == 1:
            raise ValueError("a")


def noting() -> type[Noting]:
    """Return an executor of its own."""
    return type("Noting", (Noting,), {"ran": []})


def scheduled(names: str, kinds: dict[str, Any]) -> VirtualScheduler:
    """Return a virtual node with due tasks of one ordering id, of the first kind."""
    scheduler = VirtualScheduler(executors=kinds)
    kind = next(iter(kinds))
    for name in names:
        task = Task(
            ordering_id="customer-7",
            scheduled_time=scheduler.now,
            uniqueness_key=name,
            kind=kind,
        )
        scheduler.schedule_task(task).result(TIMEOUT_S)
    scheduler.run_due()
    return scheduler


@pytest.mark.parametrize(
    ("per_id", "ran"), [(1, "a"), (2, "abcd"), (None, "abcd")], ids=["in order", "two", "all"]
)
def test_a_failing_task_holds_those_of_its_ordering_id_only_where_they_have_an_order(
    per_id: int | None, ran: str
) -> None:
    """It waits for its retry beside them, and is done in the end."""
    executor = noting()
    scheduler = scheduled("abcd", {"mail": TaskKind(executor, concurrency_per_id=per_id)})
    at_once = "".join(executor.ran)

    scheduler.advance(timedelta(minutes=2))

    assert at_once == ran
    assert sorted(executor.ran) == list("aabcd")
    done = [each for each in scheduler.executions if each.result is AttemptResult.SUCCESS]
    assert len(done) == 4


def test_a_task_that_waits_for_its_retry_takes_a_place() -> None:
    """With two of them nothing else of the ordering id begins."""
    ran: list[str] = []

    class Failing(TaskExecutor):
        def execute(self, task: Task) -> None:
            ran.append(task.uniqueness_key)
            if task.uniqueness_key in "ab":
                raise ValueError(task.uniqueness_key)

    scheduled("abcd", {"mail": TaskKind(Failing, concurrency_per_id=2)})

    assert ran == ["a", "b"]


@pytest.mark.parametrize(("per_id", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (None, [5])])
def test_a_batch_has_as_many_tasks_of_an_ordering_id_as_run_at_once(
    per_id: int | None, sizes: list[int]
) -> None:
    """Few ordering ids make large batches where order is not wanted."""
    batches: list[list[str]] = []

    class Insert(BatchExecutor):
        def execute_many(self, tasks: Sequence[Task]) -> None:
            batches.append([task.uniqueness_key for task in tasks])

    scheduled("abcde", {"row": TaskKind(Insert, concurrency_per_id=per_id)})

    assert [len(each) for each in batches] == sizes
    assert sorted(name for each in batches for name in each) == list("abcde")


def test_every_way_to_register_a_kind_takes_it() -> None:
    """A function, a class, a function that takes a list, and a mapping."""
    app = Hourhand()

    @app.task("function", concurrency_per_id=2)
    def run() -> None: ...

    @app.executor("class", concurrency_per_id=None)
    class Run(Noting): ...

    @app.batch("batch", concurrency_per_id=3)
    def run_many(tasks: list[Task]) -> None:
        del tasks

    app.add("ordered", TaskKind(Noting))

    assert UserExecutors.of(None, app).concurrency_per_id == {
        "function": 2,
        "class": None,
        "batch": 3,
    }


@pytest.mark.parametrize("nonsense", [0, -1, True, 1.5, "none"])
def test_what_is_not_a_number_of_tasks_is_refused(nonsense: Any) -> None:
    """The error says what is needed."""
    with pytest.raises(InvalidExecutor, match=r"concurrency_per_id is .* a number of 1 or more"):
        TaskKind(Noting, concurrency_per_id=nonsense)
