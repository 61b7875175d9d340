"""Rows that cannot be records, from their refusal until the log has a dead letter of each.

Decides from their content which rows these are, which of them a claim skips meanwhile, and how many
letters are on their way. It waits only a moment for a letter, so good rows move on, whatever
happens to the letters. It deletes no row.
"""

import logging
from collections.abc import Collection
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from hourhand.actors.model.task.codec import Command, CommandKind, LogRecord, decode_record
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import HourhandError, PoisonRecord
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import LogWriter, Position
from hourhand.scheduler.outbox.ports import OutboxRow
from hourhand.scheduler.runtime.light_future import failed

logger = logging.getLogger("hourhand.outbox")

AGAIN_MS = 10_000
"""Time after which the dead letter of a row is tried again."""
_ON_THEIR_WAY_MAX = 100
_BYTES_ON_THEIR_WAY_MAX = 8_000_000
"""The driver's queue holds several times as much: letters leave room for good rows."""
_KEPT_MAX = 100_000


def key_of(row: OutboxRow) -> TaskKey:
    """Return the key of a row; raises PoisonRecord for a row that no outbox of ours wrote."""
    read = decode_record(LogRecord(0, row.number, row.written_ms, None, row.record))
    if isinstance(read, Command) and read.kind is not CommandKind.CANCEL:
        raise PoisonRecord(
            f"the command {read.kind.value!r} may not be sent twice: an outbox has none"
        )
    if isinstance(read, Command) and read.by_pair:
        # Moved later, it may mean another task, and the record of its own task would come first.
        raise PoisonRecord("a command by pair may not be sent twice: an outbox names a key")
    return read.key


def _letter_of(row: OutboxRow, partition_count: int) -> LogRecord:
    try:
        ordering_id = key_of(row).ordering_id
    except PoisonRecord:
        return LogRecord(0, row.number, row.written_ms, None, row.record)
    partition = partition_of(ordering_id, partition_count)
    return LogRecord(partition, row.number, row.written_ms, ordering_id.encode(), row.record)


@dataclass(frozen=True, slots=True)
class _Letter:
    reason: str
    record_bytes: int
    answer: "Future[Position]"


class RefusedRows:
    """Rows without a dead letter yet, by number; used from one thread.

    Up to 100,000 are kept; further refused rows are claimed again and again.
    """

    def __init__(self, writer: LogWriter, clock: Clock, patience_ms: int) -> None:
        """``patience_ms`` is the time to wait for letters while none has failed."""
        self._writer = writer
        self._clock = clock
        self._patience_ms = patience_ms
        self._sent: dict[int, _Letter] = {}
        self._waiting: dict[int, float] = {}
        """The monotonic time from which a row may be claimed again."""
        self._fresh: list[_Letter] = []
        self.failure: str | None = None
        """The error of the last letter; None if it succeeded."""

    def __contains__(self, number: int) -> bool:
        return number in self._sent or number in self._waiting

    def passed_over(self, rows_max: int) -> Collection[int]:
        """Return the rows that the next claim of up to ``rows_max`` skips.

        Rows whose time has come are not skipped, up to a share of the claim.
        """
        now_ms = self._clock.monotonic_ms()
        room = min(_ON_THEIR_WAY_MAX - len(self._sent), max(1, rows_max // 2))
        due = [number for number, at_ms in self._waiting.items() if at_ms <= now_ms]
        for number in due[:room]:
            del self._waiting[number]
        return [*self._sent, *self._waiting]

    def add(self, row: OutboxRow, reason: str) -> None:
        """Take a refused row, and send its letter if there is room for it."""
        if len(self._sent) + len(self._waiting) >= _KEPT_MAX:
            return
        sent_bytes = sum(each.record_bytes for each in self._sent.values())
        is_full = sent_bytes + len(row.record) > _BYTES_ON_THEIR_WAY_MAX
        if self._sent and (is_full or len(self._sent) >= _ON_THEIR_WAY_MAX):
            self._waiting[row.number] = self._clock.monotonic_ms()
            return
        reason = f"row {row.number} of the outbox: {reason}"
        try:
            letter = _letter_of(row, self._writer.partition_count())
            answer = self._writer.dead_letter(letter, reason)
        except HourhandError as error:
            answer = failed(error)
        sent = _Letter(reason, len(row.record), answer)
        if self.failure is None and len(self._fresh) == len(self._sent):
            # Letters without a waiting caller may be for a topic that does not answer.
            self._fresh.append(sent)
        self._sent[row.number] = sent

    def written(self) -> list[int]:
        """Return the rows that have a letter; wait a moment for letters that were just sent."""
        ends_ms = self._clock.monotonic_ms() + self._patience_ms
        for letter in self._fresh:
            left_s = max(0.0, ends_ms - self._clock.monotonic_ms()) / 1000
            with suppress(TimeoutError):
                letter.answer.exception(left_s)
        self._fresh.clear()
        done = [(number, each) for number, each in self._sent.items() if each.answer.done()]
        written = []
        for number, letter in done:
            error = letter.answer.exception()
            if error is None:
                written.append(number)
            else:
                self._put_off(number, error)
        is_over = not self._waiting and len(written) == len(self._sent)
        if is_over or (written and len(written) == len(done)):
            # Also done if another mover has written the letter that failed here.
            self.failure = None
        return written

    def forget(self, numbers: Collection[int]) -> None:
        """Drop rows that left the table."""
        for number in numbers:
            letter = self._sent.pop(number)
            logger.warning("%s; it became a dead letter", letter.reason)

    def _put_off(self, number: int, error: BaseException) -> None:
        if self.failure is None:
            logger.warning(
                "the dead letter of row %d of the outbox failed; rows without one stay in the"
                " table, others go on: %s",
                number,
                error,
            )
        del self._sent[number]
        self._waiting[number] = self._clock.monotonic_ms() + AGAIN_MS
        self.failure = f"{type(error).__name__}: {error}"
