"""One file with group commit: requests queue, and one transaction serves many.

It decides only which requests share a transaction. A future resolves after COMMIT, never before.
Reads run beside the writer, on connections of their own, and see all data that was acknowledged
before the request.
"""

import contextlib
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hourhand.actors.model.values.errors import HourhandError
from hourhand.scheduler.adapters.embedded.connection import BUSY_MS, FAILURES, File, open_connection
from hourhand.scheduler.adapters.embedded.seal import Row
from hourhand.scheduler.runtime.light_future import LightFuture

Answer = TypeVar("Answer")
Work = Callable[[sqlite3.Connection], Answer]
Insert = Callable[[sqlite3.Connection, Sequence[Row]], None]
"""Writes rows of one table."""

GROUP_ROWS_MAX = 5_000
"""A transaction takes no further request above this number of rows, which bounds its duration."""
_CLOSE_TIMEOUT_S = 30.0
_LOCK_RETRY_MS = 1
_OUTSIDE = (sqlite3.OperationalError, sqlite3.InternalError)
"""Failures of the file or the machine: the group would fail again."""


@dataclass(slots=True, eq=False)
class _Queued:
    rows: int
    # Running from the start: a caller could not cancel a write on its way to the disk. Shielded
    # from errors of its callbacks, because one thread resolves all futures.
    future: "Future[Any]" = field(default_factory=LightFuture[Any], init=False)


@dataclass(slots=True, eq=False)
class _QueuedWork(_Queued):
    work: Work[Any]


@dataclass(slots=True, eq=False)
class _QueuedSteps(_QueuedWork):
    answer: Any
    """The value to which the last step resolves."""


@dataclass(slots=True, eq=False)
class _QueuedInsertion(_Queued):
    insert: Insert
    given: Sequence[Row]


_AnyQueued = _QueuedWork | _QueuedInsertion


class Database:
    """A writer thread and ``readers`` reading threads on one file.

    ``work`` is called with a connection inside a transaction. It may raise a HourhandError before
    it writes anything, which fails only its own future. Raises the errors of ``open_connection``.
    """

    def __init__(self, file: File, *, readers: int = 0, busy_ms: int = BUSY_MS) -> None:
        self.file = file
        self._busy_ms = busy_ms
        self._connection = open_connection(file)
        # From here on this class waits for the lock: SQLite itself sleeps up to 100 ms between two
        # tries, and loses every race against a process that commits steadily.
        self._connection.execute(f"PRAGMA busy_timeout={_LOCK_RETRY_MS}")
        self._condition = threading.Condition()
        self._queue: deque[_AnyQueued] = deque()
        self._unanswered = 0
        self._closed = False
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._readers = readers
        for _ in range(readers):
            self._idle.put(open_connection(file, read_only=True))
        name = f"hourhand-{file.path.stem}"
        self._pool = ThreadPoolExecutor(readers, f"{name}-reader") if readers else None
        self._thread = threading.Thread(target=self._run, name=f"{name}-writer", daemon=True)
        self._thread.start()

    def write(self, work: Work[Answer], *, rows: int = 1) -> "Future[Answer]":
        """Run ``work`` in the next transaction; the future resolves once that is durable."""
        return self._enqueue(_QueuedWork(rows, work))

    def insert(self, insert: Insert, rows: Sequence[Row]) -> "Future[None]":
        """Write rows by ``insert`` in the next transaction, in one call with those of other
        requests for the same function: a call for each would take far longer.
        """
        return self._enqueue(_QueuedInsertion(len(rows), insert, rows))

    def write_in_steps(self, step: Work[bool], answer: Answer) -> "Future[Answer]":
        """Run ``step`` in one transaction after another until it returns False; resolve to
        ``answer``.

        Other requests are served in between, so a long piece of work delays none of them.
        """
        return self._enqueue(_QueuedSteps(GROUP_ROWS_MAX, step, answer))

    def read(self, work: Work[Answer]) -> "Future[Answer]":
        """Run ``work`` on a reading connection, on one snapshot of the file."""
        assert self._pool is not None, "opened without readers"
        try:
            return self._pool.submit(self._read, work)
        except RuntimeError:
            refused: Future[Answer] = Future()
            refused.set_exception(self.file.closed())
            return refused

    def flush(self, timeout_s: float) -> None:
        """Wait until all writes are answered, but at most ``timeout_s``."""
        with self._condition:
            self._condition.wait_for(lambda: not self._unanswered, timeout_s)

    def close(self) -> None:
        """Answer pending requests, within a bounded time, and close the file."""
        with self._condition:
            if self._closed:
                return
            self._closed = True
            self._condition.notify_all()
        self._thread.join(_CLOSE_TIMEOUT_S)
        if self._pool is not None:
            self._pool.shutdown()
            for _ in range(self._readers):
                self._idle.get().close()

    def _enqueue(self, request: _AnyQueued) -> "Future[Any]":
        with self._condition:
            if not self._closed:
                self._queue.append(request)
                self._unanswered += 1
                self._condition.notify_all()
                return request.future
        request.future.set_exception(self.file.closed())
        return request.future

    def _run(self) -> None:
        while group := self._next_group():
            self._serve(group)
            with self._condition:
                self._unanswered -= len(group)
                self._condition.notify_all()
        self._connection.close()

    def _next_group(self) -> list[_AnyQueued]:
        """Wait for requests; return an empty list once the database is closed and all are
        served.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._queue or self._closed)
            group: list[_AnyQueued] = []
            rows = 0
            while self._queue and rows < GROUP_ROWS_MAX:
                group.append(self._queue.popleft())
                rows += group[-1].rows
            return group

    def _serve(self, group: list[_AnyQueued]) -> None:
        try:
            self._begin()
            answers = self._answers(group)
            if self.file.schema.tally:
                self._connection.execute(self.file.schema.tally)
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - it belongs to the caller of one request
            self._roll_back()
            if len(group) == 1 or isinstance(error, _OUTSIDE):
                self._fail(group, error)
                return
            # One of them cannot be written; each is served alone to find out which.
            for request in group:
                self._serve([request])
            return
        for request, answer in zip(group, answers, strict=True):
            self._resolve(request, answer)

    def _answers(self, group: list[_AnyQueued]) -> list[Any]:
        answers: list[Any] = []
        together: dict[Insert, list[Row]] = {}
        for request in group:
            if isinstance(request, _QueuedInsertion):
                together.setdefault(request.insert, []).extend(request.given)
                answers.append(None)
            else:
                # The next request may read or delete rows that were given so far.
                self._insert(together)
                answers.append(_answered(request.work, self._connection))
        self._insert(together)
        return answers

    def _insert(self, together: dict[Insert, list[Row]]) -> None:
        for insert, rows in together.items():
            insert(self._connection, rows)
        together.clear()

    def _begin(self) -> None:
        waited_ms = 0
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                # SQLite itself has waited before it reports this.
                busy = error.sqlite_errorname.startswith("SQLITE_BUSY")
                if not busy or waited_ms >= self._busy_ms:
                    raise
                waited_ms += _LOCK_RETRY_MS
            else:
                return

    def _roll_back(self) -> None:
        # If even that fails, the next BEGIN reports it, and its group fails as this one does.
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _fail(self, group: list[_AnyQueued], error: Exception) -> None:
        failure = self.file.failure(error) if isinstance(error, FAILURES) else error
        for request in group:
            request.future.set_exception(failure)

    def _resolve(self, request: _AnyQueued, answer: Any) -> None:
        if isinstance(answer, HourhandError):
            request.future.set_exception(answer)
        elif not isinstance(request, _QueuedSteps):
            request.future.set_result(answer)
        elif not answer:
            request.future.set_result(request.answer)
        else:
            with self._condition:
                # Also after ``close``: steps that have begun are finished.
                self._queue.append(request)
                self._unanswered += 1

    def _read(self, work: Work[Answer]) -> Answer:
        connection = self._idle.get()
        try:
            connection.execute("BEGIN")
            return work(connection)
        except FAILURES as error:
            raise self.file.failure(error) from error
        finally:
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            self._idle.put(connection)


def _answered(work: Work[Any], connection: sqlite3.Connection) -> Any:
    try:
        return work(connection)
    except HourhandError as refusal:
        return refusal
