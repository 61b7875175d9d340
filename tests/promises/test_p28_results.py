"""P28: where the success of a task is seen, the value that it ended with is found."""

from collections.abc import Callable

import pytest

from hourhand.actors.model.execution.outcome import Done, Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.json_text import shown_value
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.scheduler.adapters.memory.delivery import Request
from tests.builders import a_task
from tests.promises.group import Group, Member

DUE = a_task(due_in_ms=1_000)


def _of_kind(*kinds: str) -> Callable[[Request[object]], bool]:
    return lambda request: request.kind in kinds


def _group(returns: Callable[[TaskExecutor], Outcome | None]) -> Group:
    """Return an installation whose code ends as it is told."""
    group = Group()

    class Returning(TaskExecutor):
        def execute(self, task: Task) -> Outcome | None:
            del task
            return returns(self)

    group.journal.make_executor = Returning  # type: ignore[method-assign]
    return group


def _row(group: Group) -> StoredResult | None:
    return next(iter(group.data.results.of_key(0, DUE.key)), None)


def _run(group: Group, member: Member, *kept: str) -> None:
    """Let the task run, where requests of these kinds wait for ever."""
    member.faults.keeps = _of_kind(*kept)
    group.append(DUE)
    group.advance(1_100)


def test_p28_no_success_is_seen_before_its_result_can_be_read() -> None:
    """However long the store takes for that."""
    group = _group(lambda it: Done(it.fence))
    member = group.join()
    _run(group, member, "insert_results")

    assert group.result_of(DUE) is None
    member.faults.release()
    group.settle()

    row = _row(group)
    assert group.result_of(DUE) is CompletionResult.SUCCESS
    assert row is not None and shown_value(row.body) == 1


@pytest.mark.parametrize("second", [2, None])
def test_p28_a_crash_between_result_and_completion_runs_it_again(second: int | None) -> None:
    """The value of the run that closed the task counts, also where that has none."""
    group = _group(lambda it: Done(1 if it.fence == 1 else second))
    first = group.join()
    _run(group, first, "insert_completions")
    lost = _row(group)
    assert lost is not None and shown_value(lost.body) == 1 and group.result_of(DUE) is None

    group.replace(first)
    group.advance(minutes=1)

    assert group.result_of(DUE) is CompletionResult.SUCCESS
    (closed,) = group.data.completions.of_key(0, DUE.key)
    row = _row(group)
    found = row if row is not None and row.is_of(closed.finished_ms) else None
    assert (None if found is None else shown_value(found.body)) == second


def test_p28_a_store_that_fails_the_result_closes_nothing() -> None:
    """The tree is rebuilt, and adopts the end of the attempt with its value."""
    group = _group(lambda it: Done(it.attempt))
    member = group.join()
    failed: list[str] = []

    def once(request: Request[object]) -> bool:
        if request.kind == "insert_results" and not failed:
            failed.append(request.kind)
            return True
        return False

    member.faults.fails = once
    group.append(DUE)
    group.advance(minutes=1)

    row = _row(group)
    assert failed and group.result_of(DUE) is CompletionResult.SUCCESS
    assert row is not None and shown_value(row.body) == 1
