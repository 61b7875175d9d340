"""The header that a waiting message carries besides its own key, value and headers.

It is the first header. Key, value and the other headers are the message's own, byte for byte, so
nothing is encoded twice and a message takes little more than its own size.
"""

import msgspec

from hourhand.actors.model.task.codec import LogRecord
from hourhand.scheduler.kafka_only.bucket_layout import Layout
from hourhand.scheduler.kafka_only.ports import Outgoing
from hourhand.scheduler.services.relay.message import Message

ENVELOPE_HEADER = "hourhandSlip"


class NoEnvelope(ValueError):
    """A record of the pending topic was not written by Hourhand; the text gives the reason."""


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """The due time and the target of a message."""

    due_ms: int
    lower_ms: int
    """The time for which it may rest in its partition."""
    topic: str
    origin: str
    """Orders messages of one time as they were accepted."""
    message_id: str = ""


def pending(
    topic: str, layout: Layout, envelope: Envelope, message: Message, now_ms: int
) -> Outgoing:
    """Return the record in which a message waits; it sets the envelope's resting time."""
    # One key has one place, so that its messages of one time keep their order.
    spread_by = envelope.origin.encode() if message.key is None else message.key
    place = layout.place(envelope.due_ms - now_ms, spread_by)
    header = msgspec.msgpack.encode(msgspec.structs.replace(envelope, lower_ms=place.lower_ms))
    return Outgoing(
        topic,
        place.partition,
        message.key,
        message.value,
        ((ENVELOPE_HEADER, header), *message.headers),
    )


def read_envelope(record: LogRecord) -> tuple[Envelope, Message]:
    """Return envelope and message from a record of the pending topic; raises NoEnvelope."""
    name, value = next(iter(record.headers), ("", None))
    if name != ENVELOPE_HEADER or value is None:
        raise NoEnvelope(f"its first header is not {ENVELOPE_HEADER}")
    try:
        envelope = msgspec.msgpack.decode(value, type=Envelope)
    except msgspec.MsgspecError as error:
        raise NoEnvelope(f"its {ENVELOPE_HEADER} cannot be read: {error}") from None
    return envelope, Message(envelope.topic, record.key, record.value, tuple(record.headers)[1:])
