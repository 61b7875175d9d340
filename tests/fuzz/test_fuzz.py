"""A share of ``make fuzz`` in every test run, and what it found, as tests of their own."""

import random
import traceback
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hourhand import Scheduler, Settings
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidExecutor, InvalidTask, SettingsInvalid
from tests.builders import a_key
from tests.fuzz.__main__ import answered, fuzz
from tests.fuzz.executor_door import HostileError, try_executors
from tests.fuzz.requests import hostile_request
from tests.promises.group import Group


def test_p10_no_door_lets_hostile_input_harm_what_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seventy-five times as many: ``make fuzz``."""
    monkeypatch.chdir(tmp_path)

    said: list[str] = []
    counts = fuzz(2_000, 0, tmp_path, said.append)

    assert sum(counts.values()) == 2_000
    assert all(counts.values()), said


@pytest.mark.parametrize("raised", [HostileError, SystemExit])
def test_what_leaks_from_a_door_can_be_shown(raised: type[BaseException]) -> None:
    """Pytest ends without a report where showing an error, or one before it, raises."""

    def leak(_seed: int, _count: int) -> int:
        try:
            raise HostileError
        except HostileError:
            raise raised  # noqa: B904 - its context is what is tested

    with pytest.raises(AssertionError, match=f"(?s)executors, seed 7: .*{raised.__name__}") as told:
        answered("executors", leak, 7, 1)

    assert "in leak" in "".join(traceback.format_exception(told.value))


def test_ctrl_c_ends_the_fuzzer() -> None:
    """It is nobody's input."""

    def interrupted(_seed: int, _count: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answered("executors", interrupted, 7, 1)


def test_no_executor_of_the_fuzzer_ends_it_as_ctrl_c_does() -> None:
    """The test kit lets it out of an attempt, by its own rule."""
    assert try_executors(4, 33) == 33


def test_a_seed_gives_the_same_requests_whatever_was_asked_before() -> None:
    """Spoiling one request for ever spoiled those after it, in the end by a circle of values."""
    runs = [[hostile_request(rng) for _ in range(500)] for rng in map(random.Random, (3, 4, 3))]

    assert runs[0] == runs[2]


def test_p5_a_completion_from_before_1970_is_kept_for_its_retention() -> None:
    """Zero is a time like any other, no word for none."""
    group = Group()
    group.join()
    old = Task(
        ordering_id="old",
        scheduled_time=datetime(1969, 7, 20, tzinfo=UTC),
        uniqueness_key="moon",
        data={},
    )
    group.append(old)
    group.advance(hours=3)

    assert group.journal.names == ["moon"]
    assert group.result_of(old) is not None


def test_a_reschedule_to_nothing_sends_nothing() -> None:
    """It would be poison in the log."""
    group = Group()
    nothing: datetime = None  # type: ignore[assignment]

    error = group.client.reschedule_task(a_key(), nothing).exception(0)

    assert isinstance(error, InvalidTask)
    assert group.broker.partitions[0].end_offset == 0


class _BadTimeout(TaskExecutor):
    timeout = 30  # type: ignore[assignment]

    def execute(self, task: Task) -> None:
        """Do nothing."""


class _BadRetry(TaskExecutor):
    retry = 3  # type: ignore[assignment]

    def execute(self, task: Task) -> None:
        """Do nothing."""


@pytest.mark.parametrize("executor", [_BadTimeout, _BadRetry])
def test_a_bad_attribute_of_an_executor_is_told_at_construction(
    executor: type[TaskExecutor], tmp_path: Path
) -> None:
    """It would fail every task, one after the other."""
    settings = Settings(embedded={"folder": tmp_path})

    with pytest.raises(InvalidExecutor, match="is needed"):
        Scheduler(settings, executor=executor)


@pytest.mark.parametrize("policy", [{"on_exhausted": "explode"}, {"attempts_max": 1.5}])
def test_a_bad_retry_policy_is_refused(policy: dict[str, object]) -> None:
    """Where it is written, and not when the attempts are used up."""
    with pytest.raises(ValueError, match=r"attempts_max|on_exhausted"):
        RetryPolicy(**policy)  # type: ignore[arg-type]


def test_dead_letters_need_a_topic_of_their_own() -> None:
    """Poison would be read again for ever."""
    with pytest.raises(SettingsInvalid, match="both 'tasks'"):
        Settings(topic={"name": "tasks", "dead_letter": "tasks"})
