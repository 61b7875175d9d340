"""Dead letters of one partition's records, with the reason for each.

A letter that is refused itself is retried once without the message, which may be too large; if that
is refused too, its record is held.
"""

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.kafka_only.ports import Outgoing
from hourhand.scheduler.ports.dead_letters import LEFT_OUT, letter_headers


class Letters:
    """The refusals of one partition's records."""

    def __init__(self, dead_letter_topic: str) -> None:
        self._topic = dead_letter_topic
        self._reasons: dict[int, str] = {}
        self._short: set[int] = set()

    def reason(self, offset: int) -> str | None:
        """Return the reason why a record's message was refused; None if it was not."""
        return self._reasons.get(offset)

    def refuse(self, offset: int, refused: Outgoing, reason: str) -> None:
        """Record a refusal: of a record's message, or of its letter.

        Raises LogUnavailable if the shorter letter was refused too.
        """
        if refused.topic != self._topic:
            self._reasons[offset] = reason
        elif offset not in self._short:
            self._short.add(offset)
        else:
            # After the owner begins again, the whole letter is tried first.
            self._short.discard(offset)
            raise LogUnavailable(
                f"the record at offset {offset} cannot be put aside in {self._topic!r}: {reason};"
                " its partition waits until it can"
            )

    def letter(self, topic: str, record: LogRecord, headers: Headers, reason: str) -> Outgoing:
        """Return a dead letter: the message, the reason and the original place."""
        noted = letter_headers(topic, record, reason)
        if record.offset in self._short:
            return Outgoing(self._topic, None, None, None, (*noted, *LEFT_OUT))
        return Outgoing(self._topic, None, record.key, record.value, (*headers, *noted))

    def forget(self, offset: int) -> None:
        """Forget the refusals of a record that is done."""
        self._reasons.pop(offset, None)
        self._short.discard(offset)
