"""P29: a task that has ended brings its follower, once, and the follower knows how it ended."""

import random
import string
from collections.abc import Callable
from datetime import timedelta

import pytest
from pydantic import JsonValue

from hourhand import Done, Drop, Snooze
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.task.codec import decode_record, encode_task
from hourhand.actors.model.task.links import On, with_then
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.testing import TaskEnd
from tests.builders import NOW_MS, a_record, a_task
from tests.promises.group import Group

FIRST = a_task(due_in_ms=60_000, data={"step": 1})
NEXT = a_task(ordering_id="mails", due_in_ms=0, uniqueness_key="receipt", data={"step": 2})


class Followed:
    """A group whose first step is told what to do, and what the second one finds."""

    def __init__(self, says: Callable[[], Outcome | None], *, partitions: int = 2) -> None:
        self.group = Group(partitions=partitions)
        self.found: list[tuple[TaskEnd, ...]] = []

        def run(task: Task, _attempt: int) -> Outcome | None:
            if task.key != NEXT.key:
                return says()
            self.found.append(task.after)
            return None

        self.group.journal.says = run
        self.group.journal.retry = RetryPolicy(attempts_max=1)

    def schedule(self, on: On = "success") -> None:
        """Schedule both, as one record."""
        self.group.client.schedule_task(FIRST, then=NEXT, on=on).result(0)

    def states(self) -> list[str]:
        """Return the state of the first step at each run of the second one."""
        return [end.state for (end,) in self.found]


def _fails() -> None:
    raise ValueError("not this time")


def test_p29_a_follower_runs_once_its_task_has_ended_and_finds_the_result() -> None:
    """In another partition, due long before; the data is its own."""
    story = Followed(lambda: Done({"paid": 42}))
    story.schedule()
    story.group.join()
    story.group.advance(59_000)
    assert story.group.journal.ran == []
    story.group.advance(60_000)

    assert [(ran.name, ran.data) for ran in story.group.journal.ran] == [
        (FIRST.uniqueness_key, {"step": 1}),
        (NEXT.uniqueness_key, {"step": 2}),
    ]
    ((end,),) = story.found
    assert (end.key, end.state, end.attempts) == (FIRST.key, "success", 1)
    assert end.result == {"paid": 42}
    assert 60_000 <= end.finished_ms - NOW_MS <= 61_000


ENDS: dict[str, Callable[[], Outcome | None]] = {
    "success": lambda: None,
    "failure": _fails,
    "dropped": lambda: Drop("no longer wanted"),
}


@pytest.mark.parametrize("on", ["success", "any"])
@pytest.mark.parametrize("state", ENDS)
def test_p29_an_end_that_is_not_asked_for_brings_no_follower(state: str, on: On) -> None:
    """``success`` alone, or any."""
    story = Followed(ENDS[state])
    story.schedule(on)
    story.group.join()
    story.group.advance(120_000)

    assert story.states() == ([state] if on == "any" or state == "success" else [])


@pytest.mark.parametrize("command", ["cancel", "drop", "expire"])
def test_p29_what_is_closed_without_its_code_brings_its_follower_too(command: str) -> None:
    """By an operator, or by its expiry."""
    story = Followed(lambda: None)
    client = story.group.client
    first = FIRST.model_copy(update={"expires": timedelta(minutes=1)})
    client.schedule_task(first, then=NEXT, on="any").result(0)
    if command == "cancel":
        client.cancel_task(FIRST.key).result(0)
    elif command == "drop":
        client.drop_task(FIRST.key).result(0)
    else:
        story.group.clock.advance(150_000)
    story.group.join()
    story.group.advance(60_000)

    expected = {"cancel": "cancelled", "drop": "dropped", "expire": "expired"}[command]
    assert story.states() == [expected]
    assert [ran.name for ran in story.group.journal.ran] == [NEXT.uniqueness_key]


def test_p29_a_follower_goes_with_its_task_to_another_time() -> None:
    """By a move and by a run-now; by a replace it is the new task's."""
    story = Followed(lambda: None)
    story.schedule()
    client = story.group.client
    client.reschedule_task(FIRST.key, a_task(due_in_ms=90_000).scheduled_time).result(0)
    client.run_task_now((FIRST.ordering_id, FIRST.uniqueness_key)).result(0)
    story.group.join()
    story.group.advance(10_000)

    assert story.states() == ["success"]


def test_p29_a_failed_task_that_is_retried_and_succeeds_brings_its_follower_once() -> None:
    """Whatever it brought before counts."""
    failing = [True]

    def says() -> None:
        if failing[0]:
            _fails()

    for on in ("success", "any"):
        failing[0] = True
        story = Followed(says)
        story.schedule("any" if on == "any" else "success")
        story.group.join()
        story.group.advance(70_000)
        failing[0] = False
        story.group.client.retry_task(FIRST.key).result(0)
        story.group.advance(70_000)
        assert story.states() == (["failure"] if on == "any" else ["success"])


def test_p29_a_snooze_is_not_an_end() -> None:
    """The follower waits for the end."""
    says: list[Outcome | None] = [None, Snooze(timedelta(seconds=5)), Snooze(timedelta(seconds=5))]
    story = Followed(says.pop)
    story.schedule("any")
    story.group.join()
    story.group.advance(120_000)

    assert [ran.name for ran in story.group.journal.ran][-1] == NEXT.uniqueness_key
    assert story.states() == ["success"]


def test_p29_no_end_is_durable_before_its_follower_is_in_the_log() -> None:
    """While the log takes nothing the task stays open; what is behind it waits, others go on."""
    story = Followed(lambda: None, partitions=1)
    group = story.group
    story.schedule()
    behind = a_task(due_in_ms=61_000)
    group.append(behind)
    other = a_task(ordering_id="other", due_in_ms=62_000)
    group.append(other)
    member = group.join()
    group.advance(1_000)
    group.log_faults.fails = lambda request: request.kind == "append"
    group.advance(70_000)

    assert group.result_of(FIRST) is None
    assert [ran.ordering_id for ran in group.journal.ran] == [FIRST.ordering_id, "other"]

    group.log_faults.fails = lambda _request: False
    group.advance(60_000)
    assert group.result_of(FIRST) is CompletionResult.SUCCESS
    assert story.states() == ["success"]
    assert member in group.members


def test_p29_a_repeated_end_brings_the_same_follower() -> None:
    """A node dies behind the follower's record and before the completion: both run as promised."""
    story = Followed(lambda: None)
    group = story.group
    story.schedule()
    member = group.join()
    member.faults.fails = lambda request: request.kind == "insert_completions"
    group.advance(61_000)
    assert group.result_of(FIRST) is None
    group.replace(member)
    group.advance(120_000)

    assert story.states() == ["success"]
    assert group.result_of(NEXT) is CompletionResult.SUCCESS


@pytest.mark.parametrize("pad_chars", [0, 4_000])
def test_p29_a_follower_that_the_log_refuses_goes_without_the_result(pad_chars: int) -> None:
    """It is a dead letter if even that is too much; its task is closed in any case."""
    value = "".join(random.Random(7).choices(string.ascii_letters, k=4_000))
    story = Followed(lambda: Done(value))
    group = story.group
    then = NEXT.model_copy(update={"data": {"pad": value[:pad_chars]}})
    group.client.schedule_task(FIRST, then=then).result(0)
    group.broker.batch_bytes_max = 1_000
    group.join()
    group.advance(70_000)

    assert group.result_of(FIRST) is CompletionResult.SUCCESS
    is_sent = not pad_chars
    assert [end.result for (end,) in story.found] == ([None] if is_sent else [])
    assert group.broker.dead_letters.end_offset == (0 if is_sent else 1)


def test_p29_any_producer_may_give_a_follower() -> None:
    """It stands beside the data; one that cannot be read is poison with its task."""
    record = with_then(encode_task(FIRST), encode_task(NEXT), "any")
    row = decode_record(a_record(value=record))

    assert isinstance(row, StoredTask)
    assert row.links is not None and row.links.then is not None
    assert bytes(row.links.then.task) == encode_task(NEXT)
    assert row.to_task().data == FIRST.data and row.to_task().after == ()


def test_p29_data_gives_no_follower() -> None:
    """Whatever its members are called."""
    links = with_then(b'{"taskData":{}}', encode_task(NEXT), "any")[14:-1]
    awkward: tuple[dict[str, JsonValue], ...] = (
        {"links": {"then": {"task": {}}}},
        {"hourhand.links": [2, {}], "hourhand.kind": "hourhand:linked"},
        {"hourhand.links": links.decode()},
    )
    for data in awkward:
        task = FIRST.model_copy(update={"data": data})
        row = decode_record(a_record(value=encode_task(task)))
        assert isinstance(row, StoredTask)
        assert row.links is None and row.kind is None
        assert row.to_task().data == data


def test_a_follower_is_another_task_and_has_no_window() -> None:
    """Refused before anything is sent."""
    client = Group().client
    for refused in (
        client.schedule_task(FIRST, then=FIRST),
        client.schedule_task(FIRST, then=NEXT, unique_for=timedelta(hours=1)),
        client.schedule_task(FIRST, then=NEXT, on="sometimes"),  # type: ignore[arg-type]
        client.schedule_task(FIRST, on="any"),
    ):
        assert isinstance(refused.exception(0), InvalidTask)
