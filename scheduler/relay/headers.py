"""What the headers of a message of the in-topic ask for, and why some cannot be used.

Decides that from one record alone and changes no byte of what is passed on: it only leaves out
the headers that were meant for the relay.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from actors.model.codec import LogRecord
from actors.model.display import shown
from actors.model.instant import parse_instant
from scheduler.door_settings import RelaySettings
from scheduler.relay.delivery import Message

ID_CHARS_MAX = 4_000


class Action(StrEnum):
    """What a record of the in-topic asks for."""

    SCHEDULE = "schedule"
    CANCEL = "cancel"
    RESCHEDULE = "reschedule"


class Malformed(ValueError):
    """A record's headers cannot be used; its text says why."""


class Request(msgspec.Struct, frozen=True):
    """What a record of the in-topic asks for."""

    action: Action
    id: str
    deadline_ms: int
    """0 for a cancel."""
    message: Message
    """What is passed on, where the action is schedule."""


def request_of(
    record: LogRecord, settings: RelaySettings, allows: Callable[[str], bool]
) -> Request:
    """Read a record of the in-topic; raises Malformed."""
    action = _action(record, settings)
    message_id = _text(record, settings.id_header)
    if message_id is None:
        raise Malformed(f"there is no header {settings.id_header}")
    if not message_id or len(message_id) > ID_CHARS_MAX:
        raise Malformed(
            f"header {settings.id_header} has {len(message_id)} characters, 1 to"
            f" {ID_CHARS_MAX} are allowed"
        )
    topic = _text(record, settings.topic_header)
    if topic is not None and not allows(topic):
        raise Malformed(f"topic {shown(topic)} is not among relay.target_topics")
    own = {
        settings.id_header,
        settings.deadline_header,
        settings.action_header,
        settings.topic_header,
    }
    kept = tuple((name, value) for name, value in record.headers if name not in own)
    message = Message(
        settings.out_topic if topic is None else topic, record.key, record.value, kept
    )
    return Request(action, message_id, _deadline_ms(record, settings, action), message)


def _action(record: LogRecord, settings: RelaySettings) -> Action:
    text = _text(record, settings.action_header)
    if text is None:
        return Action.SCHEDULE
    try:
        return Action(text)
    except ValueError:
        known = ", ".join(Action)
        raise Malformed(
            f"header {settings.action_header} is {shown(text)}, known are {known}"
        ) from None


def _deadline_ms(record: LogRecord, settings: RelaySettings, action: Action) -> int:
    if action is Action.CANCEL:
        return 0
    text = _text(record, settings.deadline_header)
    if text is None:
        raise Malformed(f"there is no header {settings.deadline_header}")
    try:
        return parse_instant(text)
    except ValueError as error:
        raise Malformed(f"header {settings.deadline_header}: {error}") from None


def _text(record: LogRecord, name: str) -> str | None:
    """Return the only header of a name as text; None where there is none."""
    values = [value for each, value in record.headers if each == name]
    if not values:
        return None
    if len(values) > 1:
        raise Malformed(f"header {name} is there {len(values)} times")
    if values[0] is None:
        raise Malformed(f"header {name} has no value")
    try:
        return values[0].decode()
    except UnicodeDecodeError:
        raise Malformed(f"header {name} is not UTF-8") from None
