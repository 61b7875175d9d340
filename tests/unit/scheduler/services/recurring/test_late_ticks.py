"""Ticks that go on, or are tried again, after the catch-up window has passed."""

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from datetime import timedelta

import pytest

from hourhand.actors.model.execution.interruption import note_attempt
from hourhand.actors.model.task.definition import Definition, DefinitionName
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.recurring.executor import RunRecurring
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.system_tasks import LeaseEnded, SystemDependencies
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler, execute_task
from tests.builders import an_attempt
from tests.unit.scheduler.services.recurring.test_ahead import judge_nothing
from tests.unit.scheduler.services.recurring.test_recurring import Bench

Append = Future[Position]


class _LostAnswers:
    """An appender whose appends of occurrences take effect late, and say that they failed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._append = TaskAppender.append
        self.lost: list[tuple[TaskAppender, Task]] = []
        self.failures_left = 0

        def append(own: TaskAppender, task: Task) -> Append:
            if task.ordering_id.startswith("hourhand:") or not self.failures_left:
                return self._append(own, task)
            self.failures_left -= 1
            self.lost.append((own, task))
            failed = Append()
            failed.set_exception(LogUnavailable("the answer was lost"))
            return failed

        monkeypatch.setattr(TaskAppender, "append", append)

    def arrive(self) -> None:
        """Let what was appended come through the log at last."""
        for own, task in self.lost:
            self._append(own, task).result(timeout=0)


def test_a_task_whose_append_was_not_answered_counts_as_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may stand in the log and nowhere else yet: missed and run, it would be one too many."""
    answers = _LostAnswers(monkeypatch)
    judge_nothing(monkeypatch)
    bench = Bench()
    bench.client.schedule_recurring(
        "n", every=timedelta(seconds=10), catch_up=timedelta(seconds=0), count_max=3
    ).result()
    answers.failures_left = 1
    bench.advance(seconds=15)
    answers.arrive()
    bench.advance(seconds=10)

    found = bench.client.find_recurring("n")
    assert found is not None
    assert len(answers.lost) == 1
    assert bench.ran == bench.expected(10, 20)
    assert (found.state.taken, found.state.missed) == (2, 0)


class _PausingBook(DefinitionBook):
    """Definitions that are read before a pause of the process, and answered after it."""

    def __init__(self, kit: VirtualScheduler, pause: Callable[[], object]) -> None:
        partition_count = len(kit.broker.partitions)
        super().__init__(kit.stores.definitions, partition_count, kit.clock)
        self._pause = pause

    def find(self, name: DefinitionName) -> "Future[Definition | None]":
        """Read one row."""
        found = super().find(name)
        # What runs meanwhile is another process, which knows nothing of the attempt here.
        copy_context().run(self._pause)
        return found


def test_p23_a_node_that_wakes_without_its_lease_makes_no_occurrence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its successor counted the time as missed meanwhile: one more would be over the count."""
    judge_nothing(monkeypatch)
    bench = Bench()
    kit = bench.scheduler
    bench.client.schedule_recurring(
        "n", every=timedelta(seconds=10), catch_up=timedelta(seconds=0), count_max=3
    ).result()
    bench.advance(seconds=5)
    (tick,) = kit.all_scheduled()
    kit.stop()
    kit.clock.advance(5_000)
    lease_ends_ms = kit.clock.monotonic_ms() + 4_500

    def sleep_and_be_replaced() -> None:
        kit.clock.advance(6_000)
        kit.restart()

    dependencies = SystemDependencies(
        TaskAppender(MemoryWriter(kit.broker), len(kit.broker.partitions)),
        _PausingBook(kit, sleep_and_be_replaced),
        kit.clock,
        kit.telemetry,
        lambda: lease_ends_ms,
    )

    def attempt() -> None:
        note_attempt(an_attempt())
        execute_task(RunRecurring(dependencies, kit.stores), tick)

    with pytest.raises(LeaseEnded):
        copy_context().run(attempt)
    kit.drain()

    assert bench.ran == bench.expected(20, 30, 40)
