"""``send_later``: the messages that may be sent, and their storage until they are due.

Decides which messages are refused (InvalidTask), and in storage that keeps tasks the task that
passes the message on; the client appends it like any other.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask, TaskTooLarge
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.scheduler.configuration.door_settings import TOPIC_NAME
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.runtime.light_future import LightFuture, and_then, failed
from hourhand.scheduler.services.relay.message import (
    Delivery,
    Message,
    delivery_task,
    fits_inline,
    parked_row,
)
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.system_tasks import unique_in_order
from hourhand.scheduler.tasks.admission import target_ms
from hourhand.scheduler.tasks.receipt import Receipt

When = datetime | timedelta


class MessageSender(Protocol):
    """Stores messages until they are due; used from any thread.

    The future resolves when the message is durable. It fails with InvalidTask for a message that
    could never be passed on and with LogUnavailable if it was not acknowledged in time.
    """

    def send(self, message: Message, due_ms: int, now_ms: int) -> "LightFuture[Receipt]":
        """Store a message; messages of one key and time are passed on in the order of calls."""

    def close(self) -> None:
        """Wait for unacknowledged messages, for a bounded time, and close connections."""


_TOPIC_CHARS_MAX = 249


def message_to_send(
    topic: str, key: bytes | None, value: bytes | None, headers: Headers
) -> Message:
    """Return the message; raises InvalidTask if Kafka could not hold it."""
    parts: tuple[tuple[str, object], ...] = (("key", key), ("value", value))
    named: object = topic
    if not isinstance(named, str) or not _is_topic_name(named):
        raise InvalidTask(f"cannot send: {shown(topic)} is not a topic's name")
    for name, content in parts:
        if content is not None and not isinstance(content, bytes):
            raise InvalidTask(f"cannot send: {name} is bytes or None, got {shown(content)}")
    return Message(topic, key, value, tuple(_checked_headers(headers)))


def _is_topic_name(text: str) -> bool:
    return len(text) <= _TOPIC_CHARS_MAX and re.fullmatch(TOPIC_NAME, text) is not None


def _checked_headers(headers: Headers) -> Sequence[tuple[str, bytes | None]]:
    given: object = headers
    if not isinstance(given, Iterable):
        raise InvalidTask(f"cannot send: headers are a list of pairs, got {shown(headers)}")
    checked = []
    for header in headers:
        match header:
            case (str() as name, None | bytes() as value):
                checked.append((name, value))
            case _:
                raise InvalidTask(
                    f"cannot send: a header is a name and bytes or None, got {shown(header)}"
                )
    return checked


def due_ms(when: When, now_ms: int) -> int:
    """Return the time at which a message is sent: now if the given time has passed."""
    if isinstance(when, timedelta):
        due = now_ms + when // timedelta(milliseconds=1)
        if due > INSTANT_MAX_MS:
            raise InvalidTask(f"cannot send after {when}: that lies beyond the year 9999")
    else:
        due = target_ms("send", when)
    return max(due, now_ms)


class TaskSender:
    """Implements ``MessageSender`` with tasks: a message waits in one, or beside it if long."""

    def __init__(
        self,
        settings: Settings,
        append: "Callable[[Task], LightFuture[Receipt]]",
        definitions: Callable[[], DefinitionBook],
    ) -> None:
        self._inline_bytes_max = settings.relay.inline_bytes_max
        self._row_bytes_max = settings.tree.execution.row_bytes_max
        self._append = append
        self._definitions = definitions

    def send(self, message: Message, due_ms: int, now_ms: int) -> "LightFuture[Receipt]":
        """Append the task; a message that is too long for it is made durable first."""
        if fits_inline(message, self._inline_bytes_max):
            return self._append(sending_task(message, due_ms, now_ms))
        place = unique_in_order(now_ms)
        task = sending_task(message, due_ms, now_ms, parked=place)
        try:
            row = parked_row(place, message, self._row_bytes_max)
        except TaskTooLarge as error:
            return failed(error)
        return and_then(self._definitions().save(row), lambda _saved: self._append(task))

    def close(self) -> None:
        """Do nothing: writer and stores belong to their opener."""


def sending_task(message: Message, when_ms: int, now_ms: int, *, parked: str | None = None) -> Task:
    """Return the task that sends a message; tasks of one key and time run in the order of calls."""
    delivery = Delivery(message) if parked is None else Delivery(parked=parked)
    return delivery_task(when_ms, parked or unique_in_order(now_ms), message.key, delivery)
