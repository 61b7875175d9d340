"""The mover: takes committed rows of the outbox to the task log, in order per ordering id.

A row is deleted once the log has acknowledged its record. If a mover dies in between, the next one
appends the same bytes again: the same task key, so the same task. Only the newest row of a key is
sent, claimed or not, because a repeated schedule record would open a key that a later cancellation
has already closed. A row that cannot be a record becomes a dead letter, and stops no other row,
even if its letter fails (``refused``). At the end the current round ends first, so that rows which
it sent are deleted, and the log is closed last. The mover does not look at due times.
"""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import (
    CallerError,
    HourhandError,
    OutboxUnavailable,
    PoisonRecord,
)
from hourhand.actors.model.values.public import public
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import LogWriter
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings, require_settings
from hourhand.scheduler.observe.health import Dispatching, NodeProbes
from hourhand.scheduler.observe.observation import Observation
from hourhand.scheduler.outbox.opening import open_outbox
from hourhand.scheduler.outbox.ports import ClaimedRows, OutboxLag, OutboxRow, OutboxTable
from hourhand.scheduler.outbox.refused import RefusedRows, key_of
from hourhand.scheduler.runtime.guarded_loop import run_guarded
from hourhand.scheduler.runtime.interrupts import signals_taken_by

logger = logging.getLogger("hourhand.outbox")

_LAG_EVERY_MS = 1_000
_LETTER_PATIENCE_MS = 300
"""Several times the duration of a letter: while its row is claimed no other mover sends one."""


@dataclass(slots=True)
class _KeyRows:
    """The rows of one key in a claim, and its newest one, claimed or not, which decides."""

    key: TaskKey
    rows: list[OutboxRow]
    newest: OutboxRow


@dataclass(slots=True)
class _SentRows:
    """The results of a claim's rows."""

    finished: list[OutboxRow] = field(default_factory=list)
    refused: list[tuple[OutboxRow, str]] = field(default_factory=list)
    """With the reason for which each becomes a dead letter."""
    failure: HourhandError | None = None
    """The error that keeps other rows in the table."""


class Mover:
    """Moves rows in rounds, each of one claim; used from one thread.

    The numbers may be read from any thread.
    """

    def __init__(
        self,
        table: OutboxTable,
        writer: LogWriter,
        clock: Clock,
        *,
        rows_max: int,
        poll_ms: int,
        letter_patience_ms: int = _LETTER_PATIENCE_MS,
    ) -> None:
        """``letter_patience_ms`` is the time that a claim waits for dead letters, unless they
        fail.
        """
        self._refused = RefusedRows(writer, clock, letter_patience_ms)
        self._goes_on = False
        """True if rows behind the last claim may be moved at once."""
        self._table = table
        self._writer = writer
        self._clock = clock
        self._rows_max = rows_max
        self._poll_ms = poll_ms
        self.moved_rows = 0
        """Number of rows that were moved to the log."""
        self.refused_rows = 0
        """Number of rows that became dead letters."""
        self.lag = OutboxLag(0, None)
        """The waiting rows at the last look, which is at most a second old during rounds."""
        self.round_ms = clock.monotonic_ms()
        """Monotonic time of the begin of the last round."""
        self.failure: str | None = None
        """The error of the last round, or of the last dead letter; None if there was none."""
        self._lag_ms = float("-inf")

    def oldest_age_ms(self) -> int:
        """Return the age of the oldest row at the last look; 0 if there was none."""
        oldest_ms = self.lag.oldest_ms
        return 0 if oldest_ms is None else max(0, self._clock.now_ms() - oldest_ms)

    def run_round(self) -> None:
        """Move the rows of one claim; wait if there are none.

        Raises OutboxUnavailable, SchemaMissing and LogUnavailable; rows that were not moved stay. A
        dead letter that fails only shows in ``failure``: no row waits for it.
        """
        self.round_ms = self._clock.monotonic_ms()
        try:
            self.move()
            if self._clock.monotonic_ms() - self._lag_ms >= _LAG_EVERY_MS:
                self.lag = self._table.lag()
                self._lag_ms = self._clock.monotonic_ms()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            raise
        self.failure = self._refused.failure
        if not self._goes_on:
            self._table.wait(self._poll_ms)

    def move(self) -> int:
        """Move the rows of one claim, and return the number that left the table.

        A row that cannot be a record leaves it with its dead letter, in this claim or a later one.
        Raises the error of other rows, after the rows that the log holds are deleted.
        """
        passed_over = self._refused.passed_over(self._rows_max)
        with self._table.claim(self._rows_max, passed_over) as claimed:
            sent = self._send(claimed) if claimed.rows else _SentRows()
            for row, reason in sent.refused:
                self._refused.add(row, reason)
            letters = self._refused.written()
            numbers = [row.number for row in sent.finished]
            claimed.delete([*numbers, *letters])
        self._refused.forget(letters)
        self.moved_rows += len(numbers)
        self.refused_rows += len(letters)
        self._goes_on = bool(numbers or letters) or any(
            row.number in self._refused for row, _ in sent.refused
        )
        if sent.failure is not None:
            raise sent.failure
        return len(numbers) + len(letters)

    def _send(self, claimed: ClaimedRows) -> _SentRows:
        sent = _SentRows()
        held_ids: set[str] = set()
        late_ids: set[str] = set()
        rows = _by_key(claimed, sent)
        for each, told in self._append(rows, claimed.until_ms):
            ordering_id, error = each.key.ordering_id, told
            if ordering_id in held_ids:
                # Records of an id behind a failed one are sent again, behind it.
                continue
            is_refused = isinstance(told, CallerError) and len(rows) > 1
            if is_refused or ordering_id in late_ids:
                # A broker refuses records of one batch as a whole.
                ((_, error),) = self._append([each], claimed.until_ms)
                if error is None:
                    late_ids.add(ordering_id)
            if error is None:
                sent.finished += each.rows
            elif isinstance(error, CallerError):
                # The rows in front of it are claimed again, and the newest of them decides.
                sent.refused.append((each.newest, str(error)))
            else:
                sent.failure = error
                held_ids.add(ordering_id)
        return sent

    def _append(
        self, rows: list[_KeyRows], until_ms: float
    ) -> list[tuple[_KeyRows, HourhandError | None]]:
        """Append rows together; return the result of each, up to the first that was not taken."""
        group = self._writer.begin_group()
        appended: list[_KeyRows] = []
        refused: list[tuple[_KeyRows, HourhandError | None]] = []
        for each in rows:
            try:
                if self._clock.monotonic_ms() > until_ms:
                    raise OutboxUnavailable(
                        "a claim of rows was held for too long, and another mover may have them"
                        " now: they are claimed again"
                    )
                group.append(each.key.ordering_id, each.newest.record)
            except HourhandError as error:
                refused.append((each, error))
                if not isinstance(error, CallerError):
                    break
            else:
                appended.append(each)
        failures = group.settle()
        return [(each, failures.get(number)) for number, each in enumerate(appended)] + refused


def _by_key(claimed: ClaimedRows, sent: _SentRows) -> list[_KeyRows]:
    """Return rows by key, in the order of each key's last row; note unreadable ones."""
    found: dict[TaskKey, _KeyRows] = {}
    for row in claimed.rows:
        try:
            key = key_of(row)
        except PoisonRecord as error:
            sent.refused.append((row, str(error)))
            continue
        earlier = found.pop(key, None)
        found[key] = _KeyRows(key, [*(earlier.rows if earlier else ()), row], row)
    for row in claimed.newest:
        # An unreadable row is refused when it is claimed.
        with suppress(PoisonRecord):
            key = key_of(row)
            if key in found:
                found[key].newest = row
    return list(found.values())


@public("hourhand.outbox")
class OutboxMover:
    """Moves committed rows to the log, on a thread, from entry to exit as a context manager.

    Needs no node in its process. Any number may run for one outbox. Raises SettingsInvalid if
    ``outbox.url`` or the log is not usable, LogUnavailable and TopicMissing. Later failures are
    logged and retried.
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
        """The mover's metrics, if the settings ask for them."""
        return self._observation

    def start(self) -> None:
        """Move rows from now on; SettingsInvalid if metrics cannot be served."""
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
        """Finish the round under way and close everything; repeatable."""
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
            # A mover owns no partition; the health checks need one.
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
