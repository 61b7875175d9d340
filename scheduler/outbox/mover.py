"""The mover: takes committed rows of the outbox to the task log, in order per ordering id.

A row is deleted once the log has acknowledged its record.  A mover that dies in between leaves the
row to the next one, which appends the same bytes again: the same task key, so the same task.  Of
the rows of one key only the newest is sent, claimed or not, because a repeated schedule record
would open a key that the cancellation behind it has closed already.  A row that cannot be a record
becomes a dead letter, and stops nothing.  At the end the round under way ends first, so what it
sent is deleted, and the log is closed last.  It never looks whether a task is due.
"""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from actors.model.codec import Command, CommandKind, LogRecord, decode_record
from actors.model.errors import (
    CallerError,
    HourhandError,
    OutboxUnavailable,
    PoisonRecord,
)
from actors.model.key import TaskKey
from actors.model.partition import partition_of
from actors.ports.clock import Clock
from actors.ports.log import LogWriter
from scheduler import wiring
from scheduler.configuration.settings import Settings, require_settings
from scheduler.observe.health import Dispatching, NodeProbes
from scheduler.observe.observation import Observation
from scheduler.outbox.opening import open_outbox
from scheduler.outbox.ports import ClaimedRows, OutboxLag, OutboxRow, OutboxTable
from scheduler.process.guarded_loop import run_guarded
from scheduler.process.interrupts import signals_taken_by

logger = logging.getLogger("hourhand.outbox")

_LAG_EVERY_MS = 1_000


@dataclass(slots=True)
class _KeyRows:
    """The rows of one key in a claim, and the record of its newest one, which decides."""

    key: TaskKey
    rows: list[OutboxRow]
    record: bytes


@dataclass(slots=True)
class _SentRows:
    """What became of a claim's rows."""

    finished: list[OutboxRow] = field(default_factory=list)
    refused: list[tuple[OutboxRow, str]] = field(default_factory=list)
    """With the reason for which each becomes a dead letter."""
    failure: HourhandError | None = None
    """Why other rows stay where they are."""


class Mover:
    """Moves rows in rounds, each of one claim; used from one thread.

    The numbers may be read from any thread.
    """

    def __init__(
        self, table: OutboxTable, writer: LogWriter, clock: Clock, *, rows_max: int, poll_ms: int
    ) -> None:
        self._table = table
        self._writer = writer
        self._clock = clock
        self._rows_max = rows_max
        self._poll_ms = poll_ms
        self.moved_rows = 0
        """Rows that the log has, and the table no more."""
        self.refused_rows = 0
        """Rows that became dead letters."""
        self.lag = OutboxLag(0, None)
        """What waited at the last look, which is a second old at most while rounds go on."""
        self.round_ms = clock.monotonic_ms()
        """When the last round began, by the monotonic clock."""
        self.failure: str | None = None
        """Why the last round failed; None where it did not."""
        self._lag_ms = float("-inf")

    def oldest_age_ms(self) -> int:
        """Return the age of the oldest row at the last look; 0 where none waited."""
        oldest_ms = self.lag.oldest_ms
        return 0 if oldest_ms is None else max(0, self._clock.now_ms() - oldest_ms)

    def run_round(self) -> None:
        """Move what one claim holds; wait where it holds nothing.

        Raises OutboxUnavailable, SchemaMissing and LogUnavailable; what was not moved stays.
        """
        self.round_ms = self._clock.monotonic_ms()
        try:
            moved = self.move()
            if self._clock.monotonic_ms() - self._lag_ms >= _LAG_EVERY_MS:
                self.lag = self._table.lag()
                self._lag_ms = self._clock.monotonic_ms()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            raise
        self.failure = None
        if not moved:
            self._table.wait(self._poll_ms)

    def move(self) -> int:
        """Move the rows of one claim, and return how many left the table.

        Raises what hindered others, once those are deleted which the log has.
        """
        with self._table.claim(self._rows_max) as claimed:
            if not claimed.rows:
                return 0
            sent = self._send(claimed)
            letters = self._put_aside(sent)
            left = [*sent.finished, *letters]
            claimed.delete([row.number for row in left])
        self.moved_rows += len(sent.finished)
        self.refused_rows += len(letters)
        if sent.failure is not None:
            raise sent.failure
        return len(left)

    def _send(self, claimed: ClaimedRows) -> _SentRows:
        sent = _SentRows()
        group = self._writer.begin_group()
        appended: list[_KeyRows] = []
        for each in _by_key(claimed, sent):
            if self._clock.monotonic_ms() > claimed.until_ms:
                sent.failure = OutboxUnavailable(
                    "a claim of rows was held for too long, and another mover may have them now:"
                    " they are claimed again"
                )
                break
            try:
                group.append(each.key.ordering_id, each.record)
            except CallerError as error:
                sent.refused += [(row, str(error)) for row in each.rows]
            except HourhandError as error:
                sent.failure = error
                break
            else:
                appended.append(each)
        failures = group.settle()
        held_ids: set[str] = set()
        for number, each in enumerate(appended):
            error_of = failures.get(number)
            if isinstance(error_of, CallerError):
                sent.refused += [(row, str(error_of)) for row in each.rows]
                continue
            if error_of is not None:
                sent.failure = error_of
                held_ids.add(each.key.ordering_id)
            # What stands behind a failed record of its id is sent once more behind it.
            if each.key.ordering_id not in held_ids:
                sent.finished += each.rows
        return sent

    def _put_aside(self, sent: _SentRows) -> list[OutboxRow]:
        """Append dead letters, and return the rows that have one."""
        letters: list[OutboxRow] = []
        for row, reason in sent.refused:
            try:
                record = self._letter(row)
                self._writer.dead_letter(
                    record, f"row {row.number} of the outbox: {reason}"
                ).result()
            except HourhandError as error:
                sent.failure = error
                break
            letters.append(row)
            logger.warning("row %d of the outbox became a dead letter: %s", row.number, reason)
        return letters

    def _letter(self, row: OutboxRow) -> LogRecord:
        try:
            ordering_id = _key_of(row).ordering_id
        except PoisonRecord:
            return LogRecord(0, row.number, row.written_ms, None, row.record)
        partition = partition_of(ordering_id, self._writer.partition_count())
        return LogRecord(partition, row.number, row.written_ms, ordering_id.encode(), row.record)


def _by_key(claimed: ClaimedRows, sent: _SentRows) -> list[_KeyRows]:
    """Return rows by key, in the order of each key's last row; note what cannot be read."""
    found: dict[TaskKey, _KeyRows] = {}
    for row in claimed.rows:
        try:
            key = _key_of(row)
        except PoisonRecord as error:
            sent.refused.append((row, str(error)))
            continue
        earlier = found.pop(key, None)
        found[key] = _KeyRows(key, [*(earlier.rows if earlier else ()), row], row.record)
    for row in claimed.newest:
        # What cannot be read is refused when it is claimed.
        with suppress(PoisonRecord):
            key = _key_of(row)
            if key in found:
                found[key].record = row.record
    return list(found.values())


def _key_of(row: OutboxRow) -> TaskKey:
    """Return the key of a row; raises PoisonRecord for what no outbox of ours writes."""
    read = decode_record(LogRecord(0, row.number, row.written_ms, None, row.record))
    if isinstance(read, Command) and read.kind is not CommandKind.CANCEL:
        raise PoisonRecord(
            f"the command {read.kind.value!r} may not be sent twice: an outbox has none"
        )
    return read.key


class OutboxMover:
    """Moves committed rows to the log, on a thread, from entry to exit as a context manager.

    Needs no node in its process.  Any number may run for one outbox.  Raises SettingsInvalid where
    ``outbox.url`` or the log is not usable, LogUnavailable and TopicMissing.  What fails later is
    logged and tried again.
    """

    def __init__(self, settings: Settings) -> None:
        require_settings(settings)
        clock = wiring.open_clock()
        self._closing = ExitStack()
        self._stopped = threading.Event()
        with ExitStack() as undo:
            self._observation = wiring.observe(settings, clock, wiring.build_telemetry(settings))
            undo.callback(self._observation.close)
            writer = wiring.open_writer(settings)
            undo.callback(writer.close)
            writer.partition_count()
            self._table = open_outbox(settings, clock)
            undo.callback(self._table.close)
            self.mover = Mover(
                self._table,
                writer,
                clock,
                rows_max=settings.outbox.batch_rows_max,
                poll_ms=settings.outbox.poll_ms,
            )
            self._closing = undo.pop_all()
        self._thread = threading.Thread(
            target=run_guarded,
            args=(self.mover.run_round, "moving rows of the outbox", logger, self._stopped),
            name="hourhand-outbox",
            daemon=True,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    @property
    def observation(self) -> Observation:
        """What shows the mover's metrics, where the settings ask for them."""
        return self._observation

    def start(self) -> None:
        """Move rows from now on; SettingsInvalid where metrics cannot be served."""
        try:
            self._observation.begin(self._probes())
        except BaseException:
            self._closing.close()
            raise
        self._thread.start()

    def wait(self) -> None:
        """Wait until the mover is asked to stop, then stop."""
        self._stopped.wait()
        self.stop()

    def stop(self) -> None:
        """Finish the round under way and let go of everything; repeatable."""
        self._ask_to_stop()
        if self._thread.is_alive():
            self._thread.join()
        self._closing.close()

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Have SIGINT and SIGTERM end ``wait``, within the block."""
        with signals_taken_by(lambda *_: self._ask_to_stop()):
            yield

    def _ask_to_stop(self) -> None:
        self._stopped.set()
        self._table.wake()

    def _probes(self) -> NodeProbes:
        mover = self.mover
        return NodeProbes(
            dispatching=lambda: Dispatching(0, 0),
            # A mover owns none; the checks want to hear of one.
            partitions=lambda: (0,),
            works=lambda: mover.failure is None,
            lease_ends_ms=lambda: float("inf"),
            ask_store=self._ask_store,
            polled_ms=lambda: mover.round_ms,
            poll_failure=lambda: mover.failure,
            measures={
                "outbox_rows_waiting": lambda: {"": mover.lag.rows},
                "outbox_oldest_age_seconds": lambda: {"": mover.oldest_age_ms() / 1000},
                "outbox_rows_moved_total": lambda: {"": mover.moved_rows},
                "outbox_rows_refused_total": lambda: {"": mover.refused_rows},
            },
        )

    def _ask_store(self) -> "Future[Any]":
        answer: Future[Any] = Future()
        failure = self.mover.failure
        if failure is None:
            answer.set_result(None)
        else:
            answer.set_exception(OutboxUnavailable(failure))
        return answer
