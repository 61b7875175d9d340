"""The thread that owns one partition: it begins, steps when a record is ripe, and ends when told.

After a failure it begins again, after pauses that grow while no step succeeds, and a long one if
another owner began. It never reads the log: records are handed to it.
"""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from hourhand.actors.model.task.codec import LogRecord, record_bytes
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import StartPosition
from hourhand.scheduler.kafka_only.layouts import LayoutBook
from hourhand.scheduler.kafka_only.marker import Marker
from hourhand.scheduler.kafka_only.ports import Fenced, Outgoing
from hourhand.scheduler.kafka_only.scanner import Scanner
from hourhand.scheduler.kafka_only.step_timing import SETTLE_MS, wait_ms
from hourhand.scheduler.runtime.pause import pause

logger = logging.getLogger("hourhand.buckets")

_START_S = 30.0
_PAUSE_S = 0.2
_PAUSE_S_MAX = 10.0
_FENCED_PAUSE_S = 5.0
_TURN_S = 0.02
"""Longest wait for a turn; after it, records that were handed over meanwhile may be due sooner."""
_ANNOUNCE_S = 30.0
_INBOX_RECORDS_MAX = 20_000
"""Limit for records that are handed over during a step."""

Start = Callable[[int, Marker | None], "Future[StartPosition]"]
"""Begins to read a partition, at the marker or later; the reading thread answers."""


class Owner:
    """One partition's owner; ``ended`` is called once, when its thread has stopped.

    ``turns`` is shared by all owners of a node: only one at a time takes a step that passes nothing
    on, because concurrent transactions delay those that do.
    """

    def __init__(
        self,
        name: str,
        partition: int,
        scanner: Scanner,
        book: LayoutBook,
        clock: Clock,
        turns: threading.Lock,
    ) -> None:
        self._turns = turns
        self._name = name
        self._partition = partition
        self._scanner = scanner
        self._budget = scanner.planner.budget
        self._book = book
        self._clock = clock
        self._wanted = threading.Condition()
        self._inbox: deque[tuple[Sequence[LogRecord], int | None]] = deque()
        self._announcements: deque[tuple[Outgoing, Future[None]]] = deque()
        self._inbox_records = 0
        self._stopping = False
        self._starting: Future[StartPosition] | None = None
        self._stepped_ms = -math.inf
        self.has_begun = False
        """True if no earlier owner's transaction can take effect, and no step has failed since."""
        self.ended: Future[None] = Future()

    def start(self, start: Start, begun: Callable[[], None] = lambda: None) -> None:
        """Begin on a thread of its own; call ``begun`` once earlier owners are fenced."""
        self._start = start
        self._tell_begun = begun
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def take(self, records: Sequence[LogRecord], reached: int | None) -> int:
        """Hand over records that were read; return their bytes."""
        size_bytes = sum(map(record_bytes, records))
        with self._wanted:
            self._budget.hand_over(size_bytes)
            self._inbox.append((records, reached))
            self._inbox_records += len(records)
            self._wanted.notify()
        return size_bytes

    def stop(self) -> None:
        """Finish the step under way and end."""
        with self._wanted:
            self._stopping = True
            if self._starting is not None:
                # The thread that would answer may be the one that waits for the end.
                self._starting.cancel()
            self._wanted.notify()

    def announce(self, record: Outgoing) -> bool:
        """Produce a record in a transaction of this partition; False if it is not owned."""
        done: Future[None] = Future()
        with self._wanted:
            if self._stopping:
                return False
            self._announcements.append((record, done))
            self._wanted.notify()
        try:
            done.result(_ANNOUNCE_S)
        except (Fenced, CancelledError, FutureTimeoutError):
            return False
        return True

    @property
    def fullness(self) -> float:
        """Records in memory as a share of the limit; from 1 on no more should be read."""
        return max(self._scanner.planner.fullness, self._inbox_records / _INBOX_RECORDS_MAX)

    @property
    def count(self) -> int:
        """Number of records in memory that are not done."""
        return self._scanner.planner.count + self._inbox_records

    def overdue_ms(self) -> float:
        """Return for how long its next step is overdue, in milliseconds; 0 if none is."""
        try:
            next_ms = self._scanner.planner.next_ms()
        except IndexError:
            # The owning thread took the last record meanwhile.
            return 0.0
        return max(0.0, self._clock.now_ms() - next_ms) if next_ms else 0.0

    def _run(self) -> None:
        pause_s, marker = _PAUSE_S, self._scanner.planner.marker
        try:
            while not self._stopping:
                shortest_s = 0.0
                try:
                    self._scanner.begin(self._begun)
                    self.has_begun = True
                    self._tell_begun()
                    self._tell_begun = _tell_nobody
                    self._work()
                except Fenced:
                    # Usually this owner is told to end a moment later; if not, there is no other
                    # owner.
                    logger.warning("%s: another owner began", self._name)
                    shortest_s = _FENCED_PAUSE_S
                except CancelledError:
                    return
                except (HourhandError, FutureTimeoutError) as error:
                    logger.warning("%s begins again: %s", self._name, error)
                except Exception:
                    logger.exception("%s begins again; please report", self._name)
                self.has_begun = False
                if marker != (marker := self._scanner.planner.marker):
                    pause_s = _PAUSE_S
                self._pause(max(pause_s, shortest_s))
                pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
        finally:
            self._end()

    def _begun(self, stored: Marker | None) -> StartPosition:
        started = self._start(self._partition, stored)
        with self._wanted:
            self._starting = started
            if self._stopping:
                started.cancel()
        return started.result(_START_S)

    def _work(self) -> None:
        while True:
            with self._wanted:
                self._wanted.wait_for(self._is_wanted, self._wait_s())
                if self._stopping:
                    return
                while self._inbox:
                    records, reached = self._inbox.popleft()
                    self._scanner.planner.take(records, reached)
                self._inbox_records = 0
                self._budget.take_over()
                announcement = self._announcements.popleft() if self._announcements else None
            if announcement is not None:
                self._announce(*announcement)
            if self._wait_ms() == 0:
                self._step_in_turn()

    def _step_in_turn(self) -> None:
        if self._scanner.planner.passes_on(self._clock.now_ms()):
            self._step()
        elif self._turns.acquire(timeout=_TURN_S):
            try:
                self._step()
            finally:
                self._turns.release()

    def _step(self) -> None:
        if self._scanner.step(self._book.current):
            self._stepped_ms = self._clock.monotonic_ms()

    def _is_wanted(self) -> bool:
        return self._stopping or bool(self._inbox) or bool(self._announcements)

    def _wait_s(self) -> float | None:
        left_ms = self._wait_ms()
        # Checked at least each second: the wall clock may be set.
        return None if left_ms is None else min(1.0, left_ms / 1000)

    def _wait_ms(self) -> float | None:
        planner = self._scanner.planner
        return wait_ms(
            planner.next_ms(),
            planner.first_due_ms(),
            self._clock.now_ms(),
            self._clock.monotonic_ms() - self._stepped_ms,
            planner.gather_ms,
        )

    def _settle(self) -> None:
        left_ms = self._stepped_ms + SETTLE_MS - self._clock.monotonic_ms()
        if left_ms > 0:
            pause(left_ms / 1000)

    def _announce(self, record: Outgoing, done: "Future[None]") -> None:
        self._settle()
        try:
            self._scanner.announce(record)
        except BaseException as error:
            done.set_exception(error)
            raise
        done.set_result(None)
        self._stepped_ms = self._clock.monotonic_ms()

    def _pause(self, pause_s: float) -> None:
        with self._wanted:
            self._wanted.wait_for(lambda: self._stopping, pause_s)

    def _end(self) -> None:
        with self._wanted:
            self._stopping = True
            while self._announcements:
                self._announcements.popleft()[1].cancel()
        self._scanner.close()
        self._budget.end()
        self.ended.set_result(None)


def _tell_nobody() -> None:
    """Replace the callback after it was called."""
