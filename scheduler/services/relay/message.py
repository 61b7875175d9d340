"""A message in tasks and rows: its stored form, and its size limit.

A task's ordering id is made from the message's key, so messages of one key keep their order.
Decides by the encoded size whether a message goes into its task, beside it, or is refused.
Permission to send is decided elsewhere.
"""

import hashlib
from urllib.parse import quote_from_bytes

import msgspec

from hourhand.actors.model.task.codec import headers_bytes
from hourhand.actors.model.task.definition import (
    RESERVED,
    Definition,
    DefinitionKind,
    DefinitionName,
)
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import SettingsInvalid, TaskTooLarge
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.configuration.settings import Settings

SEND = "send"
"""The kind of ordering ids that deliveries have."""
_KEY_CHARS_MAX = 400
CLAIMS_BYTES_MAX = 100_000
"""Limit for the claims of one batch, encoded; a single one takes at most a quarter of it: an id of
4,000 characters, each of up to six bytes of JSON."""
ENVELOPE_BYTES_MAX = 1_024
"""Size of a relay record besides its data: its ordering id of up to 415 characters twice, as the
record's key and in its value, uniqueness key, time and names."""
_encode = msgspec.json.Encoder().encode


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Kafka message, byte for byte."""

    topic: str
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def size_bytes(self) -> int:
        """Its size in a task, before it is written as text."""
        return len(self.key or b"") + len(self.value or b"") + headers_bytes(self.headers)


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The data of a task that passes a message on: the message, or the place where it is parked."""

    message: Message | None = None
    parked: str | None = None
    id: str | None = None
    """Its id, if it has one: the claim must be this message's."""
    place: str | None = None
    """The place of the record, which identifies this message among others of the same id."""


def ordering_id_of(key: bytes | None, place: str) -> str:
    """Return the ordering id of a delivery: one for each key; a null key has no order."""
    if key is None:
        return f"{RESERVED}{SEND}:-{place}"
    text = quote_from_bytes(key, safe="")
    if len(text) > _KEY_CHARS_MAX:
        return f"{RESERVED}{SEND}:#{hashlib.sha256(key).hexdigest()}"
    return f"{RESERVED}{SEND}:={text}"


def delivery_task(due_ms: int, unique: str, key: bytes | None, delivery: Delivery) -> Task:
    """Return the task that passes a message on at a time."""
    return Task.model_construct(
        ordering_id=ordering_id_of(key, unique),
        scheduled_time=from_millis(due_ms),
        uniqueness_key=unique,
        data=msgspec.to_builtins(delivery),
    )


def parked_name(place: str) -> DefinitionName:
    """Return the name of the row that holds a message too long for a task."""
    return DefinitionName(DefinitionKind.PARKED, place)


def inline_data(delivery: Delivery, inline_bytes_max: int) -> bytes | None:
    """Return the data of a task that holds its message; None if that is too long.

    The limit is for the encoded form: JSON adds a third to bytes, and a control character in a
    header's name takes six times its size.
    """
    if delivery.message is not None and delivery.message.size_bytes > inline_bytes_max:
        return None
    data = _encode(delivery)
    return None if len(data) > inline_bytes_max else data


def fits_inline(message: Message, inline_bytes_max: int) -> bool:
    """True if a task can hold a message without an id."""
    most_bytes = 6 * message.size_bytes + 16 * len(message.headers) + ENVELOPE_BYTES_MAX
    # Nearly all messages are short, and need not be encoded twice.
    if most_bytes <= inline_bytes_max:
        return True
    return inline_data(Delivery(message), inline_bytes_max) is not None


def parked_row(place: str, message: Message, row_bytes_max: int) -> Definition:
    """Return the row that holds a message beside its task; TaskTooLarge above a row's size."""
    row = Definition(parked_name(place), 0, msgspec.msgpack.encode(message))
    if len(row.rule) > row_bytes_max:
        raise TaskTooLarge(
            f"the message takes {len(row.rule)} bytes, tree.execution.row_bytes_max allows"
            f" {row_bytes_max}; keep large data elsewhere and send a reference to it"
        )
    return row


def refuse_small_records(settings: Settings) -> None:
    """Raise SettingsInvalid if the log would refuse records that the relay writes.

    The longest has max(relay.inline_bytes_max, CLAIMS_BYTES_MAX) + ENVELOPE_BYTES_MAX bytes.
    """
    inline_bytes, record_bytes = settings.relay.inline_bytes_max, settings.client.record_bytes_max
    needed_bytes = max(inline_bytes, CLAIMS_BYTES_MAX) + ENVELOPE_BYTES_MAX
    if record_bytes < needed_bytes:
        raise SettingsInvalid(
            f"client.record_bytes_max is {record_bytes} and relay.inline_bytes_max"
            f" {inline_bytes}: with these the relay's records take up to {needed_bytes} bytes"
            f" (the larger of relay.inline_bytes_max and {CLAIMS_BYTES_MAX} for ids, and"
            f" {ENVELOPE_BYTES_MAX}); raise client.record_bytes_max or lower"
            " relay.inline_bytes_max"
        )
