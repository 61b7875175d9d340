"""Deaths and hangs that a test scripts: they end attempts as those of real processes do."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
import tenacity

from hourhand import BatchExecutor, RetryPolicy, Task, TaskExecutor
from hourhand.actors.model.operations.events import (
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    AttemptStuck,
)
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings
from hourhand.scheduler.testing import Execution, VirtualScheduler
from tests.unit.scheduler.testing.testing_bench import NOON, Noting, a_scheduler, a_task

RETRY = RetryPolicy(attempts_max=3, wait=tenacity.wait_fixed(10))
GRACE_MS = 2_000
TREE = TreeSettings(execution=ExecutionSettings(kill_grace_ms=GRACE_MS))


class Resizing(TaskExecutor):
    """Runs in a process, for a minute at most."""

    run_in = "process"
    timeout: timedelta | None = timedelta(minutes=1)
    retry = RETRY
    ran: list[tuple[str, int, object]] = []  # noqa: RUF012 - each test begins with none

    def execute(self, task: Task) -> None:
        """Note it, and what it found."""
        self.ran.append((task.uniqueness_key, self.attempt, self.checkpointed))
        self.checkpoint({"done": self.attempt})
        if task.data.get("fail"):
            raise LookupError("no such photo")


class Unlimited(Resizing):
    """Has no timeout."""

    timeout = None


class Rows(BatchExecutor):
    """Runs batches in a process."""

    run_in = "process"
    retry = RETRY
    batch_tasks_max = 10

    def execute_many(self, tasks: Sequence[Task]) -> None:
        """Succeed."""


class RowsAlone(Rows):
    """Runs the tasks of a batch that died once more, each alone."""

    retries_alone = True


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    """Begin with none."""
    Resizing.ran.clear()


def a_process(executor: type[TaskExecutor] = Resizing) -> VirtualScheduler:
    """Return a scheduler whose user code runs in processes."""
    return VirtualScheduler(executor, tree=TREE, now=NOON)


def told(executions: Sequence[Execution]) -> list[tuple[int, str, str | None]]:
    """Return attempts with how they ended."""
    return [(each.attempt, each.result.value, each.error_message) for each in executions]


def test_user_code_of_a_process_runs_in_the_test() -> None:
    """With its error, its stack and its checkpoint, as in a thread."""
    scheduler = a_process()
    scheduler.schedule_task(a_task(fail=1))

    (first, second, third) = scheduler.drain()

    assert [each[1:] for each in Resizing.ran] == [(1, None), (2, {"done": 1}), (3, {"done": 2})]
    assert (third.error_class, third.error_message) == ("LookupError", "no such photo")
    assert first.error_stack is not None and "in execute" in first.error_stack
    assert second.task is not None
    assert len(scheduler.telemetry.of(AttemptStarted)) == 3


def test_a_scripted_death_is_the_failure_of_one_attempt() -> None:
    """With the error of a real one; the next attempt follows after the pause of the policy."""
    scheduler = a_process()
    scheduler.schedule_task(a_task())
    scheduler.schedule_task(a_task(ordering_id="customer-8", name="2"))
    scheduler.next_attempt(uniqueness_key="1").dies_with("SIGSEGV")

    ran = scheduler.run_due()

    assert told(ran) == [
        (1, "failure", "its process was killed by SIGSEGV"),
        (1, "success", None),
    ]
    assert ran[0].error_class == "ProcessDied"
    assert told(scheduler.advance(seconds=10)) == [(2, "success", None)]
    (failed,) = scheduler.telemetry.of(AttemptFailed)
    assert failed.attempt == 1 and len(scheduler.telemetry.of(AttemptStarted)) == 3
    assert [each[:2] for each in Resizing.ran] == [("2", 1), ("1", 2)]


def test_a_death_counts_as_the_policy_says() -> None:
    """Until attempts are used up."""
    scheduler = a_process()
    scheduler.schedule_task(a_task())
    scheduler.next_attempt().dies_with("SIGKILL", times=2)
    scheduler.next_attempt().exits_with(3)

    ran = scheduler.drain()

    memory = ": if nobody did that, the machine or its container has run out of memory"
    assert [each.error_message for each in ran] == [
        f"its process was killed by SIGKILL{memory}",
        f"its process was killed by SIGKILL{memory}",
        "its process ended with exit code 3",
    ]
    assert scheduler.result_of(a_task().key) is CompletionResult.FAILURE
    assert not Resizing.ran


def test_a_process_that_holds_too_much_memory_is_killed() -> None:
    """With the error of a real one, before its code or behind it."""
    bound = ExecutionSettings(memory_bytes_per_process_max=50_000_000)
    scheduler = VirtualScheduler(Resizing, tree=TreeSettings(execution=bound), now=NOON)
    scheduler.schedule_task(a_task())
    scheduler.next_attempt().dies_of_memory()
    scheduler.next_attempt().dies_of_memory(after_execute=True)

    first, second, third = scheduler.drain()

    assert first.error_class == second.error_class == "ProcessTooLarge"
    assert (
        first.error_message
        == second.error_message
        == (
            "its process held 50000001 bytes of memory, at most 50000000 are allowed"
            " (tree.execution.memory_bytes_per_process_max), and was killed"
        )
    )
    assert third.result is AttemptResult.SUCCESS
    assert [each[1] for each in Resizing.ran] == [2, 3]


def test_code_that_ran_before_its_process_died_runs_again() -> None:
    """It finds its last checkpoint: what has an effect has to be idempotent."""
    scheduler = a_process()
    scheduler.schedule_task(a_task())
    scheduler.next_attempt().dies_with("SIGKILL", after_execute=True)

    scheduler.drain()

    assert Resizing.ran == [("1", 1, None), ("1", 2, {"done": 1})]


def test_what_hangs_is_killed_after_its_timeout_and_the_grace() -> None:
    """As a real one, and its ordering id waits meanwhile."""
    scheduler = a_process()
    scheduler.schedule_task(a_task())
    scheduler.schedule_task(a_task(name="2"))
    scheduler.next_attempt(uniqueness_key="1").hangs()

    early = scheduler.advance(milliseconds=60_000 + GRACE_MS - 1)
    ran = scheduler.advance(milliseconds=1)

    assert early == [] and len(scheduler.telemetry.of(AttemptStarted)) == 1
    message = "it ran past its timeout, and its process was killed 2000 ms later"
    assert told(ran) == [(1, "timeout", f"{message} (tree.execution.kill_grace_ms)")]
    assert ran[0].at == NOON + timedelta(milliseconds=60_000 + GRACE_MS)
    assert [each.key.uniqueness_key for each in scheduler.drain()] == ["1", "2"]


def test_what_hangs_and_may_not_be_silent_is_killed_as_stuck() -> None:
    """After ``stuck_after`` and the grace, without a timeout."""

    class Silent(Unlimited):
        stuck_after = timedelta(seconds=90.5)

    scheduler = a_process(Silent)
    scheduler.schedule_task(a_task())
    scheduler.next_attempt().hangs()

    early = scheduler.advance(milliseconds=90_499 + GRACE_MS)
    ran = scheduler.advance(seconds=1)

    assert early == []
    (execution,) = ran
    assert execution.error_message is not None
    assert "stuck: no checkpoint for 90.5 s (stuck_after)" in execution.error_message
    assert [each.limit_ms for each in scheduler.telemetry.of(AttemptStuck)] == [90_500]


def test_what_hangs_without_a_timeout_stays_open() -> None:
    """For ever, and ``drain`` says so; a year of it takes no time."""
    scheduler = a_process(Unlimited)
    scheduler.schedule_task(a_task())
    scheduler.next_attempt().hangs()

    with pytest.raises(AssertionError, match="still open after 366 days"):
        scheduler.drain()


def test_a_command_ends_what_hangs() -> None:
    """As the real one: asked first, killed after the grace."""
    scheduler = a_process(Unlimited)
    scheduler.schedule_task(a_task())
    scheduler.next_attempt().hangs()
    scheduler.run_due()

    receipt = scheduler.client.cancel_task(a_task().key, running=True).result()
    scheduler.advance(milliseconds=GRACE_MS - 1)
    before = scheduler.client.outcome(receipt)
    scheduler.advance(milliseconds=1)
    after = scheduler.client.outcome(receipt)

    assert before is not None and before.outcome.value == "running"
    assert after is not None and after.outcome.value == "cancelled"
    assert scheduler.result_of(a_task().key) is CompletionResult.CANCELLED
    (ran,) = scheduler.executions
    assert ran.result is AttemptResult.DROPPED
    assert not scheduler.telemetry.of(AttemptFailed)


def test_a_stop_kills_what_hangs_before_the_drain_deadline() -> None:
    """It counts no attempt, and the node after it starts the task again."""
    scheduler = a_process(Unlimited)
    scheduler.schedule_task(a_task())
    scheduler.next_attempt().hangs()
    scheduler.run_due()

    scheduler.restart()

    assert told(scheduler.executions) == [(1, "success", None)]
    assert NOON < scheduler.now <= NOON + timedelta(seconds=10)
    (abandoned,) = scheduler.telemetry.of(AttemptAbandoned)
    assert abandoned.reason == "its process was killed just before the drain deadline"


def test_a_crash_takes_what_hangs_with_it() -> None:
    """Its task is not a suspect: the next attempt is the first one again."""
    scheduler = a_process(Unlimited)
    scheduler.schedule_task(a_task())
    scheduler.next_attempt().hangs()
    scheduler.run_due()

    scheduler.crash()

    assert told(scheduler.executions) == [(1, "success", None)]


def test_what_hangs_keeps_its_process() -> None:
    """The others wait, where there are as many of those as processes."""
    tree = TreeSettings(execution=ExecutionSettings(processes=1, kill_grace_ms=0))
    scheduler = VirtualScheduler(Resizing, tree=tree, now=NOON)
    for number in range(3):
        scheduler.schedule_task(a_task(ordering_id=f"id-{number}", name=str(number)))
    scheduler.next_attempt().hangs()

    assert scheduler.run_due() == []
    ran = scheduler.advance(minutes=1)
    assert [each.result.value for each in ran] == ["timeout", "success", "success"]


@pytest.mark.parametrize(("executor", "failed"), [(Rows, 3), (RowsAlone, 0)])
def test_a_death_of_a_batch_is_that_of_all_its_tasks(
    executor: type[TaskExecutor], failed: int
) -> None:
    """Unless they run once more, each alone."""
    scheduler = a_process(executor)
    for number in range(3):
        scheduler.schedule_task(a_task(ordering_id=f"id-{number}", name=str(number)))
    scheduler.next_attempt(uniqueness_key="1").dies_with("SIGABRT")

    scheduler.drain()

    assert len(scheduler.telemetry.of(AttemptFailed)) == failed
    assert len(scheduler.assert_executed(times=3)) == 3


def test_a_new_process_has_executors_of_its_own() -> None:
    """The values that the dead process had in them are gone."""
    numbers: list[int] = []

    class Counting(TaskExecutor):
        run_in = "process"
        retry = RETRY

        def __init__(self) -> None:
            self.calls = 0

        def execute(self, task: Task) -> None:
            self.calls += 1
            numbers.append(self.calls)

    scheduler = VirtualScheduler(executors={"resize": Counting}, now=NOON)
    for number in range(3):
        task = a_task(name=str(number))
        scheduler.schedule_task(task.model_copy(update={"kind": "resize"}))
    scheduler.next_attempt(kind="resize", uniqueness_key="2").dies_with("SIGBUS")

    scheduler.drain()

    assert numbers == [1, 2, 1]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (lambda kit: kit.next_attempt(uniqueness="1"), "did you mean uniqueness_key"),
        (lambda kit: kit.next_attempt().dies_with("SIGSEGF"), "did you mean SIGSEGV"),
        (lambda kit: kit.next_attempt().dies_with(11), "11 is not the name of a signal"),
        (lambda kit: kit.next_attempt().exits_with(256), "0 to 255 is needed"),
        (lambda kit: kit.next_attempt().dies_of_memory(), "execution.memory_bytes_per_process_max"),
        (lambda kit: kit.next_attempt().hangs(times=0), "a number of 1 or more is needed"),
    ],
)
def test_a_script_that_cannot_be_is_refused(script: object, complaint: str) -> None:
    """When it is made, not when nothing follows it."""
    scheduler = a_process()

    with pytest.raises(InvalidTask, match=complaint):
        script(scheduler)  # type: ignore[operator]


def test_threads_do_not_die_alone() -> None:
    """The kit says what to do, and which call loses the node."""
    scheduler = a_scheduler(Noting)

    with pytest.raises(InvalidTask, match=r'all tasks run in threads.*crash\(\).*run_in="process"'):
        scheduler.next_attempt().dies_with("SIGSEGV")
    with pytest.raises(InvalidTask, match="tasks without a kind run in threads"):
        scheduler.next_attempt(kind=None).exits_with(1)
