"""Sends small writes of several calls as one request.

A request costs this process and the coordinator several times the cost of a row, and if tasks come
one by one each partition of the log writes a row or two at a time. So during a small write further
ones wait for its answer, or for ``WAIT_S``, and then go together; without one under way a write
goes at once. Each is still a mutation of its own, and failures are reported for its own statements,
as if it had been sent alone. It decides only the grouping; it never retries.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hourhand.scheduler.adapters.cassandra.packing import PackedBatch, joined
from hourhand.scheduler.adapters.cassandra.sender import Ended, Failure, send

WAIT_S = 0.025
"""Longest wait for an answer, so that a delayed request delays others only for this time."""
STATEMENTS_MAX = 10
"""Limit for one request; Cassandra warns above it
(``unlogged_batch_across_partitions_warn_threshold``)."""
BYTES_MAX = 5 * 1024
"""Limit for one request; Cassandra warns above it (``batch_size_warn_threshold``)."""

After = Callable[[float, Callable[[], None]], object]
"""Calls a function once after a number of seconds; the function must not block."""


class _Write(NamedTuple):
    """The statements of one call."""

    batches: Sequence[PackedBatch]
    ended: Ended

    @property
    def size_bytes(self) -> int:
        return sum(len(each.rows.packed) for each in self.batches)


def is_small(statements: Sequence[Any]) -> bool:
    """True if a call's statements are few and short enough to go with those of other calls."""
    return 0 < len(statements) <= STATEMENTS_MAX and (
        all(isinstance(each, PackedBatch) for each in statements)
        and sum(len(each.rows.packed) for each in statements) <= BYTES_MAX
    )


class Joiner:
    """The small writes of one session; used from any thread."""

    def __init__(self, session: Any, after: After) -> None:
        self._session = session
        self._after = after
        self._lock = threading.Lock()
        self._waiting: deque[_Write] = deque()
        self._in_flight = 0
        self._sending = False
        self._alarm_set = False

    def write(self, batches: Sequence[PackedBatch], ended: Ended) -> None:
        """Send small statements; returns at once, and calls ``ended`` exactly once."""
        with self._lock:
            self._waiting.append(_Write(batches, ended))
        self._send_waiting()

    def _send_waiting(self, *, at_once: bool = False) -> None:
        """Send all waiting writes, unless an answer is awaited; one thread at a time does.

        A request that fails at once ends inside of this: if it sent the next one, many failures
        would end in a deep recursion.
        """
        while True:
            with self._lock:
                if self._sending or not self._waiting:
                    return
                if self._in_flight and not at_once:
                    set_alarm, self._alarm_set = not self._alarm_set, True
                    break
                self._sending = True
                requests = self._taken()
                self._in_flight += len(requests)
            for request in requests:
                self._send(request)
            at_once = False
            with self._lock:
                self._sending = False
        if set_alarm:
            self._after(WAIT_S, self._stop_waiting)

    def _taken(self) -> list[list[_Write]]:
        """Return all waiting writes, cut into requests, in the order of the calls."""
        requests: list[list[_Write]] = []
        statements = size_bytes = 0
        while self._waiting:
            write = self._waiting.popleft()
            statements += len(write.batches)
            size_bytes += write.size_bytes
            if not requests or statements > STATEMENTS_MAX or size_bytes > BYTES_MAX:
                requests.append([])
                statements, size_bytes = len(write.batches), write.size_bytes
            requests[-1].append(write)
        return requests

    def _send(self, writes: Sequence[_Write]) -> None:
        def ended(failures: Sequence[Failure]) -> None:
            with self._lock:
                self._in_flight -= 1
            if len(writes) == 1:
                writes[0].ended(failures)
            else:
                for write in writes:
                    write.ended([Failure(b, f.error) for b in write.batches for f in failures])
            self._send_waiting()

        if len(writes) == 1:
            send(self._session, writes[0].batches, ended)
        else:
            batches = [batch for write in writes for batch in write.batches]
            send(self._session, [joined(batches)], ended)

    def _stop_waiting(self) -> None:
        with self._lock:
            self._alarm_set = False
        self._send_waiting(at_once=True)
