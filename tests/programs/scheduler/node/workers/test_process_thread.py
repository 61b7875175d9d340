"""User code in real processes: it runs, ends, and dies, and nothing of the node does."""

import os
import signal
from collections.abc import Iterator
from itertools import count

import pytest

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import AttemptStarted, AttemptStuck
from hourhand.actors.model.task.checkpoint_value import checkpoint_value
from hourhand.actors.model.task.task_result import result_value
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.executors.process_plan import plan_of
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.executors.user_executors import UserExecutors
from tests.programs.scheduler.node.process_bench import ProcessBench
from tests.waiting import until


@pytest.fixture(scope="module")
def bench() -> Iterator[ProcessBench]:
    """One process for all that leave it as it was."""
    with ProcessBench() as made:
        yield made


def test_an_attempt_runs_in_a_process_of_its_own(bench: ProcessBench) -> None:
    """It is told its number and fence, and gets the data that was given."""
    ended = bench.run("told", {"a": [1, None]}, number=3, epoch=8)

    assert ended.ending is Ending.DROPPED, ended
    pid, began, *told = (ended.reason or "").split(" ", 5)
    assert pid == began != str(os.getpid()), "middleware began in that process"
    assert told[:2] == ["3", "8"]
    assert told[3] == "{'a': [1, None]}"


def test_user_code_gives_way_to_its_node(bench: ProcessBench) -> None:
    """By default, where cores are short; the setting may turn that off."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with ProcessBench(process_niceness=0) as alike:
        found = [each.run("nice").reason for each in (bench, alike)]

    assert found == [str(min(own + 5, 19)), str(own)]


def test_a_coroutine_has_a_loop_there(bench: ProcessBench) -> None:
    """An async attempt runs in the process, alone."""
    assert bench.run("async").reason not in {None, str(os.getpid())}


def test_a_coroutine_past_its_timeout_is_cancelled(bench: ProcessBench) -> None:
    """As in the node, and the process goes on."""
    pid = bench.run("async").reason

    assert bench.run("async-hangs").ending is Ending.TIMED_OUT
    assert bench.run("async").reason == pid


@pytest.mark.parametrize(
    ("what", "name"), [("value", "ValueError"), ("exit", "SystemExit"), ("base", "BaseException")]
)
def test_what_is_raised_fails_the_attempt_alone(bench: ProcessBench, what: str, name: str) -> None:
    """Whatever it is; the process goes on, and the node has the stack of user code."""
    pid = bench.run("async").reason

    ended = bench.run("raises", {"what": what})

    assert (ended.ending, ended.error_class) == (Ending.FAILED, name)
    assert "in raises" in (ended.error_stack or "")
    assert bench.run("async").reason == pid


@pytest.mark.parametrize("by", ["SIGSEGV", "SIGKILL", "SIGABRT", "SIGUSR1"])
def test_a_death_is_the_failure_of_one_attempt_and_names_the_signal(
    bench: ProcessBench, by: str
) -> None:
    """What was sent with it goes to the next process, and is not counted."""
    bench.start("dies", {"by": by})
    for _ in range(3):
        bench.start("async")
    ends = [bench.ended() for _ in range(4)]

    failed = [each for each in ends if each.ending is not Ending.DROPPED]
    assert [each.ending for each in failed] == [Ending.FAILED], ends
    assert failed[0].error_class == "ProcessDied"
    assert f"was killed by {by}" in (failed[0].error_message or "")
    assert failed[0].ruling is not None, "the policy of the kind counts it"
    assert failed[0].ruling.attempts_max == 1


def test_an_exit_of_the_process_is_a_failure_that_names_the_code(bench: ProcessBench) -> None:
    """``os._exit`` runs nothing that could tell."""
    ended = bench.run("exits")

    assert ended.error_message == "its process ended with exit code 7"


def test_closed_descriptors_cost_one_attempt(bench: ProcessBench) -> None:
    """The process cannot answer any more, and is replaced."""
    ended = bench.run("closes")

    assert (ended.ending, ended.error_class) == (Ending.FAILED, "ProcessDied")
    assert "descriptors" in (ended.error_message or "")
    assert bench.run("async").ending is Ending.DROPPED


def test_a_fork_of_user_code_ends_with_the_call(bench: ProcessBench) -> None:
    """The child reports nothing, and the process goes on."""
    pid = bench.run("async").reason

    assert bench.run("forks").ending is Ending.DONE
    assert bench.run("async").reason == pid


def test_lines_of_a_log_reach_the_node_with_their_attempt(bench: ProcessBench) -> None:
    """And what is written to the standard streams harms nothing."""
    attempt = bench.start("prints")

    assert bench.ended().ending is Ending.DONE
    ((line, running),) = [each for each in bench.lines if each[0].name == "mine"]
    assert line.message.startswith("logged by ")
    assert running is not None
    assert running.attempt is attempt


@pytest.mark.parametrize("dies", [False, True])
def test_checkpoints_come_back_from_a_process_and_go_there(
    bench: ProcessBench, *, dies: bool
) -> None:
    """The last one of a failure always, and that of a process that is killed a moment later."""
    first = bench.run("checkpoints", {"dies": dies}).checkpoint
    assert first is not None
    assert checkpoint_value(first.body) == {"done": 2, "found": None}

    again = bench.run("checkpoints", found=first).checkpoint

    assert again is not None
    found = {"done": 2, "found": None}
    assert checkpoint_value(again.body) == {"done": 2, "found": found}


def test_a_snooze_comes_back_from_a_process_and_its_count_goes_there(bench: ProcessBench) -> None:
    """One more than it may have fails the attempt, there as here."""
    first, last = (bench.run("snoozes", snoozed=each) for each in (1, 3))

    assert (first.ending, first.retry_after_ms) == (Ending.SNOOZED, 2_000)
    assert (last.ending, last.error_class) == (Ending.FAILED, "SnoozesUsedUp")


def test_values_come_back_from_a_process_however_many_there_are(bench: ProcessBench) -> None:
    """Each member of a batch keeps its own value."""
    for _ in range(300):
        bench.start("returns")
    ends = [bench.ended() for _ in range(300)]

    found = {e.attempt.task.key.ordering_id: result_value(e.returned or b"") for e in ends}
    assert all(str(value) == f"{name} " + "x" * 60_000 for name, value in found.items())
    assert {each.ending for each in ends} == {Ending.DONE}


def test_a_batch_runs_in_one_process(bench: ProcessBench) -> None:
    """One frame, and one call for all."""
    for _ in range(4):
        bench.start("batched")

    assert [bench.ended().reason for _ in range(4)] == ["4"] * 4


def test_a_batch_whose_process_died_runs_once_more_alone(bench: ProcessBench) -> None:
    """Where its executor asks for that, only the task that kills fails."""
    for number in range(4):
        bench.start("batched", {"dies": number == 2})
    ends = [bench.ended() for _ in range(4)]

    assert sorted(each.reason or "" for each in ends) == ["", "1", "1", "1"]
    assert [e.error_class for e in ends if e.reason is None] == ["ProcessDied"]


def test_what_spins_past_its_timeout_is_killed() -> None:
    """Whatever signals it ignores; the process is replaced."""
    with ProcessBench() as bench:
        ended = bench.run("spins")

        assert (ended.ending, ended.error_class) == (Ending.TIMED_OUT, "TimeoutError")
        assert bench.run("async").ending is Ending.DROPPED


def test_what_makes_no_checkpoint_for_so_long_is_killed() -> None:
    """It goes on as long as it makes some."""
    with ProcessBench() as bench:
        ended = bench.run("falls-silent", {"checkpoints": 6})

        assert (ended.ending, ended.error_class) == (Ending.TIMED_OUT, "TimeoutError")
        assert (ended.error_message or "").startswith("stuck: no checkpoint for 1 s (stuck_after)")
        assert ended.checkpoint is not None
        assert checkpoint_value(ended.checkpoint.body) == 5
        assert len(bench.telemetry.of(AttemptStuck)) == 1
        assert bench.run("async").ending is Ending.DROPPED


def test_what_listens_ends_by_itself_after_its_timeout() -> None:
    """It is signalled, and what it returns counts."""
    with ProcessBench(kill_grace_ms=30_000) as bench:
        pid = bench.run("async").reason

        assert bench.run("listens").reason == "it listened"
        assert bench.run("async").reason == pid, "nothing was killed"


def test_a_slow_attempt_holds_no_other() -> None:
    """What waits behind it in its process is taken back."""
    with ProcessBench(processes=2) as bench:
        for _ in range(20):
            bench.start("async")
        for _ in range(20):
            assert bench.ended().ending is Ending.DROPPED
        slow = bench.start("sleeps", {"s": 3})
        for _ in range(20):
            bench.start("async")

        assert bench.ended().attempt is not slow
        for _ in range(19):
            bench.ended()
        assert bench.ended().attempt is slow


def test_too_much_memory_ends_the_attempt_that_holds_it() -> None:
    """The error says how much, and which setting allows less."""
    with ProcessBench(memory_bytes_per_process_max=250_000_000) as bench:
        ended = bench.run("leaks")

        assert (ended.ending, ended.error_class) == (Ending.FAILED, "ProcessTooLarge")
        assert "memory_bytes_per_process_max" in (ended.error_message or "")
        assert bench.run("async").ending is Ending.DROPPED


def test_a_process_is_replaced_after_so_many_tasks() -> None:
    """Nothing is lost or counted by that."""
    with ProcessBench(tasks_per_process_max=2) as bench:
        pids = [bench.run("async").reason for _ in range(5)]

    assert len(set(pids)) == 3, pids


def test_a_lease_that_ends_kills_what_runs_and_counts_nothing() -> None:
    """Another owner may start it from then on."""
    with ProcessBench() as bench:
        bench.lease_ends_ms = bench.clock.monotonic_ms() + 1_500
        bench.start("sleeps", {"s": 1_000})
        bench.until_begun()

        assert bench.ended().ending is Ending.NOT_STARTED
        assert bench.clock.monotonic_ms() >= bench.lease_ends_ms
        bench.lease_ends_ms = 1e18
        until(lambda: bench.run("async").ending is Ending.DROPPED, "the lease is back")


def test_what_is_given_up_is_killed_at_once() -> None:
    """Nobody hears of its end, and it counts for nothing."""
    with ProcessBench(kill_grace_ms=60_000) as bench:
        bench.start("sleeps", {"s": 1_000}, partition=4)
        bench.until_begun()

        bench.runner.drain([4], give_up="lost to another member")
        until(lambda: not bench.processes.page.place(0).seq, "its process is gone")

        assert bench.run("async").ending is Ending.DROPPED


def test_a_drain_ends_what_runs_just_before_its_deadline() -> None:
    """Behind the deadline another node may begin."""
    with ProcessBench(drain_deadline_ms=1_500) as bench:
        bench.start("sleeps", {"s": 1_000}, partition=4)
        bench.until_begun()
        drained_ms = bench.clock.monotonic_ms()
        bench.runner.drain([4])

        assert bench.ended().ending is Ending.NOT_STARTED
        assert bench.clock.monotonic_ms() < drained_ms + 1_500


def test_processes_end_with_the_guardian_and_are_started_again() -> None:
    """Even that one may be killed: what ran begins again, uncounted."""
    with ProcessBench() as bench:
        bench.start("sleeps", {"s": 1_000})
        bench.until_begun()
        guardian = bench.processes.guardian_pid
        assert guardian is not None
        os.kill(guardian, signal.SIGKILL)

        assert bench.ended().ending is Ending.NOT_STARTED
        assert bench.run("async").ending is Ending.DROPPED


def test_what_no_module_has_a_name_for_is_refused_before_a_node_starts() -> None:
    """The error says which kind it is, and what to do."""
    made = Hourhand()

    @made.task("local", run_in="process")
    def local() -> None:
        """Be defined in a function."""

    users = UserExecutors.of(None, made).with_processes("thread")
    with pytest.raises(InvalidExecutor, match=r"kind 'local'.*top level"):
        plan_of(users, made, (), None, ExecutionSettings())


def test_nothing_is_made_in_the_node() -> None:
    """The class of what runs in a process is looked at, and never called."""
    made = count()

    class Counted(TaskExecutor):
        run_in = "process"

        def __init__(self) -> None:
            next(made)

        def execute(self, task: object) -> None:
            """Do nothing."""

    users = UserExecutors.of(None, {"a": Counted}).with_processes("thread")
    assert users.make("a") is users.make("a")
    assert next(made) == 0


@pytest.mark.parametrize(
    ("kind", "error_class", "grace_ms"),
    [
        ("looks", None, 60_000),
        ("async-waits", "CancelledError", 60_000),
        ("sleeps", "ProcessDied", 0),
    ],
)
def test_p6_what_a_command_asks_to_end_ends_and_is_killed_where_it_does_not(
    kind: str, error_class: str | None, grace_ms: int
) -> None:
    """The next attempt runs in a process that nobody asked."""
    with ProcessBench(kill_grace_ms=grace_ms) as bench:
        attempt = bench.start(kind, {"s": 1_000})
        bench.until_begun()

        withdrawn = bench.runner.withdraw(attempt, interrupts=True)
        ended = bench.ended()

        assert not withdrawn
        assert (ended.ending, ended.error_class) == (Ending.CANCELLED, error_class)
        assert bench.run("async").ending is Ending.DROPPED


def test_p6_what_waits_in_a_process_is_never_called_once_it_was_asked_to_end() -> None:
    """What runs before it goes on."""
    with ProcessBench() as bench:
        first = bench.start("looks")
        bench.until_begun()
        second = bench.start("told")

        withdrawn = bench.runner.withdraw(second, interrupts=True)
        bench.runner.withdraw(first, interrupts=True)
        ends = {bench.ended().attempt for _ in range(1 if withdrawn else 2)}

        assert ends == ({first} if withdrawn else {first, second})
        begun = [event.key for event in bench.telemetry.of(AttemptStarted)]
        assert begun == [first.task.key]
