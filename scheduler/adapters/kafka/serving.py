"""A producer whose acknowledgements are served by one thread at a time, and that gathers records of
groups for the driver.

Decides which thread serves: one that appends steadily or waits for its own records serves all, else
a thread of this module. On another thread each acknowledgement would cost a change of threads,
which reduces a busy producer's rate to a fraction. Decides also the replacement of a driver that
fails for good: see ``ServedProducer``.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.values.errors import HourhandError, LogUnavailable, NodeStopped
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.kafka.calls_within import CallsWithin

Delivered = Callable[[KafkaError | None, Any], None]
"""Gets the driver's report of a record: its error or None, and the record."""

ANY_PARTITION = -1
"""Leaves the choice to the producer's partitioner."""

Refused = Callable[[bytes, HourhandError], None]
"""Gets the value of a record that the driver never got, and the error."""
_Held = tuple[str, bytes, bytes, Delivered, Refused]
"""A record's topic, value and key, and its listeners; a tuple, because one is made for each
record."""

HOLD_MS = 50
"""Longest wait of a record of a group for others. The driver sends the records that a partition got
within its linger as one request, which costs a broker about as much as one record."""
HELD_RECORDS_MAX = 1_000
_POLL_S = 0.1
_WAIT_S = 0.02
"""Interval of checks of a thread that waits for its own records, which another may serve."""
_FULL_QUEUE_WAIT_S = 0.01
_PAUSE_S = 0.003
"""Interval of checks of the polling thread: not longer than a record lingers anyway."""
_APPENDS_PER_SERVE = 50
_LASTED_MS = 30_000
"""A producer that worked for this time is replaced at once; others after a growing pause."""
_REOPEN_PAUSE_S_MIN = 0.1
_REOPEN_PAUSE_S_MAX = 10.0
_PURGE_S = 5.0
"""Longest wait for the reports of records that were taken out of a driver's queues."""

logger = logging.getLogger("hourhand.kafka")


class ServedProducer:
    """Produces from any thread; delivery callbacks never run in two threads at a time.

    Held records keep their place: records that are produced later go to the driver after them.

    An idempotent producer may fail for good: for example, if a partition's leader lost the end of
    its log, the driver cannot know which records are stored. It then takes no record for any topic.
    Such a driver is replaced; its unreported records fail, and may be stored or not.
    """

    def __init__(
        self,
        open_driver: Callable[[], Producer],
        failure: Callable[[KafkaError, str], HourhandError],
        room_timeout_s: float,
        clock: Clock,
    ) -> None:
        """``failure`` translates an error about a topic; ``room_timeout_s`` bounds the wait for
        room in the driver's queue.
        """
        self._open_driver = open_driver
        self._failure = failure
        self._room_timeout_s = room_timeout_s
        self._clock = clock
        self._held: deque[_Held] = deque()
        """The next records for the driver: any thread adds to its end; ``_taking`` guards its
        start."""
        self._held_since_ms = self._handed_ms = clock.monotonic_ms() - HOLD_MS
        self._appended = 0
        self._waiting = 0
        self._closed = False
        # A record is either taken or refused: none comes after the last flush, and none gets into a
        # driver that is being replaced.
        self._taking = threading.Lock()
        self._calls = CallsWithin()
        # Held while callbacks run, and by a thread that replaces the driver while it serves.
        self._serving = threading.RLock()
        self._stopped = threading.Event()
        self._given_up: Any = None
        """The driver that failed for good, until it is replaced."""
        self._pause_s = 0.0
        self._reopens_ms = 0.0
        self._use(open_driver())
        self._poller = threading.Thread(target=self._poll, name="hourhand-producer", daemon=True)
        self._poller.start()

    @property
    def driver(self) -> Any:
        """The current driver; another one after the next failure for good."""
        return self._driver

    def _use(self, driver: Any) -> None:
        self._driver = driver
        self._produce = driver.produce
        self._opened_ms = self._clock.monotonic_ms()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        delivered: Delivered,
        headers: Headers = (),
    ) -> None:
        """Take a record, for which ``delivered`` gets the report; a full queue slows the caller.

        Raises NodeStopped when closed, LogUnavailable and the errors of ``failure``; then there
        will be no report.
        """
        if self._held:
            self.hand_over()
        waited_s = 0.0
        while True:
            with self._taking:
                self._refuse_when_closed()
                try:
                    if headers:
                        self._produce(
                            topic, value, key, partition, delivered, headers=list(headers)
                        )
                    else:
                        self._produce(topic, value, key, partition, delivered)
                    break
                except BufferError:
                    fatal = None
                except KafkaException as error:
                    if not _is_fatal(error.args[0]):
                        raise self._failure(error.args[0], topic) from error
                    fatal, failed = error, self._driver
            if fatal is None:
                waited_s = self._wait_for_room(waited_s)
            else:
                self._replace(failed, fatal.args[0])
                if self._driver is failed:
                    raise self._failure(fatal.args[0], topic) from fatal
        self._appended += 1
        if not self._appended % _APPENDS_PER_SERVE:
            self.serve(0.0)

    def hold(
        self, topic: str, value: bytes, key: bytes, delivered: Delivered, refused: Refused
    ) -> None:
        """Take a record, of any partition, that the driver may get later: with many others, or
        after ``HOLD_MS``.

        Raises as ``produce`` does if it is not taken. A taken record that the driver then refuses
        is passed to ``refused``, on any thread.
        """
        held = self._held
        if len(held) >= HELD_RECORDS_MAX:
            self.hand_over()
        if not held:
            self._refuse_when_closed()
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._handed_ms >= HOLD_MS:
                # In a slow stream no further records are waited for.
                self._handed_ms = now_ms
                self.produce(topic, value, key, ANY_PARTITION, delivered)
                return
            self._held_since_ms = now_ms
        held.append((topic, value, key, delivered, refused))

    def hand_over(self) -> None:
        """Give the driver all held records.

        Raises NodeStopped, LogUnavailable and the error of ``failure`` for a failure for good; then
        all held records get it.
        """
        waited_s, waiting = 0.0, None
        try:
            while (first := self._take_held()) is not None:
                # It is another record than before: some were given to the driver meanwhile.
                waited_s = self._wait_for_room(waited_s if first is waiting else 0.0)
                waiting = first
        except HourhandError as error:
            self._refuse_held(error)
            raise
        self.serve(0.0)

    def _take_held(self) -> _Held | None:
        """Give the driver the records that it has room for; return the first one without room."""
        held = self._held
        with self._taking:
            if held:
                self._refuse_when_closed()
            before, failed = len(held), self._driver
            self._handed_ms = self._clock.monotonic_ms()
            produce = self._produce
            while held:
                topic, value, key, delivered, refused = first = held[0]
                try:
                    produce(topic, value, key, ANY_PARTITION, delivered)
                except BufferError:
                    return first
                except KafkaException as error:
                    why = error.args[0]
                    if _is_fatal(why):
                        break
                    refused(value, self._failure(why, topic))
                held.popleft()
            else:
                self._appended += before
                return None
        self._replace(failed, why)
        if self._driver is failed:
            raise self._failure(why, topic)
        return self._take_held()

    def _try_hand_over(self) -> None:
        """Give the driver held records as far as it has room, from a thread that cannot wait."""
        try:
            self._take_held()
        except HourhandError as error:
            self._refuse_held(error)

    def _refuse_held(self, error: HourhandError) -> None:
        with self._taking:
            while self._held:
                _topic, value, _key, _delivered, refused = self._held.popleft()
                refused(value, error)

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise NodeStopped("the log was closed; open a new client to schedule tasks")

    def _wait_for_room(self, waited_s: float) -> float:
        if waited_s >= self._room_timeout_s:
            raise LogUnavailable(
                f"no room for a record within {waited_s:.0f} s: Kafka acknowledges nothing"
            )
        self.serve(_FULL_QUEUE_WAIT_S)
        return waited_s + _FULL_QUEUE_WAIT_S

    def serve(self, wait_s: float) -> None:
        """Serve existing reports, or wait for the first; only one thread at a time does."""
        with self._turn(wait_s) as is_ours:
            driver = self._driver
            try:
                if is_ours:
                    self._calls.call(driver.poll, wait_s)
            except KafkaException as error:
                self._replace(driver, error.args[0])

    @contextmanager
    def _turn(self, timeout_s: float = -1) -> Iterator[bool]:
        """Wait until no other thread serves; yield True if none does.

        A callback has the turn of the thread that it holds up, which need not be its own.
        """
        if self._calls.are_within:
            yield True
            return
        is_ours = self._serving.acquire(timeout=timeout_s)
        try:
            yield is_ours
        finally:
            if is_ours:
                self._serving.release()

    def serve_until(self, settled: Callable[[], bool]) -> None:
        """Serve until the caller's records are settled, which the driver bounds."""
        with self._taking:
            self._waiting += 1
        try:
            while not settled():
                self.serve(_WAIT_S)
        finally:
            with self._taking:
                self._waiting -= 1

    def flush(self, timeout_s: float) -> int:
        """Wait for acknowledgements; return the number that is missing."""
        self._try_hand_over()
        with self._turn(timeout_s) as is_ours:
            driver = self._driver
            try:
                if is_ours:
                    left = self._calls.call(_report_all, driver, self._clock, timeout_s)
                    return left + len(self._held)
            except KafkaException as error:
                self._replace(driver, error.args[0])
            return len(self._driver) + len(self._held)

    def close(self, timeout_s: float) -> None:
        """Take no more records and flush for ``timeout_s``; unacknowledged ones then fail."""
        if not self._closed:
            self._try_hand_over()
        with self._taking:
            if self._closed:
                return
            self._closed = True
        self._try_hand_over()
        self._stopped.set()
        self._poller.join()
        if self.flush(timeout_s):
            self._calls.call(self._driver.purge)
            self.flush(1.0)

    def _poll(self) -> None:
        """Serve unless another thread does."""
        seen = 0
        while not self._stopped.wait(_PAUSE_S):
            steady = self._appended - seen > _APPENDS_PER_SERVE
            seen = self._appended
            try:
                if self._held:
                    # A thread that feeds the driver serves it, unless it has stopped.
                    if self._clock.monotonic_ms() - self._held_since_ms >= HOLD_MS:
                        self._try_hand_over()
                        self.serve(0.0)
                elif not steady and not self._waiting:
                    self.serve(_POLL_S)
            except BaseException:
                # Futures shield this thread from their callbacks; after any other error it must go
                # on, or no record would be reported again.
                logger.exception("serving reports failed and goes on; please report this")

    # Replacement after a failure for good.

    def _replace(self, failed: Any, why: KafkaError) -> None:
        """Fail the pending records of a driver that failed for good, and open another one.

        The first thread that meets the failure does it. A driver that did not work for long stays
        for a while, and refuses records.
        """
        with self._turn():
            with self._taking:
                if self._driver is not failed:
                    return
                found = self._given_up is not failed
                if found:
                    self._give_up(failed, why)
                if not self._closed and self._clock.monotonic_ms() >= self._reopens_ms:
                    self._reopen()
            # The new driver takes records that the callbacks append now.
            if found:
                self._calls.call(_fail_outstanding, failed, self._clock)

    def _give_up(self, failed: Any, why: KafkaError) -> None:
        now_ms = self._clock.monotonic_ms()
        lasted = now_ms - self._opened_ms >= _LASTED_MS or not self._reopens_ms
        grown_s = max(2 * self._pause_s, _REOPEN_PAUSE_S_MIN)
        self._pause_s = 0.0 if lasted else min(grown_s, _REOPEN_PAUSE_S_MAX)
        self._reopens_ms = now_ms + 1000 * self._pause_s
        self._given_up = failed
        logger.warning(
            "the Kafka driver gave up a producer: %s; what it had not acknowledged fails, and"
            " another one is opened in %.1f s",
            why.str(),
            self._pause_s,
        )

    def _reopen(self) -> None:
        try:
            self._use(self._open_driver())
        except Exception:
            # Perhaps the machine has no room for a thread; the next record tries again.
            self._reopens_ms = self._clock.monotonic_ms() + 1000 * _REOPEN_PAUSE_S_MAX
            logger.exception("no new Kafka producer could be opened; it is tried again")
        else:
            self._given_up = None


def _is_fatal(error: KafkaError) -> bool:
    return bool(error.fatal()) or error.code() == KafkaError._FATAL


def _report_all(driver: Any, clock: Clock, timeout_s: float) -> int:
    """Serve until everything is reported, for a bounded time; return the number of missing reports.

    The driver's own ``flush`` loses reports: it continues with them after its failure for good,
    which Python's driver keeps as a pending exception.
    """
    ends_ms = clock.monotonic_ms() + 1000 * timeout_s
    while (left := len(driver)) and (wait_ms := ends_ms - clock.monotonic_ms()) > 0:
        driver.poll(min(wait_ms / 1000, _POLL_S))
    return left


def _fail_outstanding(driver: Any, clock: Clock) -> None:
    """Make the driver report all records that it was given."""
    driver.purge()
    for _ in range(2):
        try:
            left = _report_all(driver, clock, _PURGE_S)
        except KafkaException:
            # It reports its failure once, in place of the requested reports.
            continue
        if left:
            logger.error("%d records were never reported by a given up producer", left)
        return
