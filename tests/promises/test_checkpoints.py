"""Checkpoints: the next attempt begins where the last durable one says, whoever makes it."""

from collections.abc import Callable

import pytest

from hourhand.actors.model.execution.outcome import Outcome, Retry
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import StoredTask, Task
from tests.builders import a_task
from tests.promises.group import QUIET, Group, Member

DUE = a_task(due_in_ms=1_000)


class Journal:
    """What the executors of a group find and make."""

    def __init__(self, group: Group) -> None:
        self.found: list[object] = []
        self.makes: Callable[[TaskExecutor, Task], Outcome | None] = lambda _it, _task: None
        group.journal.make_executor = self._make  # type: ignore[method-assign]

    def _make(self) -> TaskExecutor:
        journal = self

        class Working(TaskExecutor):
            def execute(self, task: Task) -> Outcome | None:
                journal.found.append(self.checkpointed)
                return journal.makes(self, task)

        return Working()


def _fails_with(value: object) -> Callable[[TaskExecutor, Task], Outcome | None]:
    def execute(executor: TaskExecutor, _task: Task) -> Outcome | None:
        executor.checkpoint(value)
        if executor.attempt == 1:
            raise ValueError("not this time")
        return None

    return execute


def test_the_attempt_after_a_failure_finds_the_last_checkpoint() -> None:
    """On the same node, and nothing before the first."""
    group = Group()
    journal = Journal(group)
    journal.makes = _fails_with({"row": 7})
    group.join()
    group.append(DUE)

    group.advance(minutes=2)

    assert journal.found == [None, {"row": 7}]
    assert group.result_of(DUE) is CompletionResult.SUCCESS


def test_so_does_that_of_another_node() -> None:
    """The failure is durable, and so is what came before it."""
    group = Group()
    journal = Journal(group)

    def fail(executor: TaskExecutor, _task: Task) -> Outcome | None:
        executor.checkpoint([executor.attempt])
        return Retry() if executor.attempt == 1 else None

    journal.makes = fail
    first = group.join()
    group.append(DUE)
    group.advance(1_100)
    assert journal.found == [None]

    group.replace(first)
    group.advance(minutes=2)

    assert journal.found == [None, [1]]


def _begun(group: Group, member: Member, text: bytes) -> None:
    """Have the attempt that a member runs make a checkpoint."""
    (running, _), *_ = member.runner.running
    running.make(text)
    group.settle()


def test_after_a_crash_the_next_owner_finds_what_was_durable() -> None:
    """The attempt has not ended, and nobody will tell how."""
    group = Group()
    journal = Journal(group)
    first = group.join(held=True)
    group.append(DUE)
    group.advance(1_100)
    assert first.runner.begin() == 1
    _begun(group, first, b'{"value":{"done":3,"total":4}}')

    group.replace(first)
    group.advance(minutes=2)

    assert journal.found == [{"done": 3, "total": 4}]
    assert group.result_of(DUE) is CompletionResult.SUCCESS


def test_an_owner_that_was_replaced_changes_nothing_more() -> None:
    """Its checkpoint comes late, under an older epoch."""
    group = Group()
    journal = Journal(group)
    journal.makes = _fails_with("heir")
    frozen = group.join(held=True)
    group.append(DUE)
    group.advance(1_100)
    frozen.runner.begin()
    (running, _), *_ = frozen.runner.running

    group.replace(frozen)
    group.advance(1_000)
    running.make(b'{"value":"late"}')
    frozen.virtual.work()
    group.advance(minutes=2)

    assert journal.found == [None, "heir"]
    (row,) = group.data.checkpoints.of_key(0, DUE.key)
    assert (row.body, row.fence) == (b'{"value":"heir"}', 2)


def test_a_retry_by_an_operator_goes_on_from_the_checkpoint() -> None:
    """What failed for good was mended, and need not begin again."""
    group = Group(tree=QUIET)
    journal = Journal(group)
    is_mended: list[bool] = []

    def execute(executor: TaskExecutor, _task: Task) -> Outcome | None:
        executor.checkpoint("so far")
        if not is_mended:
            raise ValueError("no")
        return None

    journal.makes = execute
    group.join()
    group.append(DUE)
    group.advance(hours=3)
    assert group.result_of(DUE) is CompletionResult.FAILURE
    is_mended.append(True)
    group.client.retry_task(DUE.key).result(0)
    group.advance(minutes=2)

    assert journal.found[-1] == "so far"
    assert group.result_of(DUE) is CompletionResult.SUCCESS


def test_a_task_without_one_finds_none_beside_one_that_has() -> None:
    """Nothing is ever another task's."""
    group = Group()
    journal = Journal(group)

    def execute(executor: TaskExecutor, task: Task) -> Outcome | None:
        if task.uniqueness_key == "a":
            executor.checkpoint("a")
        return Retry() if executor.attempt == 1 else None

    journal.makes = execute
    first = group.join()
    for name in "ab":
        group.append(a_task(due_in_ms=1_000, ordering_id=name, uniqueness_key=name))
    group.advance(1_100)
    group.replace(first)
    group.advance(minutes=2)

    assert sorted(map(str, journal.found)) == ["None", "None", "None", "a"]


@pytest.mark.parametrize("how", ["fails", "loses"])
def test_a_store_that_fails_a_checkpoint_fails_no_attempt(how: str) -> None:
    """It is tried again, and the tree is not rebuilt for it."""
    group = Group()
    journal = Journal(group)
    journal.makes = _fails_with(1)
    member = group.join()
    failed: list[str] = []

    def first_checkpoint(request: object) -> bool:
        kind: str = getattr(request, "kind", "")
        if kind == "insert_checkpoints" and not failed:
            failed.append(kind)
            return True
        return False

    setattr(member.faults, how, first_checkpoint)
    group.append(DUE)
    group.advance(minutes=2)

    assert failed and journal.found == [None, 1]
    assert group.result_of(DUE) is CompletionResult.SUCCESS


def test_a_checkpoint_counts_in_the_memory_that_a_task_holds() -> None:
    """P13: large ones leave room for fewer tasks."""
    task = StoredTask(DUE.key, b"{}", 1)
    group = Group()
    journal = Journal(group)
    journal.makes = _fails_with("x" * 10_000)
    member = group.join()
    group.append(DUE)
    group.advance(1_100)
    waiting_bytes = member.memory.used_bytes

    group.advance(minutes=2)

    assert waiting_bytes > task.size_bytes + 10_000
    assert member.memory.used_bytes == 0
