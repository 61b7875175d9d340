"""Ticks that are tried again after the catch-up window has passed."""

from concurrent.futures import Future
from datetime import timedelta

import pytest

from actors.model.errors import LogUnavailable
from actors.model.task import Task
from actors.ports.log import Position
from scheduler.records.appending import TaskAppender
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
