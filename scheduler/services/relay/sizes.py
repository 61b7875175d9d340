"""How large the relay's records are, and what is too large for which place.

Decides whether a message goes into its task, beside it, or nowhere, by what it takes once it is
encoded; never whether anybody may send it.
"""

import msgspec

from actors.model.definition import Definition
from actors.model.errors import SettingsInvalid, TaskTooLarge
from scheduler.configuration.settings import Settings
from scheduler.services.relay.delivery import Delivery, Message, parked

CLAIMS_BYTES_MAX = 100_000
"""Of the claims of one batch, encoded; a single one takes a quarter of it at most: an id of 4,000
characters, of up to six bytes of JSON each."""
ENVELOPE_BYTES_MAX = 1_024
"""What a record of the relay takes beside its data: its ordering id of up to 415 characters twice,
as the record's key and in its value, uniqueness key, time and names."""
_encode = msgspec.json.Encoder().encode


def inline_data(delivery: Delivery, inline_bytes_max: int) -> bytes | None:
    """Return the data of a task that holds its message; None where that is too long.

    What counts is the encoded form: bytes take a third more in JSON, a control character in a
    header's name six times as much.
    """
    if delivery.message is not None and delivery.message.size_bytes > inline_bytes_max:
        return None
    data = _encode(delivery)
    return None if len(data) > inline_bytes_max else data


def fits_inline(message: Message, inline_bytes_max: int) -> bool:
    """Whether a task may hold a message that has no id."""
    most_bytes = 6 * message.size_bytes + 16 * len(message.headers) + ENVELOPE_BYTES_MAX
    # Nearly all are short, and need not be encoded once more to know it.
    if most_bytes <= inline_bytes_max:
        return True
    return inline_data(Delivery(message), inline_bytes_max) is not None


def parked_row(place: str, message: Message, row_bytes_max: int) -> Definition:
    """Return the row that holds a message beside its task; TaskTooLarge above a row's size."""
    row = parked(place, message)
    if len(row.rule) > row_bytes_max:
        raise TaskTooLarge(
            f"the message takes {len(row.rule)} bytes, tree.execution.row_bytes_max allows"
            f" {row_bytes_max}; keep large data elsewhere and send a reference to it"
        )
    return row


def refuse_small_records(settings: Settings) -> None:
    """Raise SettingsInvalid where the log would refuse records that the relay writes.

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
