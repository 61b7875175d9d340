"""Batches on a real runner: threads, the event loop, letting go, and what the machine lacks."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hourhand import BatchExecutor, BatchOutcome, Middleware, Task, TaskExecutor, TaskKind
from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.operations.events import AttemptStarted
from hourhand.scheduler.executors.user_executors import UserExecutors
from tests.builders import a_stored_task, an_attempt
from tests.unit.scheduler.executors.test_batches import TIMEOUT_S, InsertAsync, insert
from tests.unit.scheduler.node.runner_bench import Bench, task_of


class Running:
    """A real runner that runs tasks of one kind."""

    def __init__(self, executors: UserExecutors) -> None:
        self._executors = executors
        self.bench = Bench()

    def start(self, names: str, **about: Any) -> list[Attempt]:
        """Start an attempt of a task of each ordering id."""
        attempts = [an_attempt(task=task_of(name), **about) for name in names]
        starts = [(each, self.make()) for each in attempts]
        self.bench.runner.start(starts, self.bench.ends.put)
        return attempts

    def make(self) -> TaskExecutor:
        """Make what runs a task."""
        return self._executors.make("row")

    def ends(self, count: int) -> dict[str, Ending]:
        """Return how the next attempts end."""
        ended = [self.bench.ended() for _ in range(count)]
        return {each.attempt.task.key.ordering_id: each.ending for each in ended}


@pytest.fixture
def running() -> Iterator[Callable[..., Running]]:
    """Return what makes runners, which are closed afterwards."""
    made: list[Running] = []

    def make(executor: type[BatchExecutor], middleware: Sequence[Middleware] = ()) -> Running:
        made.append(Running(UserExecutors.of(None, {"row": TaskKind(executor)}, middleware)))
        return made[-1]

    yield make
    for each in made:
        each.bench.close()


def test_attempts_of_a_real_runner_run_in_one_batch(running: Callable[..., Running]) -> None:
    """Each ends once, with its own outcome, on a thread that is not a worker."""
    threads: list[str] = []

    def work(tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
        threads.append(threading.current_thread().name)
        return [ValueError("b") if task.ordering_id == "b" else None for task in tasks]

    on = running(insert(work))
    on.start("abc")

    assert on.ends(3) == {"a": Ending.DONE, "b": Ending.FAILED, "c": Ending.DONE}
    assert threads == ["hourhand-batch"]
    assert len(on.bench.telemetry.of(AttemptStarted)) == 3


def test_coroutines_run_on_the_loop_of_a_real_runner(running: Callable[..., Running]) -> None:
    """One place of the loop serves a batch."""

    class Three(InsertAsync):
        batch_tasks_max = 3
        batch_wait = timedelta(hours=1)

    on = running(Three)
    on.start("abc")

    assert on.ends(3) == {"a": Ending.DONE, "b": Ending.DROPPED, "c": Ending.DONE}


def test_no_more_batches_run_at_once_than_may(running: Callable[..., Running]) -> None:
    """What comes meanwhile goes together when one ends."""
    begun, go_on = threading.Semaphore(0), threading.Event()

    def hold(tasks: Sequence[Task]) -> None:
        begun.release()
        assert go_on.wait(TIMEOUT_S)

    executor = insert(hold, batch_wait=timedelta(0))
    on = running(executor)
    on.start("a")
    assert begun.acquire(timeout=TIMEOUT_S)
    for name in "bcd":
        on.start(name)
    assert executor.batches == [["a"]]
    go_on.set()

    assert on.ends(4) == dict.fromkeys("abcd", Ending.DONE)
    assert executor.batches == [["a"], ["b", "c", "d"]] and executor.made == 1


def test_a_task_that_was_withdrawn_is_not_in_the_batch(running: Callable[..., Running]) -> None:
    """Nor is one that its gate holds back; the others run."""
    executor = insert()
    on = running(executor)
    a, _ = on.start("ab")
    assert on.bench.runner.withdraw(a)
    on.start("c")

    assert on.ends(3) == {"a": Ending.NOT_STARTED, "b": Ending.DONE, "c": Ending.DONE}
    assert executor.batches == [["b", "c"]]


def test_where_no_task_may_begin_nothing_is_called(running: Callable[..., Running]) -> None:
    """The lease has ended."""
    executor = insert()
    on = running(executor)
    on.bench.open = False
    on.start("abc")

    assert on.ends(3) == dict.fromkeys("abc", Ending.NOT_STARTED)
    assert not executor.batches


def test_where_the_machine_has_no_thread_the_tasks_are_tried_again(
    running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No attempt of theirs is used up, and the next batch finds a thread."""
    executor = insert(batch_tasks_max=2)
    on = running(executor)
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "hourhand-batch":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    on.start("ab")
    assert on.ends(2) == dict.fromkeys("ab", Ending.NOT_STARTED)
    monkeypatch.undo()
    on.start("ab")

    assert on.ends(2) == dict.fromkeys("ab", Ending.DONE)
    assert len(executor.batches) == 1


def test_a_suspect_runs_alone(running: Callable[..., Running]) -> None:
    """If it kills the process, it is known which."""
    executor = insert()
    on = running(executor)
    on.start("a", suspect=True)

    assert on.ends(1) == {"a": Ending.DONE}
    assert executor.batches == [["a"]]


def test_a_coroutine_is_cancelled_once_nobody_waits_for_it(
    running: Callable[..., Running],
) -> None:
    """While one of its tasks is waited for it runs on."""
    begun, cancelled = threading.Event(), threading.Event()

    class Forever(BatchExecutor):
        batch_tasks_max = 2

        async def execute_many(self, tasks: Sequence[Task]) -> None:
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancelled.set()
                raise

    on = running(Forever)
    on.start("a", partition=0)
    on.start("b", partition=1)
    assert begun.wait(TIMEOUT_S)
    on.bench.runner.drain([0], give_up="it goes")
    assert on.bench.runner.unsettled(0) and not cancelled.is_set()

    on.bench.runner.drain([1], give_up="it goes")

    assert cancelled.wait(TIMEOUT_S)


def test_a_coroutine_that_outlasts_its_timeout_fails(running: Callable[..., Running]) -> None:
    """The timeout counts for the batch."""

    class Slow(BatchExecutor):
        batch_tasks_max = 1
        timeout = timedelta(microseconds=1)

        async def execute_many(self, tasks: Sequence[Task]) -> None:
            await asyncio.get_running_loop().create_future()

    on = running(Slow)
    on.start("a")

    assert on.ends(1) == {"a": Ending.FAILED}


# Runs of one ordering id.


def run_of(names: str, running: Running) -> list[tuple[Attempt, TaskExecutor]]:
    """Return attempts of one ordering id, each behind the one before, and what runs them."""
    attempts: list[Attempt] = []
    for name in names:
        task = a_stored_task(due_in_ms=0, ordering_id="a", uniqueness_key=name)
        before = attempts[-1] if attempts else None
        attempts.append(replace(an_attempt(task=task), follows=before))
    return [(each, running.make()) for each in attempts]


def test_a_run_is_in_one_batch_in_its_order(running: Callable[..., Running]) -> None:
    """Each task of it ends by itself."""
    batches: list[str] = []

    def work(tasks: Sequence[Task]) -> None:
        batches.append("".join(task.uniqueness_key for task in tasks))

    on = running(insert(work))
    on.bench.runner.start(run_of("abc", on), on.bench.ends.put)

    endings = [on.bench.ended() for _ in "abc"]
    assert [each.attempt.task.key.uniqueness_key for each in endings] == list("abc")
    assert {each.ending for each in endings} == {Ending.DONE}
    assert batches == ["abc"]


def test_what_follows_begins_in_no_other_batch(running: Callable[..., Running]) -> None:
    """A batch that is full leaves it behind, and the next one does not take it up (P4)."""
    ran: list[str] = []

    def work(tasks: Sequence[Task]) -> None:
        ran.extend(task.uniqueness_key for task in tasks)

    on = running(insert(work, batch_tasks_max=2, batch_wait=timedelta(0)))
    on.bench.runner.start(run_of("abcd", on), on.bench.ends.put)

    ended = [on.bench.ended() for _ in "abcd"]
    endings = {each.attempt.task.key.uniqueness_key: each.ending for each in ended}
    assert sorted(ran) == ["a", "b"]
    assert endings["c"] is endings["d"] is Ending.NOT_STARTED


def test_nothing_follows_what_the_gate_refused(running: Callable[..., Running]) -> None:
    """It would overtake it."""
    on = running(insert(lambda tasks: pytest.fail(f"{len(tasks)} tasks ran")))
    starts = run_of("abc", on)
    on.bench.refuses = starts[0][0]

    on.bench.runner.start(starts, on.bench.ends.put)

    assert {on.bench.ended().ending for _ in "abc"} == {Ending.NOT_STARTED}


def test_nothing_follows_what_was_withdrawn(running: Callable[..., Running]) -> None:
    """A command took it back while the batch waited for company."""
    ran: list[str] = []

    def work(tasks: Sequence[Task]) -> None:
        ran.extend(task.uniqueness_key for task in tasks)

    on = running(insert(work, batch_tasks_max=3, batch_wait=timedelta(hours=1)))
    starts = run_of("abc", on)
    on.bench.runner.start(starts[:2], on.bench.ends.put)

    assert on.bench.runner.withdraw(starts[0][0])
    on.bench.runner.start(starts[2:], on.bench.ends.put)

    assert {on.bench.ended().ending for _ in "abc"} == {Ending.NOT_STARTED}
    assert ran == []
