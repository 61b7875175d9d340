"""Checkpoints as values: what may be one, what is refused and why, and what is shown as a bar."""

import math

import pytest

from hourhand.actors.model.execution.batch_executor import BatchExecutor, BatchOutcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.checkpoint_value import (
    Progress,
    checkpoint_text,
    checkpoint_value,
    progress_of,
)
from hourhand.actors.model.task.json_text import VALUE_BYTES_MAX
from hourhand.actors.model.task.sealed import with_envelope
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidCheckpoint, PayloadSealed
from tests.builders import a_task

LARGEST = "x" * (VALUE_BYTES_MAX - 2)


@pytest.mark.parametrize(
    "value", [None, 0, -1.5, "Zoë", True, [], {"done": 1, "of": [None, {"a": ""}]}, LARGEST]
)
def test_any_json_value_of_64_kb_comes_back(value: object) -> None:
    """Not only objects."""
    assert checkpoint_value(checkpoint_text(value)) == value


@pytest.mark.parametrize(
    "value", [object(), {"at": math.nan}, {2, 3}, {1: 2}, b"x", (1,), "\ud800"]
)
def test_what_is_not_json_is_refused_with_what_to_do(value: object) -> None:
    """It is the fault of the code that makes it."""
    with pytest.raises(InvalidCheckpoint, match=r"is not JSON.*give texts, numbers"):
        checkpoint_text(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    """It has no end."""
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(InvalidCheckpoint, match="is not JSON"):
        checkpoint_text(loop)


def test_one_byte_more_is_refused_with_its_size() -> None:
    """And with where to keep it instead."""
    with pytest.raises(InvalidCheckpoint, match=r"has 65537 bytes as JSON, at most 65536.*store"):
        checkpoint_text(LARGEST + "x")


def test_no_value_can_pass_for_a_sealed_one() -> None:
    """What stands in a value chooses nothing."""
    value = {"hourhand.sealed": {"steps": [], "data": "", "bound": "task"}}

    assert checkpoint_value(checkpoint_text(value)) == value


def test_a_sealed_one_is_not_shown_without_its_codecs() -> None:
    """The message says what is missing."""
    text = with_envelope(b"{}", b'{"steps":[{"codec":"aes-gcm"}],"data":"AA=="}')

    with pytest.raises(PayloadSealed, match=r"sealed with aes-gcm.*no payload codecs"):
        checkpoint_value(text)


def test_done_of_total_is_progress() -> None:
    """Numbers, and a total above zero."""
    found = progress_of({"done": 3, "total": 4.0, "row": "r7"})

    assert found == Progress(3, 4.0) and found.share == 0.75
    assert [Progress(done, 4).share for done in (-1, 9)] == [0.0, 1.0]
    nothing = [{"done": 1}, {"done": 1, "total": 0}, {"done": True, "total": 2}, [1, 2], None]
    assert [progress_of(each) for each in nothing] == [None] * 5


class _Plain(TaskExecutor):
    def execute(self, task: Task) -> None:
        self.checkpoint({"done": 1})


class _Batch(BatchExecutor):
    def execute_many(self, tasks: object) -> list[BatchOutcome] | None:
        return None


def test_without_a_node_a_checkpoint_is_only_judged() -> None:
    """A user's own test may call ``execute`` as it is."""
    executor = _Plain()
    executor.execute(a_task())

    assert executor.checkpointed is None
    with pytest.raises(InvalidCheckpoint):
        executor.checkpoint(object())


class _Noting:
    """Checkpoints of one task, as a node has them."""

    def __init__(self, found: bytes | None = None) -> None:
        self.found = found
        self.snoozed = 0
        self.made: list[object] = []

    def make(self, text: bytes) -> None:
        self.made.append(checkpoint_value(text))


def test_a_batch_says_of_which_task_a_checkpoint_is() -> None:
    """And finds those before in the order of the tasks."""
    tasks = [a_task(uniqueness_key=each) for each in "ab"]
    notes = [_Noting(), _Noting(checkpoint_text(7))]
    executor = _Batch()
    executor.hourhand_members = tuple(zip(tasks, notes, strict=True))

    executor.checkpoint("one", tasks[1].model_copy())

    assert executor.checkpointed == (None, 7)
    assert [each.made for each in notes] == [[], ["one"]]
    with pytest.raises(InvalidCheckpoint, match=r"2 tasks: say which one"):
        executor.checkpoint("which?")
    with pytest.raises(InvalidCheckpoint, match="is not in the batch"):
        executor.checkpoint("whose?", a_task(uniqueness_key="c"))
