"""What has nobody to wait for is passed on without an attempt of its own coroutine."""

import math

import msgspec
import pytest

from hourhand.actors.model.execution.outcome import Drop
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import HourhandError, LogUnavailable, TopicMissing
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.relay.claim_state import (
    CLAIM_KEPT_MS,
    DecidedHere,
    MessageClaim,
    claim_name,
    place_of,
)
from hourhand.scheduler.services.relay.delivery import DeliverMessage
from hourhand.scheduler.services.relay.message import Delivery, Message
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import a_stored_task

_OUT = "out"


def _deliverer(scheduler: VirtualScheduler, decided: DecidedHere | None = None) -> DeliverMessage:
    """Return an executor that may send to one topic, relayed messages where it knows of claims."""
    writer = MemoryWriter(scheduler.broker)
    appender = TaskAppender(writer, writer.partition_count())
    book = DefinitionBook(scheduler.stores.definitions, appender.partition_count, scheduler.clock)
    dependencies = SystemDependencies(
        appender, book, scheduler.clock, scheduler.telemetry, lambda: math.inf
    )

    def allows(topic: str, relayed: bool) -> bool:
        return topic == _OUT and relayed == (decided is not None)

    messages = scheduler.messages
    known = DecidedHere() if decided is None else decided
    return DeliverMessage(dependencies, lambda: messages, writer, allows, known)


def _data(topic: str) -> bytes:
    return msgspec.json.encode(Delivery(Message(topic, b"k", b"v")))


def test_a_message_without_an_id_is_passed_on_at_once() -> None:
    """Its work is done when the topic has it."""
    scheduler = VirtualScheduler(executors={})

    work = _deliverer(scheduler).immediate(a_stored_task(data=_data(_OUT)))

    assert work is not None
    assert work().result(0) is None
    assert [(each.topic, each.key) for each in scheduler.messages.messages] == [(_OUT, b"k")]


@pytest.mark.parametrize(
    ("topic", "failure"), [("another", None), (_OUT, TopicMissing("it is gone"))]
)
def test_what_can_never_be_passed_on_is_put_aside(
    topic: str, failure: HourhandError | None
) -> None:
    """The task is dropped once the letter is durable."""
    scheduler = VirtualScheduler(executors={})
    if failure is not None:
        scheduler.messages.failures[topic] = failure

    work = _deliverer(scheduler).immediate(a_stored_task(data=_data(topic)))

    assert work is not None
    assert isinstance(work().result(0), Drop)
    assert scheduler.broker.dead_letters.end_offset == 1


def test_what_another_try_may_change_fails() -> None:
    """The task is tried again, and nothing is put aside."""
    scheduler = VirtualScheduler(executors={})
    scheduler.messages.failures[_OUT] = LogUnavailable("nobody answers")

    work = _deliverer(scheduler).immediate(a_stored_task(data=_data(_OUT)))

    assert work is not None
    assert isinstance(work().exception(0), LogUnavailable)
    assert scheduler.broker.dead_letters.end_offset == 0


def test_a_message_whose_claim_is_not_known_here_has_to_wait() -> None:
    """An attempt looks for its claim."""
    scheduler = VirtualScheduler(executors={})
    delivery = Delivery(Message(_OUT), id="id-1", place=place_of(0, 8))
    task = a_stored_task(data=msgspec.json.encode(delivery))

    assert _deliverer(scheduler).immediate(task) is None


@pytest.mark.parametrize("failure", [None, LogUnavailable("nobody answers")])
def test_the_claim_of_what_was_passed_on_is_kept_for_an_hour(failure: HourhandError | None) -> None:
    """And that of what waits, or could not be passed on, for as long as it was."""
    scheduler, place = VirtualScheduler(executors={}), place_of(0, 8)
    if failure is not None:
        scheduler.messages.failures[_OUT] = failure
    delivery = Delivery(Message(_OUT, b"k"), id="id-1", place=place)
    task = a_stored_task(data=msgspec.json.encode(delivery))
    kept_ms = scheduler.clock.now_ms() + 20 * CLAIM_KEPT_MS
    row = Definition(claim_name("id-1"), 7, b"{}", None, kept_ms)
    store = scheduler.stores.definitions
    partition = partition_of(row.name.ordering_id, len(scheduler.broker.partitions))
    store.save(partition, [row], scheduler.clock.now_ms()).result(0)
    decided = DecidedHere()
    decided.note(row, MessageClaim(place, "o", (task.key.scheduled_ms,), {}))

    work = _deliverer(scheduler, decided).immediate(task)

    assert work is not None
    assert work().exception(0) is failure
    (found,) = store.find(partition, [row.name]).result(0).values()
    expected_ms = kept_ms if failure else scheduler.clock.now_ms() + CLAIM_KEPT_MS
    assert (found.rule, found.expires_ms) == (row.rule, expected_ms)
