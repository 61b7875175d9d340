"""Sends the statements of a call without a thread that waits for their answers.

A bounded number of them is in flight; the driver's own event loop takes the answers and sends
waiting ones, as its ``execute_concurrent`` does. Calls do not wait for one another, so a slow node
of the cluster delays only its own requests. It decides when a statement is sent; failures are
handed back, and never retried here.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

REQUESTS_IN_FLIGHT_MAX = 16
"""Requests of one call at a time: more gained nothing when it was measured."""


class Failure(NamedTuple):
    """A statement that failed, or whose outcome is unknown."""

    statement: Any
    error: Exception


Ended = Callable[[Sequence[Failure]], None]
"""Called with the failures, an empty list if all succeeded; may run on the driver's event loop,
which it must not block."""

Answered = Callable[[int, Any], None]
"""Called with the rows and the index of their statement; before ``Ended``, on the same threads."""


def send(
    session: Any, statements: Sequence[Any], ended: Ended, answered: Answered | None = None
) -> None:
    """Send statements; returns at once, and calls ``ended`` exactly once."""
    if statements:
        _PendingStatements(session, statements, ended, answered).send_waiting()
    else:
        ended([])


class _PendingStatements:
    """The remaining statements of a call."""

    def __init__(
        self, session: Any, statements: Sequence[Any], ended: Ended, answered: Answered | None
    ) -> None:
        self._session = session
        self._ended = ended
        self._answered = answered
        self._lock = threading.Lock()
        self._waiting = deque(enumerate(statements))
        self._in_flight: set[int] = set()
        """Their indexes: the driver may report one twice, as timed out and as an answer to its own
        retry, and the call must not end before the others do."""
        self._sending = False
        self._failures: list[Failure] = []

    def send_waiting(self) -> None:
        """Send while there is room; one thread at a time does, and then for all of them.

        A statement that fails at once ends inside of ``add_callbacks``: if it sent the next one,
        many failures would end in a deep recursion.
        """
        with self._lock:
            if self._sending:
                return
            self._sending = True
        while True:
            with self._lock:
                if not self._waiting or len(self._in_flight) == REQUESTS_IN_FLIGHT_MAX:
                    self._sending = False
                    return
                position, statement = self._waiting.popleft()
                self._in_flight.add(position)
            try:
                response = self._session.execute_async(statement)
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller must hear of it
                self._failed(error, position, statement)
            else:
                failed = (position, statement)
                response.add_callbacks(self._succeeded, self._failed, (position,), {}, failed, {})

    def _succeeded(self, rows: Any, position: int) -> None:
        self._end_one(position, rows=rows)

    def _failed(self, error: Exception, position: int, statement: Any) -> None:
        self._end_one(position, Failure(statement, error))

    def _end_one(self, position: int, failure: Failure | None = None, rows: Any = None) -> None:
        with self._lock:
            if position not in self._in_flight:
                return
            if failure is not None:
                self._failures.append(failure)
            elif self._answered is not None:
                self._answered(position, rows)
            self._in_flight.remove(position)
            is_last = not self._in_flight and not self._waiting
        if is_last:
            self._ended(self._failures)
        else:
            self.send_waiting()
