"""The library's door: hostile arguments to the client, and text that should be a key.

Decides what is an answer: a receipt, or an error that says whose fault it is.  Anything else
that comes back is a bug.
"""

import random
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from hourhand import Task, TaskInfo
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import CallerError, InvalidKey
from hourhand.scheduler.client.client import Receipt
from hourhand.scheduler.tasks.receipt import PairReceipt
from tests.builders import a_key
from tests.fuzz import values
from tests.promises.group import Group

_ANSWER_S = 60.0
_SOON = datetime(2999, 1, 1, tzinfo=UTC)


class Broken(Exception):
    """What a hostile iterable raises; it is the caller's own and must reach the caller."""


def try_arguments(seed: int, count: int) -> int:
    """Make ``count`` hostile calls; AssertionError where one of them is not answered."""
    rng = random.Random(f"arguments {seed}")
    group = Group(partitions=2)
    member = group.join()
    for number in range(count):
        state = rng.getstate()
        try:
            _one_call(rng, group)
        except CallerError:
            pass
        except Exception as error:
            raise AssertionError(f"argument seed {seed}, call {number}, {state[1][-1]}") from error
    group.settle()
    letters = group.broker.dead_letters
    reasons = [dict(each.headers)["hourhandReason"] for each in letters.read(0, 100)[0]]
    assert not reasons, f"the client sent poison: {reasons}"
    assert group.client.schedule_task(values_task()).result(0).offset >= 0
    group.settle()
    assert member.virtual.node.is_ready
    return count


def values_task() -> Task:
    """Return a good task, to see that the client still takes one."""
    return Task(ordering_id="good", scheduled_time=_SOON, uniqueness_key="good")


def _one_call(rng: random.Random, group: Group) -> None:
    client = group.client
    match rng.randrange(12):
        case 0 | 1:
            _answered(client.schedule_task(Task(**_fields(rng))))
        case 2:
            built: Any = Task.model_construct(**_fields(rng))
            _answered(client.schedule_task(built))
        case 3:
            anything: Any = values.value(rng)
            _answered(client.schedule_task(anything))
        case 4:
            _try_bulk(rng, group)
        case 5:
            commands = (client.cancel_task, client.drop_task, client.retry_task)
            _answered(rng.choice((*commands, client.run_task_now))(_key(rng)))
        case 6:
            to: Any = values.moment(rng)
            _answered(client.reschedule_task(a_key() if rng.random() < 0.5 else _key(rng), to))
        case 7:
            receipt: Any = values.value(rng)
            if rng.random() < 0.7:
                partition, offset = values.value(rng), rng.choice((0, 2**70, values.value(rng)))
                receipt = Receipt(a_key(), partition, offset)
            client.outcome(receipt)
        case 8:
            pair: Any = (values.value(rng), values.text(rng))
            command = rng.choice((client.cancel_task, client.run_task_now))
            _answered(command(pair if rng.random() < 0.5 else pair[::-1]))
        case 9:
            task: Any = rng.choice((values.value(rng), _key(rng), Receipt(_key(rng), 0, 0)))
            info = client.find_task(task)
            assert info.attempts == client.history(task)
        case 10:
            _try_listing(rng, group)
        case _:
            _try_key(values.text(rng) + "," + values.text(rng))
            _try_key(rng.choice(values.INSTANTS) + f",{values.text(rng)},{values.text(rng)}")
            _round_trip(TaskKey(rng.randrange(2**40), values.text(rng), values.text(rng)))


def _answered(future: "Future[Receipt] | Future[PairReceipt]") -> None:
    # The memory log answers at once.
    error = future.exception(_ANSWER_S)
    if error is None:
        assert isinstance(future.result(), Receipt | PairReceipt)
    elif not isinstance(error, CallerError):
        raise error


def _try_listing(rng: random.Random, group: Group) -> None:
    asked: dict[str, Any] = {}
    for _ in range(rng.randrange(1, 3)):
        name = rng.choice(("ordering_id", "kind", "state", "scheduled_from", "limit"))
        asked[name] = values.moment(rng) if name == "scheduled_from" else values.value(rng)
    before: Any = values.moment(rng) if rng.random() < 0.3 else None
    assert all(
        isinstance(each, TaskInfo)
        for each in group.client.list_tasks(**asked, scheduled_before=before)
    )


def _fields(rng: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "ordering_id": "bad",
        "scheduled_time": _SOON,
        "uniqueness_key": "bad",
        "data": {"n": 1},
    }
    for _ in range(rng.randrange(1, 3)):
        name = rng.choice(tuple(fields))
        if rng.random() < 0.1:
            del fields[name]
        else:
            fields[name] = values.moment(rng) if name == "scheduled_time" else values.value(rng)
    return fields


def _key(rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return values.value(rng)
    parts: list[Any] = list(a_key())
    parts[rng.randrange(3)] = values.value(rng)
    return TaskKey(*parts) if rng.random() < 0.9 else tuple(parts)


def _try_bulk(rng: random.Random, group: Group) -> None:
    asked = rng.randrange(1, 20)
    raises = rng.random() < 0.5

    def junk() -> Iterator[Any]:
        for _ in range(asked):
            yield values_task() if rng.random() < 0.5 else values.value(rng)
        if raises:
            raise Broken

    try:
        result = group.client.schedule_tasks(junk())
    except Broken:
        assert raises, "nothing was raised"
        return
    assert result.accepted + result.rejected_count == asked, "a task is in no count"


def _try_key(text: str) -> None:
    try:
        key = TaskKey.parse(text)
    except InvalidKey:
        return
    _round_trip(key)


def _round_trip(key: TaskKey) -> None:
    assert TaskKey.parse(str(key)) == key, f"{key!r} has no reversible text form"
