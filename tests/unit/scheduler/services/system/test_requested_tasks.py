"""Requests that are decided together: one read, one write, and an end for each."""

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from hourhand import Task
from hourhand.actors.model.execution.outcome import Drop
from hourhand.actors.model.task.codec import encode_data
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import TaskTooLarge
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.node.system_executor import TaskEnds
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.requested_tasks import name_of_request
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from hourhand.scheduler.services.system.unique_tasks import DecideUnique, unique_request
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler
from tests.unit.scheduler.testing.testing_bench import Noting

HOUR = timedelta(hours=1)
PARTITIONS = 1
RECORD_BYTES_MAX = 2_000


class Together:
    """Decides requests together, on the store and the log of a test kit."""

    def __init__(self) -> None:
        self.kit = VirtualScheduler(Noting, partitions=PARTITIONS)
        book = DefinitionBook(self.kit.stores.definitions, PARTITIONS, self.kit.clock)
        writer = MemoryWriter(self.kit.broker, record_bytes_max=RECORD_BYTES_MAX)
        appender = TaskAppender(writer, PARTITIONS)
        self.executor = DecideUnique(
            SystemDependencies(appender, book, self.kit.clock, self.kit.telemetry, lambda: math.inf)
        )

    def request(self, customer: int, text: str = "") -> StoredTask:
        """Return a request of one customer, as a node reads it."""
        task = Task(
            ordering_id=f"customer-{customer}",
            scheduled_time=self.kit.now,
            uniqueness_key="digest",
            data={"text": text},
        )
        request = unique_request(task, HOUR, self.kit.clock.now_ms(), f"call-{customer}")
        return StoredTask(request.key, encode_data(request), customer)

    def ends(self, requests: Sequence[StoredTask]) -> TaskEnds:
        """Decide requests; return their ends."""
        return begun(self.executor.steps(requests)).result(0)

    @property
    def ran(self) -> list[str]:
        """The customers whose tasks were made, in order."""
        self.kit.advance(minutes=1)
        own = {each.key.ordering_id for each in self.kit.executions}
        return sorted(each for each in own if each.startswith("customer"))


def test_requests_that_come_together_are_decided_by_one_read_and_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many they are."""
    together = Together()
    asked: list[str] = []
    definitions = together.kit.stores.definitions

    def noted(name: str, real: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
        def call(*given: object) -> Future[Any]:
            asked.append(name)
            return real(*given)

        return call

    for name in ("find", "save"):
        monkeypatch.setattr(definitions, name, noted(name, getattr(definitions, name)))
    ends = together.ends([together.request(number) for number in range(20)])

    assert list(ends) == [None] * 20
    assert asked == ["find", "save"]
    assert len(together.ran) == 20


def test_a_record_that_the_log_refuses_fails_its_own_request_alone() -> None:
    """The others are done, and one that cannot be read is dropped."""
    together = Together()
    large = together.request(1, "x" * RECORD_BYTES_MAX)
    unread = StoredTask(together.request(2).key, b'{"key":1}', 2)

    ends = together.ends([together.request(0), large, unread, together.request(3)])

    assert [type(each) for each in ends] == [type(None), TaskTooLarge, Drop, type(None)]
    assert together.ran == ["customer-0", "customer-3"]


@pytest.mark.parametrize("window_ms", [-(10**18), -1, 0, 10**30])
def test_a_request_with_a_window_that_no_client_sends_is_dropped(window_ms: int) -> None:
    """Other producers may write any number; requests beside it are done."""
    together = Together()
    sent = together.request(1)
    other = json.dumps({**json.loads(sent.data), "window_ms": window_ms}).encode()

    ends = together.ends([together.request(0), StoredTask(sent.key, other, 1)])

    assert [type(each) for each in ends] == [type(None), Drop]
    assert together.ran == ["customer-0"]


def test_a_row_that_cannot_be_read_fails_its_own_request_alone() -> None:
    """Another version, or a hand, may have written it."""
    together = Together()
    bad = together.request(1)
    row = Definition(name_of_request(bad.key.ordering_id), 0, b"[]")
    together.kit.stores.definitions.save(0, [row], together.kit.clock.now_ms()).result(0)

    ends = together.ends([together.request(0), bad, together.request(2)])

    assert [type(each) for each in ends] == [type(None), msgspec.ValidationError, type(None)]
    assert together.ran == ["customer-0", "customer-2"]


def test_steps_end_where_nobody_waits_for_the_log_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request is not done by a node that was closed; an error here would fail the test."""
    together = Together()
    monkeypatch.setattr(TaskAppender, "append_record", lambda *_given: Future[Any]())
    steps = together.executor.steps([together.request(0)])
    asked = [next(steps)]
    while asked[-1].done():
        asked.append(steps.send(asked[-1].result()))

    steps.close()

    assert not asked[-1].done()
