"""What a waiting message carries beside its own key, value and headers.

One header, before all others: the slip.  Key, value and the other headers are the message's own,
byte for byte, so nothing is encoded twice and a message takes little more than its own size.
"""

import msgspec

from actors.model.codec import LogRecord
from scheduler.kafka_only.bucket_layout import Layout
from scheduler.kafka_only.ports import Outgoing
from scheduler.services.relay.delivery import Message

SLIP_HEADER = "hourhandSlip"


class NoSlip(ValueError):
    """A record of the pending topic was not written by Hourhand; its text says why."""


class Slip(msgspec.Struct, frozen=True, array_like=True):
    """When a message is due, and where to."""

    due_ms: int
    lower_ms: int
    """How long it may rest where it is."""
    topic: str
    origin: str
    """Orders messages of one time as they were accepted."""
    message_id: str = ""


def pending(topic: str, layout: Layout, slip: Slip, message: Message, now_ms: int) -> Outgoing:
    """Return the record with which a message waits; ``slip`` needs no resting time yet."""
    # One key has one place, so that its messages of one time keep their order.
    spread_by = slip.origin.encode() if message.key is None else message.key
    place = layout.place(slip.due_ms - now_ms, spread_by)
    header = msgspec.msgpack.encode(msgspec.structs.replace(slip, lower_ms=place.lower_ms))
    return Outgoing(
        topic,
        place.partition,
        message.key,
        message.value,
        ((SLIP_HEADER, header), *message.headers),
    )


def read_slip(record: LogRecord) -> tuple[Slip, Message]:
    """Return what waits in a record of the pending topic; raises NoSlip."""
    name, value = next(iter(record.headers), ("", None))
    if name != SLIP_HEADER or value is None:
        raise NoSlip(f"its first header is not {SLIP_HEADER}")
    try:
        slip = msgspec.msgpack.decode(value, type=Slip)
    except msgspec.MsgspecError as error:
        raise NoSlip(f"its {SLIP_HEADER} cannot be read: {error}") from None
    return slip, Message(slip.topic, record.key, record.value, tuple(record.headers)[1:])
