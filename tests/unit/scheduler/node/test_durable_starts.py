"""Starts of overdue tasks are recorded in groups, few enough that a dying process leaves few."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.task.task import AttemptState, Task
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.durable_starts import DurableStarts, StartGroups
from hourhand.scheduler.node.system_executor import SystemExecutor
from tests.builders import RecordingExecutable, a_stored_task, an_attempt

READY_MAX = 8


class Waiter(SystemExecutor):
    """A system executor without a fast path."""

    async def execute(self, task: Task) -> None:
        """Do nothing."""


class Bench:
    """The starts of one partition, recorded when the test says so."""

    def __init__(self) -> None:
        self.submitted: list[RunningAttempt] = []
        self.refused: list[RunningAttempt] = []
        self.asked: list[tuple[Sequence[Attempt], Future[None]]] = []
        self.deadlines: list[Callable[[], object]] = []
        self.shut: set[str] = set()
        """Ordering ids that the gate keeps out."""
        self.starts = StartGroups(
            READY_MAX,
            gate=lambda attempt: attempt.task.key.ordering_id not in self.shut,
            submit=self.submitted.extend,
            refuse=self.refused.append,
            give_up_later=self._give_up_later,
        )

    def _give_up_later(self, call: Callable[[], object]) -> Callable[[], None]:
        self.deadlines.append(call)
        return lambda: self.deadlines.remove(call)

    def record(self, attempts: Sequence[Attempt]) -> "Future[None]":
        """Implements ``StartRecorder``."""
        recorded: Future[None] = Future()
        self.asked.append((attempts, recorded))
        return recorded

    def add(self, count: int) -> list[RunningAttempt]:
        """Add so many overdue attempts."""
        added = []
        for number in range(count):
            task = a_stored_task(due_in_ms=0, ordering_id=f"id-{number}", overdue_when_loaded=True)
            attempt = Attempt(task, 0, 1, 1, record_starts=self.record)
            added.append(RunningAttempt(attempt, RecordingExecutable(), None))
        self.starts.add(added)
        return added


def test_starts_are_recorded_together_and_handed_on_when_they_are_durable() -> None:
    """One request for as many as have room."""
    bench = Bench()

    added = bench.add(5)
    early = list(bench.submitted)
    bench.asked[0][1].set_result(None)

    assert [len(attempts) for attempts, _ in bench.asked] == [5]
    assert not early and bench.submitted == added


def test_few_have_a_durable_start_and_no_worker() -> None:
    """Each of them is a suspect if the process dies now; the rest follows in groups."""
    bench = Bench()

    bench.add(3 * READY_MAX)
    bench.asked[0][1].set_result(None)
    for _ in range(READY_MAX // 2):
        bench.starts.release()

    assert [len(attempts) for attempts, _ in bench.asked] == [READY_MAX, READY_MAX // 2]
    assert len(bench.submitted) == READY_MAX


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_tree_that_cannot_record_a_start_is_asked_for_no_other(*, cancelled: bool) -> None:
    """It went away, or the store did: its successor starts all that waits again."""
    bench = Bench()
    added = bench.add(READY_MAX + 1)

    recorded = bench.asked[0][1]
    if cancelled:
        recorded.cancel()
    else:
        recorded.set_exception(OSError("gone"))

    assert bench.refused == added and not bench.submitted and len(bench.asked) == 1
    bench.add(READY_MAX)
    assert len(bench.asked[1][0]) == READY_MAX, "what was refused makes room"


def test_a_tree_that_never_answers_is_given_up() -> None:
    """It ended before it read what it was asked; one that answers is not."""
    bench = Bench()
    added = bench.add(READY_MAX)
    bench.deadlines[0]()

    bench.add(1)
    bench.asked[1][1].set_result(None)

    assert bench.refused == added and not bench.deadlines and len(bench.submitted) == 1


def test_ever_so_many_are_refused_without_a_call_in_a_call() -> None:
    """A lease that ended before a large backlog had its turn."""
    bench = Bench()
    bench.shut.update(f"id-{number}" for number in range(20_000))

    added = bench.add(20_000)

    assert bench.refused == added and not bench.asked


def test_what_may_not_run_any_more_is_not_recorded() -> None:
    """Withdrawn by a command, or without a lease."""
    bench = Bench()
    bench.shut.add("id-1")
    waiting = bench.add(0)

    task = a_stored_task(due_in_ms=0, ordering_id="id-2", overdue_when_loaded=True)
    withdrawn = RunningAttempt(
        Attempt(task, 0, 1, 1, record_starts=bench.record), RecordingExecutable(), None
    )
    withdrawn.withdrawn = True
    bench.starts.add([withdrawn])
    bench.add(2)

    assert not waiting and bench.refused[0] is withdrawn
    assert [each.attempt.task.key.ordering_id for each in bench.refused] == ["id-2", "id-1"]
    (asked,) = bench.asked
    assert [attempt.task.key.ordering_id for attempt in asked[0]] == ["id-0"]


def test_each_partition_records_its_own() -> None:
    """Two trackers, two requests."""
    bench, other = Bench(), Bench()
    task = a_stored_task(due_in_ms=0, ordering_id="other", overdue_when_loaded=True)
    foreign = RunningAttempt(
        Attempt(task, 1, 1, 1, record_starts=other.record), RecordingExecutable(), None
    )

    bench.starts.add([foreign])
    bench.add(2)

    assert len(bench.asked) == len(other.asked) == 1
    assert an_attempt().record_starts is None


def test_what_has_no_durable_start_is_refused_where_its_tree_failed() -> None:
    """At once: nobody will answer; what has one runs on."""
    bench = Bench()
    added = bench.add(READY_MAX)
    bench.asked[0][1].set_result(None)
    for _ in range(READY_MAX):
        bench.starts.release()
    asked = bench.add(READY_MAX)
    waiting = bench.add(3)

    bench.starts.discard()

    assert bench.submitted == added
    assert sorted(map(id, bench.refused)) == sorted(map(id, asked + waiting))
    assert not bench.deadlines and bench.asked[1][1].cancelled()
    bench.add(1)
    bench.asked[-1][1].set_result(None)
    assert len(bench.submitted) == READY_MAX + 1


class StageBench(Bench):
    """The stage itself, in front of whatever is behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = DurableStarts(
            READY_MAX,
            gate=lambda _: True,
            following=self.submitted.extend,
            refuse=self.refused.append,
            call_later=lambda _, call: self._give_up_later(call),
            rules=FlowRules.NONE,
        )

    def running(
        self, name: str, *, suspect: bool = False, used: int = 0, overdue: bool = True
    ) -> RunningAttempt:
        """Return an attempt that asks for a durable start."""
        task = a_stored_task(due_in_ms=0, ordering_id=name, overdue_when_loaded=overdue)
        task = replace(task, attempts=AttemptState(used=used))
        attempt = Attempt(task, 0, 1, 1, suspect=suspect, record_starts=self.record)
        return RunningAttempt(attempt, RecordingExecutable(), None)


def test_one_suspect_has_a_durable_start_until_it_has_ended() -> None:
    """If the process dies of it, no other task is taken for the one that did it."""
    bench = StageBench()
    first, second = (bench.running(name, suspect=True) for name in "ab")

    bench.stage.enter([first, second])
    bench.asked[0][1].set_result(None)
    begun = list(bench.submitted)
    assert first.freed is not None
    first.freed()
    bench.asked[1][1].set_result(None)

    assert [len(attempts) for attempts, _ in bench.asked] == [1, 1]
    assert begun == [first] and bench.submitted == [first, second]


def test_what_needs_no_durable_start_passes() -> None:
    """What was given up has it later; of system tasks only a suspect is ever given up."""
    bench = StageBench()
    plain = RunningAttempt(an_attempt(), RecordingExecutable(), None)
    given_up, system, overdue = (bench.running(name, used=int(name == "a")) for name in "abc")
    system.executor = Waiter()

    bench.stage.enter([plain, given_up, system, overdue])

    assert bench.submitted == [plain, given_up, system]
    assert [attempts for attempts, _ in bench.asked] == [[overdue.attempt]]


def test_p7_a_durable_start_on_time_does_not_wait_behind_a_backlog() -> None:
    """A kind with one attempt has all its starts made durable."""
    bench = StageBench()
    backlog = [bench.running(f"late-{n}") for n in range(5 * READY_MAX)]
    on_time = bench.running("on-time", overdue=False)

    bench.stage.enter([*backlog, on_time])

    assert [on_time.attempt] in [list(attempts) for attempts, _ in bench.asked]
    assert on_time not in bench.submitted


def test_all_attempts_of_a_failed_tree_without_a_durable_start_are_refused() -> None:
    """Nobody will answer for them; those of partitions that go away are still answered."""
    bench = StageBench()
    waiting = [bench.running(name, suspect=name < "c", overdue=name != "e") for name in "abcde"]
    bench.stage.enter(waiting)

    bench.stage.drain([0])
    before = list(bench.refused)
    bench.stage.drain(None)

    assert not before and sorted(map(id, bench.refused)) == sorted(map(id, waiting))
