"""Runs of one ordering id: tasks that begin together and are closed one after another.

An OrderingExecutor with its real TaskExecutor; the runner is a fake, and the test answers for
tracker and store.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from actors.following_tasks import Follower
from actors.messages import (
    AdoptAttempt,
    AttemptRecorded,
    CheckTask,
    CompletionRecorded,
    DrainTasks,
    ExecuteTask,
    LoadOrdering,
    OrderingDrained,
    OrderingLoaded,
    PauseOrdering,
    RecordAttempt,
    RecordCompletion,
    SpillQueue,
    StartTasks,
    TaskChecked,
    TasksReleased,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.attempts import Attempt, Ending
from actors.model.backoff import RetryPolicy
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.events import AttemptFinished
from actors.model.key import first_key_at
from actors.model.ordering_queue import OrderingQueue
from actors.model.outcome import Outcome
from actors.model.settings import TreeSettings, WindowSettings
from actors.model.status import Completion, CompletionResult
from actors.model.task import Task
from actors.model.task_executor import TaskExecutor
from actors.ordering_executor import OrderingExecutor
from tests.unit.actors.ordering_executor_bench import ID, task_named
from tests.unit.probes import EPOCH, Harness, Probe

RUN_MAX = 4
WAIT_S = 60


class Job(TaskExecutor):
    """The fake runner never calls it."""

    retry = RetryPolicy(attempts_max=3, wait=lambda _state: WAIT_S)  # type: ignore[arg-type]

    def execute(self, task: Task) -> Outcome | None:
        """Never called here."""
        raise AssertionError(f"{task.key} was run")


class Bench:
    """One ordering id whose tasks may be in one batch."""

    def __init__(self, known_since_ms: int = 0) -> None:
        window = WindowSettings(ordering_queue_tasks_max=20, executing_tasks_max=20)
        self.harness = Harness(
            TreeSettings(window=window),
            make_executor=Job,
            known_since_ms=known_since_ms,
            run_tasks_max={None: RUN_MAX},
        )
        self.runner, self.tracker = self.harness.runner, self.harness.tracker
        self.role = OrderingExecutor(
            self.harness.effects,
            self.harness.ownership,
            ID,
            partition_executor=self.harness.executor,
            siblings=self.harness.siblings,
        )
        self.ref = self.harness.spawn(self.role, meets=False)
        self.slots = 0
        self.budget = self.harness.siblings.budget

    def tell(self, *messages: object) -> None:
        """Let the role handle messages that came together, and count what it releases."""
        for message in messages:
            if isinstance(message, ExecuteTask):
                self.slots += 1
                self.budget.run((message.task,))
            self.ref.tell(message)
        self._run()

    def _run(self) -> None:
        self.harness.run()
        for released in self.harness.executor.take_all(TasksReleased):
            self.slots -= released.released
            self.budget.release_slots(ID, released.released)

    def send(self, names: str, offset: int = 0) -> None:
        """Send due tasks at one moment."""
        self.tell(*(ExecuteTask(task_named(name, offset)) for name in names))

    @property
    def running(self) -> str:
        """The tasks whose attempts were started and have not ended."""
        return "".join(each.attempt.task.key.uniqueness_key for each in self.runner.started)

    def end(self, *endings: Ending) -> list[Attempt]:
        """End attempts as a batch does: one after another, before anything else happens."""
        ended = [self.runner.end(ending) for ending in endings]
        self._run()
        return ended

    def close(self) -> str:
        """Make the one completion that was asked for durable; return whose it is."""
        return self.completed().key.uniqueness_key

    def completed(self) -> Completion:
        """Make the one completion that was asked for durable."""
        asked = self.tracker.take(RecordCompletion)
        completion = asked.completion
        assert not self.tracker.has(RecordCompletion), "two are asked for at once (P4)"
        self.harness.siblings.known_completions.remember(completion)
        asked.reply_to.tell(CompletionRecorded(completion.key, completion.result))
        self._run()
        return completion

    def note_failure(self) -> int:
        """Make the failed attempt durable; return how many count as used."""
        asked = self.tracker.take(RecordAttempt)
        asked.reply_to.tell(AttemptRecorded(asked.record.key))
        self._run()
        return asked.record.used

    def withdraw(self, name: str, withdrawal: Withdrawal = Withdrawal.CLOSE) -> WithdrawalResult:
        """Ask for a task back."""
        asker = Probe()
        self.tell(WithdrawTask(task_named(name).key, withdrawal, asker))
        return asker.take(TaskWithdrawn).result

    def load(self, names: str) -> None:
        """Answer for the store."""
        self.harness.persistence.take(LoadOrdering)
        self.tell(OrderingLoaded(tuple(map(task_named, names)), None))


DONE = Ending.DONE


def test_tasks_that_are_due_together_begin_together_and_are_closed_in_their_order() -> None:
    """The next completion is asked for when the one before is durable."""
    bench = Bench()

    bench.send("abc")
    begun = bench.running
    attempts = bench.end(DONE, DONE, DONE)

    assert begun == "abc"
    assert [each.follows for each in attempts] == [None, *attempts[:2]]
    assert [bench.close() for _ in "abc"] == ["a", "b", "c"]
    assert bench.runner.settled == attempts
    assert (bench.slots, bench.budget.due_bytes) == (0, 0)


def test_a_run_is_no_longer_than_asked_for() -> None:
    """What is left begins when all of the run is closed."""
    bench = Bench()

    bench.send("abcdef")
    first = bench.running
    bench.end(DONE, DONE, DONE, DONE)
    closed = "".join(bench.close() for _ in "abcd")

    assert (first, closed, bench.running) == ("abcd", "abcd", "ef")


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.RETRY, Ending.TIMED_OUT])
def test_what_follows_a_task_that_is_not_done_goes_again_after_it(ending: Ending) -> None:
    """Whatever its attempt came to; and that uses up none of its attempts."""
    bench = Bench()
    bench.send("abc")

    bench.end(DONE, ending, DONE)
    closed = bench.close()
    used = bench.note_failure()
    bench.harness.advance(1000 * WAIT_S)
    again = bench.running
    bench.end(DONE)
    closed += bench.close()
    bench.load("c")

    assert (closed, used, again) == ("ab", 1, "b")
    assert bench.running == "c" and bench.runner.started[0].attempt.number == 1


def test_a_void_attempt_is_told_of() -> None:
    """Operators see that user code ran."""
    bench = Bench()
    bench.send("ab")

    bench.end(Ending.FAILED, DONE)

    told = bench.harness.telemetry.of(AttemptFinished)
    assert [each.key.uniqueness_key for each in told] == ["a", "b"]


def test_a_void_attempt_is_settled() -> None:
    """Its node remembers it no longer."""
    bench = Bench()
    bench.send("ab")

    attempts = bench.end(Ending.FAILED, DONE)

    assert bench.runner.settled == attempts[1:]


def test_a_dropped_task_does_not_hold_what_follows_it() -> None:
    """It is closed, as one that is done."""
    bench = Bench()
    bench.send("ab")

    bench.end(Ending.DROPPED, DONE)

    assert bench.completed().result is CompletionResult.DROPPED
    assert bench.close() == "b"


def test_what_did_not_begin_begins_anew() -> None:
    """A limit, a full batch or the gate kept it out; then a run begins with it."""
    bench = Bench()
    bench.send("abcd")
    bench.runner.waiting = [each.attempt for each in bench.runner.started[2:]]

    bench.end(DONE, DONE)
    closed = bench.close() + bench.close()

    assert (closed, bench.running) == ("ab", "cd")
    assert bench.runner.started[0].attempt.follows is None


def test_what_was_refused_begins_anew() -> None:
    """At once, and not after the pause that a lease needs."""
    bench = Bench()
    bench.send("abc")
    refused = bench.runner.started[1:]
    for each in refused:
        bench.runner.started.remove(each)
        bench.runner.started.insert(0, each)

    bench.end(Ending.NOT_STARTED, Ending.NOT_STARTED, DONE)
    closed = bench.close()

    assert (closed, bench.running) == ("a", "bc")


def test_runs_are_short_where_few_of_their_tasks_begin_and_grow_again() -> None:
    """A limit of one start at a time does not make four attempts for each."""
    bench = Bench()
    bench.send("abcdefghijkl")
    sizes = []
    for _ in range(2):
        sizes.append(len(bench.running))
        bench.runner.waiting = [each.attempt for each in bench.runner.started[1:]]
        bench.end(DONE)
        bench.close()
    while bench.running:
        sizes.append(len(bench.running))
        count = len(bench.running)
        bench.end(*[DONE] * count)
        for _ in range(count):
            bench.close()

    assert sizes == [4, 2, 2, 4, 4]


def test_a_suspect_runs_alone() -> None:
    """If its process dies of it, it is known which it was."""
    bench = Bench()
    suspect = task_named("a", last=1)
    suspect = replace(suspect, attempts=replace(suspect.attempts, suspect=True))

    bench.tell(ExecuteTask(suspect), ExecuteTask(task_named("b")))

    assert bench.running == "a"


def test_another_kind_ends_a_run() -> None:
    """A batch has one kind."""
    bench = Bench()
    other = task_named("b")
    other = type(other)(other.key, b'{"hourhand.kind":"other"}', other.offset)

    bench.tell(*(ExecuteTask(each) for each in (task_named("a"), other, task_named("c"))))

    assert bench.running == "a"


# What comes for a task of a run.


def test_a_task_that_follows_is_withdrawn_before_user_code_is_called() -> None:
    """What stands behind it goes again after it."""
    bench = Bench()
    bench.send("abc")
    bench.runner.waiting = [each.attempt for each in bench.runner.started]

    result = bench.withdraw("b")
    bench.end(DONE)
    closed = bench.close()

    assert (result, closed, bench.running) == (WithdrawalResult.WITHDRAWN, "a", "c")


def test_a_task_that_may_stay_open_is_read_before_what_followed_it() -> None:
    """Its command is decided meanwhile (P4)."""
    bench = Bench()
    bench.send("abc")
    bench.runner.waiting = [each.attempt for each in bench.runner.started]

    result = bench.withdraw("b", Withdrawal.RETRY)
    bench.end(DONE)
    bench.close()
    before = bench.running
    bench.load("bc")

    assert (result, before, bench.running) == (WithdrawalResult.WITHDRAWN, "", "bc")


def test_what_stood_behind_such_a_task_does_not_begin_before_it() -> None:
    """Whatever else of the run begins."""
    bench = Bench(known_since_ms=task_named("b").key.scheduled_ms)
    bench.send("abc")

    bench.withdraw("b", Withdrawal.RETRY)
    check = bench.tracker.take(CheckTask)
    check.reply_to.tell(TaskChecked(check.task.key, False, check.task.offset))
    bench.tell()

    assert bench.running == "a"


def test_a_running_task_of_a_run_is_not_tried_again_once_a_command_closed_it() -> None:
    """As the task at hand."""
    bench = Bench()
    bench.send("ab")

    result = bench.withdraw("b")
    bench.end(DONE, Ending.FAILED)
    closed = bench.close()
    bench.note_failure()

    assert (result, closed) == (WithdrawalResult.RUNNING, "a")
    assert bench.running == "" and bench.slots == 0


def test_a_later_record_of_a_task_that_follows_closes_with_it() -> None:
    """As one of the task at hand does (P6)."""
    bench = Bench()
    bench.send("ab")

    bench.tell(UpdateTask(task_named("b", offset=7)))
    bench.end(DONE, DONE)
    offsets = [bench.completed().offset for _ in "ab"]

    assert offsets == [0, 7]


def test_a_run_that_takes_long_keeps_nothing_else_in_memory() -> None:
    """Its own tasks stay: their outcomes are on their way (P7, P13)."""
    bench = Bench()
    bench.send("abcdef")

    bench.tell(SpillQueue(task_named("a").key))
    slots = bench.slots
    bench.end(DONE, DONE, DONE, DONE)
    closed = "".join(bench.close() for _ in "abcd")
    bench.load("ef")

    assert (slots, closed, bench.running) == (4, "abcd", "ef")


def test_what_follows_a_task_that_waits_for_its_retry_is_left_to_the_store() -> None:
    """It holds no slot for so long (P13)."""
    bench = Bench()
    bench.send("abc")

    bench.end(Ending.FAILED, DONE, DONE)
    bench.note_failure()

    assert bench.slots == 1


# Letting go.


@pytest.mark.parametrize("ends", [DrainTasks, PauseOrdering])
def test_the_outcomes_of_a_run_are_recorded_to_its_end(ends: Callable[[], object]) -> None:
    """User code was called for all of it, wherever they go on."""
    bench = Bench()
    bench.send("abcde")

    bench.tell(ends())
    bench.end(DONE, DONE, DONE, DONE)
    closed = "".join(bench.close() for _ in "abcd")

    assert (closed, bench.running) == ("abcd", "")
    assert bench.harness.executor.has(OrderingDrained) is (ends is DrainTasks)


@pytest.mark.parametrize("ends", [DrainTasks, PauseOrdering])
def test_what_has_not_begun_is_left_when_the_id_ends(ends: Callable[[], object]) -> None:
    """To the next owner, or to the end of the pause."""
    bench = Bench()
    bench.send("ab")
    bench.runner.waiting = [bench.runner.started[1].attempt]

    bench.tell(ends())
    bench.end(DONE)
    closed = bench.close()

    assert (closed, bench.running) == ("a", "")
    assert bench.budget.due_bytes == (0 if ends is PauseOrdering else bench.role._held_bytes())


def test_a_run_of_an_earlier_tree_is_closed_in_its_order() -> None:
    """Its outcomes are not lost, and none of its tasks begins again (P16)."""
    before = Bench()
    before.send("abc")
    attempts = [each.attempt for each in before.runner.started]
    bench = Bench()

    bench.tell(*map(AdoptAttempt, attempts))
    bench.tell(StartTasks())
    bench.end(DONE, DONE, DONE)

    assert "".join(bench.close() for _ in "abc") == "abc"
    assert bench.slots == 0


def test_what_followed_a_failed_task_of_an_earlier_tree_is_read_again() -> None:
    """The tree before may have been told more of it (P6)."""
    before = Bench()
    before.send("abc")
    attempts = [each.attempt for each in before.runner.started]
    bench = Bench()

    bench.tell(*map(AdoptAttempt, attempts))
    bench.tell(StartTasks())
    bench.end(Ending.FAILED, DONE, DONE)
    bench.note_failure()
    running, slots = bench.running, bench.slots
    bench.load("abc")

    assert (running, slots) == ("", 0)
    assert bench.running == "ab", "runs are short at first after a failure"


def test_a_failed_task_that_followed_in_an_earlier_tree_is_read_again() -> None:
    """It may have a later record, or a command (P6)."""
    before = Bench()
    before.send("abc")
    attempts = [each.attempt for each in before.runner.started]
    bench = Bench()

    bench.tell(*map(AdoptAttempt, attempts), StartTasks())
    bench.end(DONE, Ending.FAILED, DONE)
    bench.close()
    bench.note_failure()
    bench.load("bc")

    assert bench.running == "bc"


def test_a_run_of_another_epoch_is_waited_for_and_runs_again() -> None:
    """Another owner may have run its keys meanwhile."""
    before = Bench()
    before.send("ab")
    attempts = [replace(each.attempt, epoch=EPOCH - 2) for each in before.runner.started]
    attempts[1] = replace(attempts[1], follows=attempts[0])
    bench = Bench()

    bench.tell(*map(AdoptAttempt, attempts))
    bench.tell(*(ExecuteTask(task_named(name)) for name in "ab"), StartTasks())
    waiting = bench.running
    bench.end(DONE, DONE)

    assert waiting == "ab"
    assert not bench.tracker.has(RecordCompletion)
    bench.load("ab")
    assert bench.running == "ab"


def test_p4_what_waits_behind_a_task_that_is_left_to_the_store_is_read_again_with_it() -> None:
    """What is left there may begin before it: in memory, the later one would overtake it."""
    bench, tasks = Bench(), OrderingQueue()
    following, (before, behind) = bench.role._following, (task_named(name) for name in "bd")
    tasks.add(behind)
    tasks.spill(first_key_at(before.key.scheduled_ms), behind.key)
    following._add(Follower(before))

    released = following.give_back(tasks, tasks_max=20)

    assert tasks.spilled is not None and tasks.spilled[0] < before.key
    assert (len(tasks), released) == (0, 2)
