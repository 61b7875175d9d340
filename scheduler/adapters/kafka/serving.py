"""A producer whose acknowledgements are served by one thread at a time.

Decides which thread that is: whoever appends steadily or waits for its own records serves all
of them, else a thread of this module.  Left to another thread, each acknowledgement costs a
change of threads, and the rate of a busy producer is a fraction.
"""

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from actors.model.codec import Headers
from actors.model.errors import HourhandError, LogUnavailable, NodeStopped

Delivered = Callable[[KafkaError | None, Any], None]
"""Takes the driver's report of a record: its error or None, and the record."""

ANY_PARTITION = -1
"""Leaves the choice to the producer's partitioner."""

_POLL_S = 0.1
_WAIT_S = 0.02
"""Between two looks of a thread that waits for its own records, which another may serve."""
_FULL_QUEUE_WAIT_S = 0.01
_PAUSE_S = 0.003
"""Between two looks of the polling thread: not longer than a record lingers anyway."""
_APPENDS_PER_SERVE = 50


class ServedProducer:
    """Produces from any thread; delivery callbacks never run in two threads at a time."""

    def __init__(
        self,
        driver: Producer,
        failure: Callable[[KafkaError, str], HourhandError],
        room_timeout_s: float,
    ) -> None:
        """``failure`` translates an error about a topic; ``room_timeout_s`` bounds the wait
        for room in the driver's queue.
        """
        self._driver: Any = driver
        self._produce = self._driver.produce
        self._failure = failure
        self._room_timeout_s = room_timeout_s
        self._appended = 0
        self._waiting = 0
        self._closed = False
        # A record is taken or refused, with nothing in between: none comes after the last flush.
        self._taking = threading.Lock()
        # Held while callbacks run, which may append and serve themselves, hence reentrant.
        self._serving = threading.RLock()
        self._stopped = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="hourhand-producer", daemon=True)
        self._poller.start()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        delivered: Delivered,
        headers: Headers = (),
    ) -> None:
        """Take a record, whose report ``delivered`` hears; a full queue slows the caller.

        Raises NodeStopped when closed, LogUnavailable and what ``failure`` makes of errors;
        then there will be no report.
        """
        waited_s = 0.0
        while True:
            with self._taking:
                if self._closed:
                    raise NodeStopped("the log was closed; open a new client to schedule tasks")
                try:
                    if headers:
                        self._produce(
                            topic, value, key, partition, delivered, headers=list(headers)
                        )
                    else:
                        self._produce(topic, value, key, partition, delivered)
                    break
                except BufferError:
                    pass
                except KafkaException as error:
                    raise self._failure(error.args[0], topic) from error
            waited_s = self._wait_for_room(waited_s)
        self._appended += 1
        if not self._appended % _APPENDS_PER_SERVE:
            self.serve(0.0)

    def _wait_for_room(self, waited_s: float) -> float:
        if waited_s >= self._room_timeout_s:
            raise LogUnavailable(
                f"no room for a record within {waited_s:.0f} s: Kafka acknowledges nothing"
            )
        self.serve(_FULL_QUEUE_WAIT_S)
        return waited_s + _FULL_QUEUE_WAIT_S

    def serve(self, wait_s: float) -> None:
        """Serve what is there, or wait for the first; another thread that does so is enough."""
        if self._serving.acquire(timeout=wait_s):
            try:
                self._driver.poll(wait_s)
            finally:
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
        """Wait for acknowledgements; return how many are still to come."""
        if not self._serving.acquire(timeout=timeout_s):
            return len(self._driver)
        try:
            return int(self._driver.flush(timeout_s))
        finally:
            self._serving.release()

    def close(self, timeout_s: float) -> None:
        """Take nothing more and flush for so long; what is unacknowledged then fails."""
        with self._taking:
            if self._closed:
                return
            self._closed = True
        self._stopped.set()
        self._poller.join()
        if self.flush(timeout_s):
            self._driver.purge()
            self.flush(1.0)

    def _poll(self) -> None:
        """Serve unless somebody else does."""
        seen = 0
        while not self._stopped.wait(_PAUSE_S):
            steady = self._appended - seen > _APPENDS_PER_SERVE
            seen = self._appended
            if not steady and not self._waiting:
                self.serve(_POLL_S)
