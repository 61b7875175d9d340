"""Runs statements: many at a time, retried while the fault may pass, then given up.

Each call of a store is one piece of work on a small pool of threads.  It may wait there for
the driver; the driver's own event loop never runs any of our code, so a slow callback of a
caller cannot stall it.  It decides what is retried and for how long; it never knows a table.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import tenacity
from cassandra import (
    CDCWriteFailure,
    CoordinationFailure,
    InvalidRequest,
    OperationTimedOut,
    Timeout,
    Unauthorized,
    Unavailable,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException
from cassandra.protocol import (
    ErrorMessage,
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
    ServerError,
    TruncateError,
)

from actors.model.errors import NodeStopped, SchemaMissing, StoreUnavailable
from scheduler.adapters.cassandra.connection import (
    Connection,
    named,
    serial_level,
    without_rights,
)
from scheduler.settings import CassandraSettings

Result = TypeVar("Result")
Row = tuple[Any, ...]

WORKERS = 32
"""Calls of the stores that run at a time; further ones queue."""
REQUESTS_IN_FLIGHT_MAX = 16
"""Requests of one call at a time: more gained nothing when it was measured."""
TRIES_MAX = 5
FETCH_ROWS = 500
"""Rows of one answer, of tables whose rows are small; tasks are read by ``pages``."""

_PASSING = (
    CDCWriteFailure,
    ConnectionBusy,
    ConnectionException,
    CoordinationFailure,
    # What the driver has no name for, such as a lightweight transaction of unknown result.
    ErrorMessage,
    IsBootstrappingErrorMessage,
    NoHostAvailable,
    OperationTimedOut,
    OverloadedErrorMessage,
    ServerError,
    Timeout,
    TruncateError,
    Unavailable,
)


class CassandraSession:
    """A connection, the statements prepared on it, and the work in flight."""

    def __init__(self, connection: Connection, settings: CassandraSettings) -> None:
        self.settings = settings
        self._cluster, self._session = connection
        self._session.default_fetch_size = FETCH_ROWS
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="hourhand-cassandra")
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._working: set[Future[Any]] = set()

    def submit(self, work: "Callable[[], Result]") -> "Future[Result]":
        """Run ``work`` on the pool; the future fails with NodeStopped once closed."""

        def work_while_open() -> Result:
            if self._closing.is_set():
                raise NodeStopped("the Cassandra store was closed before this was begun")
            return work()

        try:
            future = self._pool.submit(work_while_open)
        except RuntimeError:
            refused: Future[Result] = Future()
            refused.set_exception(NodeStopped("the Cassandra store was closed already"))
            return refused
        with self._lock:
            self._working.add(future)
        future.add_done_callback(self._forget)
        return future

    def prepare(self, cql: str, *, serial: bool = False) -> Any:
        """Prepare a statement whose every run may be repeated without harm.

        ``{keyspace}`` in it is filled in.  ``serial`` is for a read that must see every
        lightweight transaction, one of unknown outcome included.  Raises SchemaMissing
        where a table or column is not there, StoreUnavailable.
        """
        try:
            statement = self._session.prepare(cql.format(keyspace=self.settings.keyspace))
        except (InvalidRequest, Unauthorized) as error:
            raise self._refused(error) from None
        except _PASSING as error:
            raise self._unavailable(error) from error
        statement.is_idempotent = True
        if serial:
            statement.consistency_level = serial_level(self.settings)
        return statement

    def execute(self, statement: Any) -> list[Row]:
        """Run one statement and return its rows; waits.  Raises as ``execute_all``."""
        return self.execute_all([statement])[0]

    def scan(self, statement: Any, wanted: Callable[[Row], bool]) -> list[Row]:
        """Run a statement of many rows and return those wanted; holds a page of the others.

        Waits.  Raises as ``execute_all``.
        """
        return self.execute_all([statement], wanted)[0]

    def execute_all(
        self, statements: Sequence[Any], wanted: Callable[[Row], bool] | None = None
    ) -> list[list[Row]]:
        """Run statements, several at a time, and return the (wanted) rows of each; waits.

        Those that failed for a reason that may pass are run again, after growing pauses.
        Raises StoreUnavailable when that did not help, SchemaMissing.
        """
        answers: list[list[Row]] = [[] for _ in statements]
        left: Iterable[int] = range(len(statements))
        try:
            for attempt in self._tries():
                with attempt:
                    failures = self._run(statements, left, answers, wanted)
                    left = list(failures)
                    if failures:
                        raise failures[left[0]]
        except (InvalidRequest, Unauthorized) as error:
            raise self._refused(error) from None
        except _PASSING as error:
            raise self._unavailable(error) from error
        return answers

    def close(self) -> None:
        """Wait for work in flight, at most one request timeout, then disconnect."""
        with self._lock:
            working = set(self._working)
        wait(working, timeout=self.settings.request_timeout_ms / 1000)
        self._closing.set()
        self._pool.shutdown(wait=False)
        self._cluster.shutdown()

    def _run(
        self,
        statements: Sequence[Any],
        chosen: Iterable[int],
        answers: list[list[Row]],
        wanted: Callable[[Row], bool] | None,
    ) -> dict[int, Exception]:
        """Run the chosen statements once; returns what failed, by position."""
        failures: dict[int, Exception] = {}
        in_flight: deque[tuple[int, Any]] = deque()

        def settle() -> None:
            position, response = in_flight.popleft()
            try:
                answers[position] = list(
                    filter(wanted, response.result()) if wanted else response.result()
                )
            except _PASSING as error:
                failures[position] = error

        for position in chosen:
            if len(in_flight) == REQUESTS_IN_FLIGHT_MAX:
                settle()
            try:
                in_flight.append((position, self._session.execute_async(statements[position])))
            except _PASSING as error:
                failures[position] = error
        while in_flight:
            settle()
        return failures

    def _tries(self) -> Iterator[tenacity.AttemptManager]:
        # The pauses end early when the store is closed.  The delay bounds the start of the
        # last try: a request that timed out is tried once more, and a call fails after two
        # timeouts and a half, well before the tree gives up its batch.
        return iter(
            tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(_PASSING),
                stop=tenacity.stop_after_attempt(TRIES_MAX)
                | tenacity.stop_after_delay(1.5 * self.settings.request_timeout_ms / 1000)
                | tenacity.stop_when_event_set(self._closing),
                wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
                sleep=tenacity.sleep_using_event(self._closing),
                reraise=True,
            )
        )

    def _forget(self, future: "Future[Any]") -> None:
        with self._lock:
            self._working.discard(future)

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"Cassandra at {named(self.settings)} failed a request"
            f" ({type(error).__name__}: {error}): check the state of its nodes, its load and"
            f" cassandra.consistency, which is {self.settings.consistency}"
        )

    def _refused(self, error: Exception) -> Exception:
        keyspace = self.settings.keyspace
        if isinstance(error, Unauthorized):
            return without_rights(self.settings, error, "SELECT and MODIFY there")
        text = str(error).lower()
        if any(each in text for each in ("does not exist", "unconfigured table", "undefined")):
            return SchemaMissing(
                f"keyspace {keyspace!r} lacks what this version needs ({error}):"
                " run 'hourhand migrate'"
            )
        return error
