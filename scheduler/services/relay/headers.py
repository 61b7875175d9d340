"""Reads the headers of a message of the in-topic, and rejects unusable ones.

It reads one record alone and changes no byte of the message; it only removes the headers that are
for the relay.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.instant import parse_instant
from hourhand.scheduler.configuration.door_settings import RelaySettings
from hourhand.scheduler.services.relay.message import Message

ID_CHARS_MAX = 4_000


class RelayAction(StrEnum):
    """The actions of a record of the in-topic."""

    SCHEDULE = "schedule"
    CANCEL = "cancel"
    RESCHEDULE = "reschedule"


class Malformed(ValueError):
    """A record's headers cannot be used; its text says why."""


class RelayRequest(msgspec.Struct, frozen=True):
    """The request of a record of the in-topic."""

    action: RelayAction
    id: str
    deadline_ms: int
    """0 for a cancel."""
    message: Message
    """The message to pass on, if the action is schedule."""


def request_of(
    record: LogRecord, settings: RelaySettings, allows: Callable[[str], bool]
) -> RelayRequest:
    """Read a record of the in-topic; raises Malformed.

    ``allows`` returns True if a topic may be a target.
    """
    mine, kept = _sorted_out(record, settings)
    action = _action(_text(mine, settings.action_header), settings)
    message_id = _checked_id(_text(mine, settings.id_header), settings)
    topic = _text(mine, settings.topic_header)
    if topic is not None and not allows(topic):
        raise Malformed(f"topic {shown(topic)} is not among relay.target_topics")
    deadline_ms = 0
    if action is not RelayAction.CANCEL:
        deadline_ms = _deadline_ms(_text(mine, settings.deadline_header), settings)
    target = settings.out_topic if topic is None else topic
    message = Message(target, record.key, record.value, tuple(kept))
    return RelayRequest(action, message_id, deadline_ms, message)


def _sorted_out(
    record: LogRecord, settings: RelaySettings
) -> tuple[dict[str, bytes | None], list[tuple[str, bytes | None]]]:
    """Return the headers for the relay, and those that are passed on."""
    own = (
        settings.id_header,
        settings.deadline_header,
        settings.action_header,
        settings.topic_header,
    )
    mine: dict[str, bytes | None] = {}
    kept: list[tuple[str, bytes | None]] = []
    for header in record.headers:
        name, value = header
        if name not in own:
            kept.append(header)
        elif name in mine:
            times = sum(each == name for each, _ in record.headers)
            raise Malformed(f"header {name} is there {times} times")
        else:
            mine[name] = value
    return mine, kept


def _action(text: str | None, settings: RelaySettings) -> RelayAction:
    if text is None:
        return RelayAction.SCHEDULE
    try:
        return RelayAction(text)
    except ValueError:
        known = ", ".join(RelayAction)
        raise Malformed(
            f"header {settings.action_header} is {shown(text)}, known are {known}"
        ) from None


def _checked_id(message_id: str | None, settings: RelaySettings) -> str:
    if message_id is None:
        raise Malformed(f"there is no header {settings.id_header}")
    if not message_id or len(message_id) > ID_CHARS_MAX:
        raise Malformed(
            f"header {settings.id_header} has {len(message_id)} characters, 1 to"
            f" {ID_CHARS_MAX} are allowed"
        )
    return message_id


def _deadline_ms(text: str | None, settings: RelaySettings) -> int:
    if text is None:
        raise Malformed(f"there is no header {settings.deadline_header}")
    try:
        return parse_instant(text)
    except ValueError as error:
        raise Malformed(f"header {settings.deadline_header}: {error}") from None


def _text(headers: Mapping[str, bytes | None], name: str) -> str | None:
    """Return a header as text; None if it is missing."""
    if name not in headers:
        return None
    value = headers[name]
    if value is None:
        raise Malformed(f"header {name} has no value")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Malformed(f"header {name} is not UTF-8") from None
