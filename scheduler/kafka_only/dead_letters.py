"""What is put aside of a partition's records, why, and with how much of each.

Decides that a letter which is refused itself is tried once more without the message, which may be
what is too large, and that a record is held where that is refused too.
"""

from actors.model.codec import Headers, LogRecord
from actors.model.errors import LogUnavailable
from scheduler.kafka_only.ports import Outgoing
from scheduler.ports.dead_letters import LEFT_OUT, letter_headers


class Letters:
    """The refusals of one partition's records."""

    def __init__(self, dead_letter_topic: str) -> None:
        self._topic = dead_letter_topic
        self._reasons: dict[int, str] = {}
        self._short: set[int] = set()

    def reason(self, offset: int) -> str | None:
        """Return why a record's message was refused; None where it was not."""
        return self._reasons.get(offset)

    def refuse(self, offset: int, refused: Outgoing, reason: str) -> None:
        """Take note of what was refused: the message of a record, or its letter.

        Raises LogUnavailable where nothing shorter is left to be written.
        """
        if refused.topic != self._topic:
            self._reasons[offset] = reason
        elif offset not in self._short:
            self._short.add(offset)
        else:
            # Begun anew, it is tried whole again.
            self._short.discard(offset)
            raise LogUnavailable(
                f"the record at offset {offset} cannot be put aside in {self._topic!r}: {reason};"
                " its partition waits until it can"
            )

    def letter(self, topic: str, record: LogRecord, headers: Headers, reason: str) -> Outgoing:
        """Return a dead letter: the message, why, and where it stood."""
        noted = letter_headers(topic, record, reason)
        if record.offset in self._short:
            return Outgoing(self._topic, None, None, None, (*noted, *LEFT_OUT))
        return Outgoing(self._topic, None, record.key, record.value, (*headers, *noted))

    def forget(self, offset: int) -> None:
        """A record is done."""
        self._reasons.pop(offset, None)
        self._short.discard(offset)
