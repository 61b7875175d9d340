"""The stage of occurrences that were made ahead: who is asked, and what follows the answer."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.task.task import AttemptState, StoredTask
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler.node.made_ahead import LATE_MS, occurrence_ms
from tests.builders import NOW_MS, a_stored_task, an_attempt
from tests.unit.scheduler.adapters.memory.world import ManualClock
from tests.unit.scheduler.node.runner_bench import Bench, Quick


class Judged:
    """A runner whose judge answers when the test says."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.ms = float(NOW_MS)
        self.bench = Bench(clock=self.clock)
        self.asked: list[tuple[StoredTask, int, int]] = []
        self.answer: Future[str | None] = Future()
        self.bench.runner.made_ahead.judge = self._judge
        self.bench.runner.made_ahead.owned_since_ms = lambda _partition: NOW_MS - 5_000.0

    def start(self, late_ms: int = LATE_MS + 1, attempts: AttemptState | None = None) -> Attempt:
        """Start the attempt of an occurrence that is so late."""
        key = f"n@{format_instant(NOW_MS - late_ms)}"
        task = a_stored_task(
            due_in_ms=-late_ms, uniqueness_key=key, attempts=attempts or AttemptState()
        )
        return self.bench.run(Quick(), an_attempt(task=task))

    def _judge(self, task: StoredTask, partition: int, owned_since_ms: int) -> "Future[str | None]":
        self.asked.append((task, partition, owned_since_ms))
        return self.answer


@pytest.fixture
def judged() -> Iterator[Judged]:
    """Return one, and end its threads."""
    made = Judged()
    yield made
    made.bench.close()


def test_a_late_occurrence_waits_for_the_answer_and_runs(judged: Judged) -> None:
    """The judge is told since when this node owns the partition."""
    attempt = judged.start()
    assert judged.asked == [(attempt.task, 0, NOW_MS - 5_000)]
    assert judged.bench.ends.empty()

    judged.answer.set_result(None)
    ended = judged.bench.ended()
    assert (ended.ending, ended.reason) == (Ending.DROPPED, "async"), "user code was called"


def test_one_that_is_left_out_is_closed_with_the_reason(judged: Judged) -> None:
    """Its user code is not called."""
    judged.start()
    judged.answer.set_result("it overlaps")

    ended = judged.bench.ended()
    assert (ended.ending, ended.reason) == (Ending.DROPPED, "it overlaps")


@pytest.mark.parametrize("late_ms", [0, LATE_MS])
def test_one_on_time_is_not_asked_about(judged: Judged, late_ms: int) -> None:
    """All earlier ones of its ordering id have ended."""
    judged.start(late_ms)

    assert judged.bench.ended().reason == "async"
    assert judged.asked == []


def test_one_that_may_run_beside_others_is_asked_about_on_time(judged: Judged) -> None:
    """Earlier ones of its ordering id may not have ended."""
    key = f"n@{format_instant(NOW_MS)}"
    task = a_stored_task(due_in_ms=0, uniqueness_key=key)
    judged.bench.run(Quick(), replace(an_attempt(task=task), is_unordered=True))

    assert [each for each, _, _ in judged.asked] == [task]


def test_a_further_attempt_is_not_asked_about(judged: Judged) -> None:
    """It was decided before the first one."""
    judged.start(attempts=AttemptState(used=1, last=1))

    assert judged.bench.ended().reason == "async"
    assert judged.asked == []


@pytest.mark.parametrize("reason", [None, "it overlaps"])
def test_nothing_follows_an_answer_without_a_lease(judged: Judged, reason: str | None) -> None:
    """Another node may have decided otherwise."""
    judged.start()
    judged.bench.open = False
    judged.answer.set_result(reason)

    assert judged.bench.ended().ending is Ending.NOT_STARTED


def test_an_answer_that_fails_lets_the_tree_try_again(judged: Judged) -> None:
    """The store may answer then."""
    judged.start()
    judged.answer.set_exception(StoreUnavailable("it does not answer"))

    assert judged.bench.ended().ending is Ending.NOT_STARTED


def test_a_newer_record_takes_back_what_waits_for_the_answer(judged: Judged) -> None:
    """The attempt that waits has the data of an earlier one (P6)."""
    attempt = judged.start()

    assert judged.bench.runner.withdraw(attempt, limited=True)
    assert judged.bench.ended().ending is Ending.NOT_STARTED
    judged.answer.set_result(None)
    assert judged.bench.ends.empty()


def test_a_partition_that_leaves_takes_what_waits_with_it(judged: Judged) -> None:
    """That of others goes on waiting."""
    judged.start()
    judged.bench.runner.drain([7])
    assert judged.bench.ends.empty()

    judged.bench.runner.drain([0])
    assert judged.bench.ended().ending is Ending.NOT_STARTED
    judged.answer.set_result("it overlaps")
    assert judged.bench.ends.empty()


def test_a_tree_that_failed_hears_nothing_of_what_waited(judged: Judged) -> None:
    """Its successor starts it again."""
    judged.start()
    judged.bench.runner.drain(None)
    judged.answer.set_result("it overlaps")

    assert judged.bench.ends.empty()
    judged.bench.open = True
    judged.answer = Future()
    judged.start()
    judged.answer.set_result(None)
    assert judged.bench.ended().reason == "async"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("n@2026-02-09T01:41:12.959Z", 1_770_601_272_959),
        ("a@b@2026-02-09T01:41:12.959Z", 1_770_601_272_959),
        ("n@2026-02-09T01:41:12.959Z!", None),
        ("2026-02-09T01:41:12.959Z", None),
        ("n@2026-02-09T99:41:12.959Z", None),
        ("invoice-Z", None),
        ("", None),
    ],
)
def test_the_time_of_an_occurrence_is_in_its_key(key: str, expected: int | None) -> None:
    """Other keys have none, and a triggered one is judged by its change."""
    assert occurrence_ms(key) == expected
