"""What becomes of a write or look-up that fails: tried again, explained, or handed on as it is."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from cassandra import InvalidRequest, OperationTimedOut, Unauthorized
from cassandra.cluster import NoHostAvailable

from hourhand.actors.model.values.errors import (
    NodeStopped,
    PoisonRecord,
    SchemaMissing,
    StoreUnavailable,
)
from hourhand.scheduler.adapters.cassandra.connection import Connection
from hourhand.scheduler.adapters.cassandra.session import TRIES_MAX, CassandraSession
from hourhand.scheduler.configuration.settings import CassandraSettings

TIMED_OUT = OperationTimedOut()
NO_TABLE = InvalidRequest("unconfigured table task_schedule")
BAD_VALUE = InvalidRequest("String didn't validate.")
ANSWER_TIMEOUT_S = 60.0


class Response:
    """An answer that is there already."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def add_callbacks(
        self, callback: Callable[..., None], errback: Callable[..., None], *rest: Any
    ) -> None:
        """Call one of both at once."""
        callback_args, _, errback_args, _ = rest
        if self._error is None:
            callback([], *callback_args)
        else:
            errback(self._error, *errback_args)

    def result(self) -> list[tuple[object, ...]]:
        """Return no rows, or raise."""
        if self._error is not None:
            raise self._error
        return []


class Driver:
    """A session and a cluster that answer each statement with the next of its errors."""

    def __init__(self) -> None:
        self.errors: dict[object, list[Exception]] = {}
        self.sent: list[object] = []
        self.default_fetch_size = 0

    def execute_async(self, statement: object) -> Response:
        """Answer with the next error; without one, well."""
        self.sent.append(statement)
        left = self.errors.get(statement)
        return Response(left.pop(0) if left else None)

    def shutdown(self) -> None:
        """Do nothing: there is no connection."""


@pytest.fixture
def driver() -> Driver:
    """Return a driver without errors."""
    return Driver()


@pytest.fixture
def session(driver: Driver) -> Iterator[CassandraSession]:
    """Return a session on it, closed after the test."""
    session = CassandraSession(Connection(driver, driver), CassandraSettings())
    yield session
    session.close()


def error_of(future: "Future[None]") -> BaseException | None:
    """Return what the future fails with."""
    return future.exception(ANSWER_TIMEOUT_S)


def test_a_write_that_succeeds_is_sent_once(driver: Driver, session: CassandraSession) -> None:
    """All of its statements; it needs no thread, so here the answer is there at once."""
    future = session.write(["a", "b"])
    assert future.done()
    assert error_of(future) is None
    assert driver.sent == ["a", "b"]


def test_only_what_failed_is_tried_again(driver: Driver, session: CassandraSession) -> None:
    """For a reason that may pass; the second try succeeds."""
    driver.errors = {"b": [TIMED_OUT], "d": [NoHostAvailable("all are down", {})]}
    assert error_of(session.write("abcde")) is None
    assert sorted(map(str, driver.sent)) == ["a", "b", "b", "c", "d", "d", "e"]


def test_a_reason_that_does_not_pass_is_given_up(driver: Driver, session: CassandraSession) -> None:
    """After as many tries as a read has, the first one counted."""
    driver.errors = {"b": [TIMED_OUT] * (TRIES_MAX + 1)}
    error = error_of(session.write("ab"))
    assert isinstance(error, StoreUnavailable)
    assert "OperationTimedOut" in str(error)
    assert driver.sent.count("b") == TRIES_MAX
    assert driver.sent.count("a") == 1


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (NO_TABLE, SchemaMissing),
        (Unauthorized("no MODIFY"), StoreUnavailable),
        (BAD_VALUE, InvalidRequest),
    ],
)
def test_what_no_further_try_mends_is_said_at_once(
    driver: Driver, session: CassandraSession, refusal: Exception, expected: type[Exception]
) -> None:
    """Whatever else failed in the same call, and whichever failed first."""
    driver.errors = {"a": [TIMED_OUT], "b": [refusal]}
    assert type(error_of(session.write("ab"))) is expected
    assert driver.sent == ["a", "b"]


def test_a_statement_that_cannot_be_made_is_the_futures_error(
    driver: Driver, session: CassandraSession
) -> None:
    """Nothing is sent then, not even what was made before."""

    def statements() -> Iterator[str]:
        yield "a"
        raise PoisonRecord("too long")

    assert isinstance(error_of(session.write(statements())), PoisonRecord)
    assert driver.sent == []


def test_a_closed_session_refuses_a_write(driver: Driver, session: CassandraSession) -> None:
    """The future says so, and nothing is sent."""
    session.close()
    assert isinstance(error_of(session.write("a")), NodeStopped)
    assert driver.sent == []


def test_a_write_that_fails_as_the_session_closes_is_not_tried_again(
    driver: Driver, session: CassandraSession
) -> None:
    """It may have happened, so its error is not that of a write that never began."""

    def statements() -> Iterator[str]:
        session.close()
        yield "a"

    driver.errors = {"a": [TIMED_OUT]}
    assert isinstance(error_of(session.write(statements())), StoreUnavailable)
    assert driver.sent == ["a"]


def test_a_look_up_needs_no_thread(driver: Driver, session: CassandraSession) -> None:
    """Its rows are those of each statement, in their order."""
    future = session.look_up(["a", "b"])
    assert future.done()
    assert future.result(0) == [[], []]
    assert driver.sent == ["a", "b"]


def test_a_look_up_that_fails_is_tried_again(driver: Driver, session: CassandraSession) -> None:
    """As a whole, and given up as a write is."""
    driver.errors = {"b": [TIMED_OUT]}
    assert session.look_up("ab").result(ANSWER_TIMEOUT_S) == [[], []]
    assert driver.sent == ["a", "b", "a", "b"]

    driver.errors = {"b": [NO_TABLE]}
    with pytest.raises(SchemaMissing):
        session.look_up("ab").result(ANSWER_TIMEOUT_S)


def test_a_closed_session_refuses_a_look_up(driver: Driver, session: CassandraSession) -> None:
    """The future says so."""
    session.close()
    with pytest.raises(NodeStopped):
        session.look_up("a").result(0)
    assert driver.sent == []
