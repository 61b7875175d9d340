"""Followers in the test kit: by functions, batches and codecs, in words, and chains."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from hourhand import BatchExecutor, Done, Hourhand, RetryPolicy, Task, TaskExecutor
from hourhand.actors.model.execution.batch_executor import BatchOutcome
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.payloads import AesGcm, PayloadCodecs
from hourhand.scheduler.cli.task_text import view_lines
from hourhand.scheduler.tasks.task_state import TaskView, view_of
from hourhand.scheduler.testing import VirtualScheduler, execute_task
from hourhand.testing import TaskEnd
from tests.builders import a_key

TIMEOUT_S = 60
KEY = bytes(range(32))


def _tasks(scheduler: VirtualScheduler, kind: str | None = None) -> tuple[Task, Task]:
    at = scheduler.now + timedelta(minutes=1)
    first = Task(ordering_id="a", scheduled_time=at, uniqueness_key="1", kind=kind)
    return first, Task(ordering_id="b", scheduled_time=at, uniqueness_key="2", data={"n": 2})


class Tell(TaskExecutor):
    """Ends with a value, and the follower with the value that it was told."""

    def execute(self, task: Task) -> Done:
        """Give back what is there."""
        return Done([end.result for end in task.after] or {"secret": 42})


@pytest.mark.parametrize("sealed", [False, True])
def test_a_follower_finds_the_result_sealed_or_not(*, sealed: bool) -> None:
    """In the log it is sealed as stores have it."""
    payloads = PayloadCodecs(AesGcm({"k1": KEY})) if sealed else None
    scheduler = VirtualScheduler(Tell, payloads=payloads)
    first, then = _tasks(scheduler)
    scheduler.schedule_task(first, then=then).result(TIMEOUT_S)
    scheduler.advance(minutes=2)

    found = scheduler.client.find_task(then.key)
    assert found.result == [{"secret": 42}]
    rows = [p.read(0, 100)[0] for p in scheduler.broker.partitions]
    assert any(b"secret" in (each.value or b"") for of in rows for each in of) is not sealed


def test_a_function_and_a_batch_bring_followers() -> None:
    """Each task of a batch has its own."""
    app = Hourhand()
    told: list[tuple[str, str]] = []

    @app.task("next")
    def follow(task: Task) -> None:
        told.extend((end.key.uniqueness_key, end.state) for end in task.after)

    @app.task("plain")
    def plain(data: dict[str, int], task: Task) -> None:
        assert task.after == ()
        assert data == {}

    @app.executor("batch")
    class Several(BatchExecutor):
        def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
            """Do all."""
            return [None] * len(tasks)

    with VirtualScheduler(executors=app) as scheduler:
        at = scheduler.now + timedelta(minutes=1)
        for number in range(3):
            first = Task(
                ordering_id=f"a{number}", scheduled_time=at, uniqueness_key="m", kind="batch"
            )
            then = first.model_copy(update={"uniqueness_key": "t", "kind": "next"})
            scheduler.schedule_task(first, then=then, on="any").result(TIMEOUT_S)
        last = Task(ordering_id="z", scheduled_time=at, uniqueness_key="t", kind="next")
        plain.schedule({}, ordering_id="p", uniqueness_key="p", then=last).result(TIMEOUT_S)
        scheduler.advance(minutes=2)

    assert sorted(told) == [("m", "success")] * 3 + [("p", "success")]


def test_both_name_each_other_in_words() -> None:
    """As ``hourhand show`` prints them."""
    scheduler = VirtualScheduler(Tell)
    first, then = _tasks(scheduler)
    scheduler.schedule_task(first, then=then).result(TIMEOUT_S)
    scheduler.advance(minutes=2)

    def show(key: TaskKey) -> TaskView:
        partition = partition_of(key.ordering_id, len(scheduler.broker.partitions))
        (row,) = scheduler.stores.schedule.find_tasks(partition, (key,)).result().values()
        return view_of(key, partition, row, None, ())

    lines = list(view_lines(show(first.key), 0))
    assert any(
        each.startswith("then") and f"{then.key}, once it has succ" in each for each in lines
    )
    lines = list(view_lines(show(then.key), 0))
    assert any(each.startswith("after") and f"{first.key} (success)" in each for each in lines)


def test_a_single_follower_is_tested_with_what_it_follows() -> None:
    """Without a scheduler."""
    end = TaskEnd(key=a_key(), state="failure", finished_ms=0, reason="no")
    told: list[str] = []

    class Note(TaskExecutor):
        def execute(self, task: Task) -> None:
            told.extend(f"{each.state}: {each.reason}" for each in task.after)

    scheduler = VirtualScheduler(Tell)
    execute_task(Note(), _tasks(scheduler)[1], after=[end])

    assert told == ["failure: no"]


def test_a_chain_is_claimed_in_its_order() -> None:
    """A step that blocks holds the rest, and the claim says how far it came."""
    failing = {"0001"}

    class Step(TaskExecutor):
        retry = RetryPolicy(attempts_max=1, on_exhausted="block")

        def execute(self, task: Task) -> None:
            if task.uniqueness_key in failing:
                raise ValueError("not this time")

    scheduler = VirtualScheduler(Step)
    at = scheduler.now + timedelta(minutes=1)
    steps = [
        Task(ordering_id="o", scheduled_time=at, uniqueness_key=f"{number:04d}")
        for number in range(3)
    ]
    scheduler.client.schedule_tasks(reversed(steps)).raise_if_rejected()
    scheduler.advance(minutes=2)
    with pytest.raises(AssertionError, match="1 of 3 steps succeeded in order"):
        scheduler.assert_chain(steps)

    failing.clear()
    scheduler.client.retry_task(steps[1].key).result(TIMEOUT_S)
    scheduler.advance(minutes=1)
    scheduler.assert_chain(steps)
    with pytest.raises(AssertionError, match="3 of 3 steps"):
        scheduler.assert_chain([steps[1], steps[0], steps[2]])
