"""Runs statements: many at a time, retried while the fault may pass, then given up.

A call that reads is one piece of work on a small pool of threads, where it may wait for the driver.
A call that only writes, or looks up a few rows, needs no thread: the driver's event loop takes the
answers and resolves the future, so a caller's callbacks must not wait; failures are retried on the
pool. It decides which errors are retried and for how long; it knows no table.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache, partial
from typing import Any, TypeVar

import tenacity

from hourhand.actors.model.values.errors import NodeStopped
from hourhand.scheduler.adapters.cassandra.connection import (
    Connection,
    serial_level,
    with_protocol,
)
from hourhand.scheduler.adapters.cassandra.faults import PASSING, REFUSALS, refused, unavailable
from hourhand.scheduler.adapters.cassandra.joining import Joiner, is_small
from hourhand.scheduler.adapters.cassandra.sender import REQUESTS_IN_FLIGHT_MAX, Failure, send
from hourhand.scheduler.adapters.cassandra.streaming import streamed
from hourhand.scheduler.configuration.settings import CassandraSettings
from hourhand.scheduler.runtime.light_future import LightFuture, resolve

Result = TypeVar("Result")
Row = tuple[Any, ...]

WORKERS = 32
"""Calls that read, and retried writes, at a time; further ones queue."""
TRIES_MAX = 5
FETCH_ROWS = 500
"""Rows of one answer, of tables whose rows are small; tasks are read by ``pages``."""


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
        self._joiner = Joiner(self._session, self._after)
        self._sessions = lru_cache(self._connect_with)

    def submit(self, work: "Callable[[], Result]") -> "Future[Result]":
        """Run ``work`` on the pool; the future fails with NodeStopped once closed."""

        def work_while_open() -> Result:
            if self._closing.is_set():
                raise NodeStopped("the Cassandra store was closed before this was begun")
            return work()

        try:
            future = self._pool.submit(work_while_open)
        except RuntimeError:
            closed: Future[Result] = Future()
            closed.set_exception(NodeStopped("the Cassandra store was closed already"))
            return closed
        self._remember(future)
        return future

    def write(self, statements: Iterable[Any]) -> "Future[None]":
        """Run statements without rows to answer; the future fails with the errors of
        ``execute_all``.

        An error while the statements are made fails the future as well, and then none is sent.
        """
        future = LightFuture[None]()
        to_send = self._taken(future, statements)
        if to_send is None:
            return future
        ended = partial(self._end_write, future)
        if is_small(to_send):
            self._joiner.write(to_send, ended)
        else:
            send(self._session, to_send, ended)
        return future

    def look_up(self, statements: Iterable[Any]) -> "Future[list[list[Row]]]":
        """Run statements that find at most ``FETCH_ROWS`` rows each; return those of each.

        Fails as ``write``.
        """
        future = LightFuture[list[list[Row]]]()
        to_send = self._taken(future, statements)
        if to_send is None:
            return future
        answers: list[list[Row]] = [[] for _ in to_send]

        def ended(failures: Sequence[Failure]) -> None:
            if failures:
                # All of them are repeated: they are few, and the rows may have changed by then.
                self._try_again(future, to_send, failures[0].error)
            else:
                future.set_result(answers)

        send(self._session, to_send, ended, answers.__setitem__)
        return future

    def prepare(self, cql: str, *, serial: bool = False) -> Any:
        """Prepare a statement that can be repeated without harm.

        ``{keyspace}`` in it is filled in. ``serial`` is for a read that must see every lightweight
        transaction, including one of unknown outcome. Raises SchemaMissing if a table or column is
        missing, StoreUnavailable.
        """
        try:
            statement = self._session.prepare(cql.format(keyspace=self.settings.keyspace))
        except REFUSALS as error:
            raise refused(self.settings, error) from None
        except PASSING as error:
            raise unavailable(self.settings, error) from error
        statement.is_idempotent = True
        if serial:
            statement.consistency_level = serial_level(self.settings)
        return statement

    def execute(self, statement: Any) -> list[Row]:
        """Run one statement and return its rows; waits.  Raises as ``execute_all``."""
        return self.execute_all([statement])[0]

    def scan(self, statement: Any, wanted: Callable[[Row], bool]) -> list[Row]:
        """Run a statement of many rows and return the wanted ones; holds a page of the others.

        Waits. Raises as ``execute_all``.
        """
        return self.execute_all([statement], wanted)[0]

    def execute_all(
        self,
        statements: Sequence[Any],
        wanted: Callable[[Row], bool] | None = None,
        *,
        failure: Exception | None = None,
    ) -> list[list[Row]]:
        """Run statements, several at a time, and return the (wanted) rows of each; waits.

        Statements with temporary failures are run again, after growing pauses; ``failure`` is the
        error of the first try if that was made elsewhere. Raises StoreUnavailable when that did not
        help, SchemaMissing.
        """
        answers: list[list[Row]] = [[] for _ in statements]
        left: Iterable[int] = range(len(statements))
        try:
            for attempt in self._tries(timeouts=1.5 if failure is None else 0.5):
                with attempt:
                    if failure is not None:
                        failed, failure = failure, None
                        raise failed
                    failures = self._run(statements, left, answers, wanted)
                    left = list(failures)
                    if failures:
                        raise failures[left[0]]
        except REFUSALS as error:
            raise refused(self.settings, error) from None
        except PASSING as error:
            raise unavailable(self.settings, error) from error
        return answers

    def stream(
        self, statements: Iterable[Any], protocol: Any = None
    ) -> Iterator[tuple[int, list[Any]]]:
        """Run statements and yield (position, page of its rows), in order; waits.

        ``protocol``, a handler of the driver's, makes a page from the rows; without it a page is a
        list of tuples. One with a temporary failure is requested again. Raises as ``execute_all``.
        """
        try:
            session = self._session if protocol is None else self._sessions(protocol)
            yield from streamed(session, self._tries, statements)
        except REFUSALS as error:
            raise refused(self.settings, error) from None
        except PASSING as error:
            raise unavailable(self.settings, error) from error

    def close(self) -> None:
        """Wait for work in flight, at most one request timeout, then disconnect."""
        with self._lock:
            working = set(self._working)
        wait(working, timeout=self.settings.request_timeout_ms / 1000)
        self._closing.set()
        self._pool.shutdown(wait=False)
        self._cluster.shutdown()

    def _connect_with(self, protocol: Any) -> Any:
        """Return a further session of the driver: each has one handler for all its requests."""
        return with_protocol(self._cluster.connect(), protocol)

    def _run(
        self,
        statements: Sequence[Any],
        chosen: Iterable[int],
        answers: list[list[Row]],
        wanted: Callable[[Row], bool] | None,
    ) -> dict[int, Exception]:
        """Run the chosen statements once; return the failures, by position."""
        failures: dict[int, Exception] = {}
        in_flight: deque[tuple[int, Any]] = deque()

        def settle() -> None:
            position, response = in_flight.popleft()
            try:
                answers[position] = list(
                    filter(wanted, response.result()) if wanted else response.result()
                )
            except PASSING as error:
                failures[position] = error

        for position in chosen:
            if len(in_flight) == REQUESTS_IN_FLIGHT_MAX:
                settle()
            try:
                in_flight.append((position, self._session.execute_async(statements[position])))
            except PASSING as error:
                failures[position] = error
        while in_flight:
            settle()
        return failures

    def _taken(self, future: "Future[Any]", statements: Iterable[Any]) -> list[Any] | None:
        """Return the statements of a new call; None if its future has failed."""
        try:
            if self._closing.is_set():
                raise NodeStopped("the Cassandra store was closed already")
            to_send = list(statements)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the future
            future.set_exception(error)
            return None
        self._remember(future)
        return to_send

    def _end_write(self, future: "Future[Any]", failures: Sequence[Failure]) -> None:
        """Resolve the future of a write, or retry the failed statements."""
        if not failures:
            future.set_result(None)
            return
        # A permanent failure comes first: the caller can act on it.
        error = min((each.error for each in failures), key=lambda each: isinstance(each, PASSING))
        self._try_again(future, [each.statement for each in failures], error)

    def _try_again(
        self, future: "Future[Any]", statements: Sequence[Any], failure: Exception
    ) -> None:
        """Run statements again on the pool; the future gets their rows, or their failure."""
        work = partial(self.execute_all, statements, failure=failure)
        try:
            self._pool.submit(resolve, future, work)
        except RuntimeError:
            future.set_exception(unavailable(self.settings, failure))

    def _tries(self, timeouts: float = 1.5) -> Iterator[tenacity.AttemptManager]:
        # The pauses end early when the store is closed. The delay, in timeouts of a request, bounds
        # the start of the last try: a request that timed out is retried once, and a call fails
        # after two timeouts and a half, well before the tree gives up its batch.
        return iter(
            tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(PASSING),
                stop=tenacity.stop_after_attempt(TRIES_MAX)
                | tenacity.stop_after_delay(timeouts * self.settings.request_timeout_ms / 1000)
                | tenacity.stop_when_event_set(self._closing),
                wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
                sleep=tenacity.sleep_using_event(self._closing),
                reraise=True,
            )
        )

    def _after(self, delay_s: float, call: Callable[[], None]) -> None:
        # The timers of the driver's own event loop, which also gets the answers: no thread wakes.
        self._cluster.connection_class.create_timer(delay_s, call)

    def _remember(self, future: "Future[Any]") -> None:
        with self._lock:
            self._working.add(future)
        future.add_done_callback(self._forget)

    def _forget(self, future: "Future[Any]") -> None:
        with self._lock:
            self._working.discard(future)
