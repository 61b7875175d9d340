"""``send_later``: the task that passes an arbitrary message on at a time.

Decides what may be sent (InvalidTask where it may not) and what the task looks like; the client
appends it like any other.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from actors.model.codec import Headers
from actors.model.display import shown
from actors.model.errors import InvalidTask
from actors.model.instant import INSTANT_MAX_MS
from actors.model.task import Task
from scheduler.configuration.door_settings import TOPIC_NAME
from scheduler.records.admission import target_ms
from scheduler.services.own_tasks import unique_in_order
from scheduler.services.relay.delivery import Delivery, Message, delivery_task

When = datetime | timedelta

_TOPIC_CHARS_MAX = 249


def message_to_send(
    topic: str, key: bytes | None, value: bytes | None, headers: Headers
) -> Message:
    """Return the message; raises InvalidTask where Kafka could not hold it."""
    parts: tuple[tuple[str, object], ...] = (("key", key), ("value", value))
    if not re.fullmatch(TOPIC_NAME, str(topic)) or len(topic) > _TOPIC_CHARS_MAX:
        raise InvalidTask(f"cannot send: {shown(topic)} is no topic's name")
    for name, content in parts:
        if content is not None and not isinstance(content, bytes):
            raise InvalidTask(f"cannot send: {name} is bytes or None, got {shown(content)}")
    return Message(topic, key, value, tuple(_checked_headers(headers)))


def _checked_headers(headers: Headers) -> Sequence[tuple[str, bytes | None]]:
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
    """Return when a message is to be sent: at once where that has passed."""
    if isinstance(when, timedelta):
        due = now_ms + when // timedelta(milliseconds=1)
        if due > INSTANT_MAX_MS:
            raise InvalidTask(f"cannot send after {when}: that lies beyond the year 9999")
    else:
        due = target_ms("send", when)
    return max(due, now_ms)


def sending_task(message: Message, when_ms: int, now_ms: int, *, parked: str | None = None) -> Task:
    """Return the task that sends a message; of one key and time they go in the order asked."""
    delivery = Delivery(message) if parked is None else Delivery(parked=parked)
    return delivery_task(when_ms, parked or unique_in_order(now_ms), message.key, delivery)
