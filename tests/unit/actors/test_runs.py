"""Runs of one ordering id: tasks that begin together and are closed one after another."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import (
    DrainTasks,
    OutcomesRecorded,
    PauseTasks,
    RecordOutcomes,
    StartTasks,
    UpdateTask,
)
from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.operations.events import AttemptFinished
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.status import Completion, CompletionResult
from tests.unit.actors.execution_bench import ID, WAIT_MS, Bench, holding_of, task_named
from tests.unit.fakes import SLOW_MS
from tests.unit.probes import EPOCH, PARTITION

RUN_MAX = 4
PAUSE = PauseTasks(OperatorConfig(1, (Pause(PauseScope.ORDERING, PARTITION, ID),)))


class Runs(Bench):
    """One ordering id whose tasks may be in one batch."""

    def __init__(
        self, known_since_ms: int = 0, queue_max: int = 20, left: Sequence[Attempt] = ()
    ) -> None:
        super().__init__(
            known_since_ms=known_since_ms,
            slots=queue_max,
            queue_max=queue_max,
            run_tasks_max={None: RUN_MAX},
            left=left,
        )

    def send_all(self, names: str) -> None:
        """Send due tasks at one moment."""
        self.execute(*map(task_named, names))

    @property
    def begun(self) -> str:
        """The tasks whose attempts were started and have not ended."""
        return "".join(self.running)

    def end_all(self, *endings: Ending) -> list[Attempt]:
        """End attempts as a batch does: one after another, before anything else happens."""
        ended = [self.runner.end(ending) for ending in endings]
        self.run()
        return ended

    def close(self) -> str:
        """Make the one completion that was asked for durable; return whose it is."""
        return self.completed().key.uniqueness_key

    def completed(self) -> Completion:
        """Make the one completion that was asked for durable."""
        asked = [each for each in self.tracker.messages if isinstance(each, RecordOutcomes)]
        ((completion,),) = (each.completions for each in asked)
        self.harness.siblings.known_completions.remember(completion)
        return self.record_completion()

    def loaded_all(self, names: str) -> None:
        """Answer for the store."""
        self.loaded(*names)

    def note_failure(self) -> int:
        """Make the failed attempt durable; return how many count as used."""
        return self.record_attempt().used

    def withdrawn(self, name: str, withdrawal: Withdrawal = Withdrawal.CLOSE) -> WithdrawalResult:
        """Ask for a task back."""
        return holding_of(self.withdraw(withdrawal, task_named(name).key))


DONE = Ending.DONE


def test_tasks_that_are_due_together_begin_together_and_are_closed_in_their_order() -> None:
    """The next completion is asked for when the one before is durable."""
    bench = Runs()

    bench.send_all("abc")
    begun = bench.begun
    attempts = bench.end_all(DONE, DONE, DONE)

    assert begun == "abc"
    assert [each.follows for each in attempts] == [None, *attempts[:2]]
    assert [bench.close() for _ in "abc"] == ["a", "b", "c"]
    assert bench.runner.settled == attempts
    assert (bench.slots, bench.budget.due_bytes) == (0, 0)


def test_a_run_is_no_longer_than_asked_for() -> None:
    """What is left begins when all of the run is closed."""
    bench = Runs()

    bench.send_all("abcdef")
    first = bench.begun
    bench.end_all(DONE, DONE, DONE, DONE)
    closed = "".join(bench.close() for _ in "abcd")

    assert (first, closed, bench.begun) == ("abcd", "abcd", "ef")


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.RETRY, Ending.TIMED_OUT])
def test_what_follows_a_task_that_is_not_done_goes_again_after_it(ending: Ending) -> None:
    """Whatever its attempt came to; and that uses up none of its attempts."""
    bench = Runs()
    bench.send_all("abc")

    bench.end_all(DONE, ending, DONE)
    closed = bench.close()
    used = bench.note_failure()
    bench.advance(WAIT_MS)
    again = bench.begun
    bench.end_all(DONE)
    closed += bench.close()
    bench.loaded_all("c")

    assert (closed, used, again) == ("ab", 1, "b")
    assert bench.begun == "c" and bench.runner.started[0].attempt.number == 1


def test_a_void_attempt_is_told_of() -> None:
    """Operators see that user code ran."""
    bench = Runs()
    bench.send_all("ab")

    bench.end_all(Ending.FAILED, DONE)

    told = bench.harness.telemetry.of(AttemptFinished)
    assert [each.key.uniqueness_key for each in told] == ["a", "b"]


def test_a_void_attempt_is_settled() -> None:
    """Its node remembers it no longer."""
    bench = Runs()
    bench.send_all("ab")

    attempts = bench.end_all(Ending.FAILED, DONE)

    assert bench.runner.settled == attempts[1:]


def test_a_dropped_task_does_not_hold_what_follows_it() -> None:
    """It is closed, as one that is done."""
    bench = Runs()
    bench.send_all("ab")

    bench.end_all(Ending.DROPPED, DONE)

    assert bench.completed().result is CompletionResult.DROPPED
    assert bench.close() == "b"


def test_what_did_not_begin_begins_anew() -> None:
    """A limit, a full batch or the gate kept it out; then a run begins with it."""
    bench = Runs()
    bench.send_all("abcd")
    bench.runner.waiting = [each.attempt for each in bench.runner.started[2:]]

    bench.end_all(DONE, DONE)
    closed = bench.close() + bench.close()

    assert (closed, bench.begun) == ("ab", "cd")
    assert bench.runner.started[0].attempt.follows is None


def test_what_was_refused_begins_anew() -> None:
    """At once, and not after the pause that a lease needs."""
    bench = Runs()
    bench.send_all("abc")
    refused = bench.runner.started[1:]
    for each in refused:
        bench.runner.started.remove(each)
        bench.runner.started.insert(0, each)

    bench.end_all(Ending.NOT_STARTED, Ending.NOT_STARTED, DONE)
    closed = bench.close()

    assert (closed, bench.begun) == ("a", "bc")


@pytest.mark.parametrize("ending", [DONE, Ending.NOT_STARTED])
@pytest.mark.parametrize("is_first", [False, True], ids=["after", "before"])
def test_p8_an_end_counts_at_whatever_moment_of_the_turn_before_it_comes(
    ending: Ending, *, is_first: bool
) -> None:
    """Before or after the message by which its task gets its turn."""
    bench = Runs()
    bench.send_all("ab")
    bench.end_all(DONE)
    asked = bench.tracker.take(RecordOutcomes)
    bench.harness.siblings.known_completions.remember(asked.completions[0])

    if is_first:
        bench.runner.end(ending)
    bench.ref.tell(OutcomesRecorded(asked.completions, asked.records))
    if not is_first:
        bench.harness.system.run_one()
        bench.runner.end(ending)
    bench.run()
    if ending is Ending.NOT_STARTED:
        bench.advance(1_000)
        bench.end_all(DONE)

    assert bench.close() == "b" and bench.slots == 0


def test_p4_what_did_not_begin_is_not_overtaken_by_what_came_after_it() -> None:
    """Also where a task that came late is left to the store, which the others then join."""
    bench = Runs(queue_max=3)
    bench.send_all("acd")
    bench.runner.waiting = [each.attempt for each in bench.runner.started[1:]]
    bench.send_all("f")
    bench.send_all("b")

    bench.end_all(DONE)
    bench.close()
    before = bench.begun
    bench.loaded_all("bcdf")

    assert (before, bench.begun[0]) == ("", "b")


def test_runs_are_short_where_few_of_their_tasks_begin_and_grow_again() -> None:
    """A limit of one start at a time does not make four attempts for each."""
    bench = Runs()
    bench.send_all("abcdefghijkl")
    sizes = []
    for _ in range(2):
        sizes.append(len(bench.begun))
        bench.runner.waiting = [each.attempt for each in bench.runner.started[1:]]
        bench.end_all(DONE)
        bench.close()
    while bench.begun:
        sizes.append(len(bench.begun))
        count = len(bench.begun)
        bench.end_all(*[DONE] * count)
        for _ in range(count):
            bench.close()

    assert sizes == [4, 2, 2, 4, 4]


def test_a_suspect_runs_alone() -> None:
    """If its process dies of it, it is known which it was."""
    bench = Runs()
    suspect = task_named("a", last=1)
    suspect = replace(suspect, attempts=replace(suspect.attempts, suspect=True))

    bench.execute(suspect, task_named("b"))

    assert bench.begun == "a"


def test_another_kind_ends_a_run() -> None:
    """A batch has one kind."""
    bench = Runs()
    other = task_named("b")
    other = type(other)(other.key, b'{"hourhand.kind":"other"}', other.offset)

    bench.execute(task_named("a"), other, task_named("c"))

    assert bench.begun == "a"


# What comes for a task of a run.


def test_a_task_that_follows_is_withdrawn_before_user_code_is_called() -> None:
    """What stands behind it goes again after it."""
    bench = Runs()
    bench.send_all("abc")
    bench.runner.waiting = [each.attempt for each in bench.runner.started]

    result = bench.withdrawn("b")
    bench.end_all(DONE)
    closed = bench.close()

    assert (result, closed, bench.begun) == (WithdrawalResult.WITHDRAWN, "a", "c")


def test_a_task_that_may_stay_open_is_read_before_what_followed_it() -> None:
    """Its command is decided meanwhile (P4)."""
    bench = Runs()
    bench.send_all("abc")
    bench.runner.waiting = [each.attempt for each in bench.runner.started]

    result = bench.withdrawn("b", Withdrawal.RETRY)
    bench.end_all(DONE)
    bench.close()
    before = bench.begun
    bench.loaded_all("bc")

    assert (result, before, bench.begun) == (WithdrawalResult.WITHDRAWN, "", "bc")


def test_what_stood_behind_such_a_task_does_not_begin_before_it() -> None:
    """Whatever else of the run begins."""
    bench = Runs(known_since_ms=task_named("b").key.scheduled_ms)
    bench.send_all("abc")

    bench.withdrawn("b", Withdrawal.RETRY)
    bench.answer_check()

    assert bench.begun == "a"


def test_a_running_task_of_a_run_is_not_tried_again_once_a_command_closed_it() -> None:
    """As the task at hand."""
    bench = Runs()
    bench.send_all("ab")

    result = bench.withdrawn("b")
    bench.end_all(DONE, Ending.FAILED)
    closed = bench.close()
    bench.note_failure()

    assert (result, closed) == (WithdrawalResult.RUNNING, "a")
    assert bench.begun == "" and bench.slots == 0


def test_a_later_record_of_a_task_that_follows_closes_with_it() -> None:
    """As one of the task at hand does (P6)."""
    bench = Runs()
    bench.send_all("ab")

    bench.tell(UpdateTask(task_named("b", offset=7)))
    bench.end_all(DONE, DONE)
    offsets = [bench.completed().offset for _ in "ab"]

    assert offsets == [0, 7]


def test_p24_a_task_of_a_run_that_waits_for_a_limit_begins_with_its_last_record() -> None:
    """And so what is behind it: it goes again in its order."""
    bench = Runs()
    bench.send_all("abc")
    bench.runner.waiting = [each.attempt for each in bench.runner.started[1:]]
    bench.runner.is_limited = True

    bench.tell(UpdateTask(task_named("b", offset=7)))
    begun = bench.begun
    bench.end_all(DONE)
    bench.close()

    assert (begun, bench.begun) == ("a", "bc")
    assert [each.attempt.task.offset for each in bench.runner.started] == [7, 0]


def test_a_run_that_takes_long_keeps_nothing_else_in_memory() -> None:
    """Its own tasks stay: their outcomes are on their way (P7, P13)."""
    bench = Runs()
    bench.send_all("abcdef")

    bench.runner.slow = [bench.runner.started[0].attempt]
    bench.advance(SLOW_MS)
    slots = bench.slots
    bench.end_all(DONE, DONE, DONE, DONE)
    closed = "".join(bench.close() for _ in "abcd")
    bench.loaded_all("ef")

    assert (slots, closed, bench.begun) == (4, "abcd", "ef")


@pytest.mark.parametrize("is_slow_first", [False, True], ids=["refused first", "slow first"])
def test_p7_what_was_refused_behind_a_slow_task_holds_no_slot(*, is_slow_first: bool) -> None:
    """A slow ordering id costs one slot, however its batch began."""
    bench = Runs()
    bench.send_all("ab")
    slow, refused = bench.runner.started
    bench.runner.started[:] = [refused, slow]
    bench.runner.slow = [slow.attempt]

    if is_slow_first:
        bench.advance(SLOW_MS)
    bench.end_all(Ending.NOT_STARTED)
    bench.advance(SLOW_MS)

    assert bench.slots == 1


def test_what_follows_a_task_that_waits_for_its_retry_is_left_to_the_store() -> None:
    """It holds no slot for so long (P13)."""
    bench = Runs()
    bench.send_all("abc")

    bench.end_all(Ending.FAILED, DONE, DONE)
    bench.note_failure()

    assert bench.slots == 1


# Letting go.


@pytest.mark.parametrize("ends", [DrainTasks(), PAUSE], ids=["drain", "pause"])
def test_the_outcomes_of_a_run_are_recorded_to_its_end(ends: object) -> None:
    """User code was called for all of it, wherever they go on."""
    bench = Runs()
    bench.send_all("abcde")

    bench.tell(ends)
    bench.end_all(DONE, DONE, DONE, DONE)
    closed = "".join(bench.close() for _ in "abcd")

    assert (closed, bench.begun) == ("abcd", "")
    assert bench.is_drained is (ends is not PAUSE)
    assert (bench.slots, bench.budget.due_bytes) == (0, 0)


@pytest.mark.parametrize("ends", [DrainTasks(), PAUSE], ids=["drain", "pause"])
def test_what_has_not_begun_is_left_when_the_id_ends(ends: object) -> None:
    """To the next owner, or to the end of the pause."""
    bench = Runs()
    bench.send_all("ab")
    bench.runner.waiting = [bench.runner.started[1].attempt]

    bench.tell(ends)
    bench.end_all(DONE)
    closed = bench.close()

    assert (closed, bench.begun) == ("a", "")
    assert (bench.slots, bench.budget.due_bytes) == (0, 0)


def test_a_run_of_an_earlier_tree_is_closed_in_its_order() -> None:
    """Its outcomes are not lost, and none of its tasks begins again (P16)."""
    before = Runs()
    before.send_all("abc")
    attempts = [each.attempt for each in before.runner.started]
    bench = Runs(left=attempts)

    bench.tell(StartTasks())
    bench.end_all(DONE, DONE, DONE)

    assert "".join(bench.close() for _ in "abc") == "abc"
    assert bench.slots == 0


def test_what_followed_a_failed_task_of_an_earlier_tree_is_read_again() -> None:
    """The tree before may have been told more of it (P6)."""
    before = Runs()
    before.send_all("abc")
    attempts = [each.attempt for each in before.runner.started]
    bench = Runs(left=attempts)

    bench.tell(StartTasks())
    bench.end_all(Ending.FAILED, DONE, DONE)
    bench.note_failure()
    running, slots = bench.begun, bench.slots
    bench.loaded_all("abc")

    assert (running, slots) == ("", 0)
    assert bench.begun == "ab", "runs are short at first after a failure"


def test_a_failed_task_that_followed_in_an_earlier_tree_is_read_again() -> None:
    """It may have a later record, or a command (P6)."""
    before = Runs()
    before.send_all("abc")
    attempts = [each.attempt for each in before.runner.started]
    bench = Runs(left=attempts)

    bench.tell(StartTasks())
    bench.end_all(DONE, Ending.FAILED, DONE)
    bench.close()
    bench.note_failure()
    bench.loaded_all("bc")

    assert bench.begun == "bc"


def test_a_run_of_another_epoch_is_waited_for_and_runs_again() -> None:
    """Another owner may have run its keys meanwhile."""
    before = Runs()
    before.send_all("ab")
    attempts = [replace(each.attempt, epoch=EPOCH - 2) for each in before.runner.started]
    attempts[1] = replace(attempts[1], follows=attempts[0])
    bench = Runs(left=attempts)

    bench.send_all("ab")
    bench.tell(StartTasks())
    waiting = bench.begun
    bench.end_all(DONE, DONE)

    assert waiting == "ab"
    assert not bench.tracker.has(RecordOutcomes)
    bench.loaded_all("ab")
    assert bench.begun == "ab"
