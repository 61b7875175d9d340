"""What has nobody to wait for is passed on without an attempt of its own coroutine."""

import math

import msgspec
import pytest

from actors.model.errors import HourhandError, LogUnavailable, TopicMissing
from actors.model.outcome import Drop
from scheduler.adapters.memory.writer import MemoryWriter
from scheduler.records.appending import TaskAppender
from scheduler.services.definition_book import DefinitionBook
from scheduler.services.relay.claim_state import DecidedHere, place_of
from scheduler.services.relay.delivery import DeliverMessage
from scheduler.services.relay.message import Delivery, Message
from scheduler.services.system_tasks import SystemDependencies
from scheduler.testing import VirtualScheduler
from tests.builders import a_stored_task

_OUT = "out"


def _deliverer(scheduler: VirtualScheduler) -> DeliverMessage:
    """Return an executor that may send to one topic."""
    writer = MemoryWriter(scheduler.broker)
    appender = TaskAppender(writer, writer.partition_count())
    book = DefinitionBook(scheduler.stores.definitions, appender.partition_count, scheduler.clock)
    dependencies = SystemDependencies(
        appender, book, scheduler.clock, scheduler.telemetry, lambda: math.inf
    )

    def allows(topic: str, relayed: bool) -> bool:
        return topic == _OUT and not relayed

    messages = scheduler.messages
    return DeliverMessage(dependencies, lambda: messages, writer, allows, DecidedHere())


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
