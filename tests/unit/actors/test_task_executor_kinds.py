"""TaskExecutor: tasks of several kinds of one ordering id, and of kinds that nobody here runs."""

from msgspec.structs import replace

from hourhand.actors.messages import (
    DrainTasks,
    UpdateTask,
)
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.operations.events import TaskHeld
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult
from hourhand.actors.model.task.task import AttemptState, StoredTask
from tests.builders import a_stored_task
from tests.unit.actors.execution_bench import Bench, Job, holding_of, task_named


def task_of(kind: str, *, offset: int = 3, attempts: AttemptState | None = None) -> StoredTask:
    """Return a due task of a kind."""
    data = with_kind(b'{"invoice":42}', kind)
    task = a_stored_task(due_in_ms=0, offset=offset, data=data)
    return task if attempts is None else StoredTask(task.key, data, offset, attempts)


def held(bench: Bench, task: StoredTask) -> AttemptRecord:
    """Let the role find that nobody here runs a task, and make that durable."""
    bench.execute(task)
    bench.answer_check()
    return bench.record_attempt()


def test_each_kind_is_run_by_an_executor_of_its_own() -> None:
    """Made once while the ordering id is busy."""
    bench = Bench()
    mail, charge = Job(), Job()
    bench.kinds.update({"mail": mail, "charge": charge})
    ran_by = []

    for name, kind in (("a", "mail"), ("b", "charge"), ("c", "mail")):
        bench.execute(replace(task_named(name), body=task_of(kind).body))
    bench.answer_check()
    for _ in range(3):
        ran_by.append(bench.runner.started[-1].executor)
        bench.finish()

    assert ran_by == [mail, charge, mail]
    assert bench.made == ["mail", "charge"]


def test_an_unknown_kind_is_held_and_says_why() -> None:
    """It reads as blocked, uses up no attempt, and what is behind it goes to the store."""
    bench = Bench(attempts_max=1)

    record = held(bench, task_of("ship"))

    assert not bench.runner.started
    assert (record.attempt, record.used, record.next_attempt_ms) == (0, 0, None)
    assert record.result is AttemptResult.FAILURE and record.error_class == "UnknownKind"
    assert record.error_message is not None and "'ship'" in record.error_message
    assert bench.is_slow and not bench.is_over
    assert [each.kind for each in bench.harness.telemetry.of(TaskHeld)] == ["ship"]


def test_attempts_that_were_made_elsewhere_are_neither_counted_nor_written_over() -> None:
    """What holds it has a number of its own, and the next owner counts as it did before."""
    bench = Bench()

    record = held(bench, task_of("ship", attempts=AttemptState(2, 5)))

    assert (record.attempt, record.used) == (6, 2)


def test_a_held_task_can_be_withdrawn_and_moved() -> None:
    """It never ran."""
    for withdrawal in Withdrawal:
        bench = Bench()
        held(bench, task_of("ship"))

        asker = bench.withdraw(withdrawal)

        assert holding_of(asker) is WithdrawalResult.WITHDRAWN
        assert bench.is_let_go


def test_a_later_record_may_name_a_kind_that_is_known() -> None:
    """The task is run at once."""
    bench = Bench()
    bench.kinds["mail"] = Job()
    held(bench, task_of("ship"))

    bench.tell(UpdateTask(task_of("mail", offset=9)))

    assert bench.runner.only.task.kind == "mail"


def test_a_held_task_is_let_go_of_when_the_partition_goes() -> None:
    """Before its hold is durable, and after it."""
    for durable in (False, True):
        bench = Bench()
        bench.execute(task_of("ship"))
        bench.answer_check()
        if durable:
            bench.record_attempt()
        bench.tell(DrainTasks())
        if not durable:
            bench.record_attempt()

        assert bench.is_drained and not bench.runner.started
