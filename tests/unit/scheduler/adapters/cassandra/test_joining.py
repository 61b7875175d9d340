"""Which writes go together, and what each of them hears of it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.scheduler.adapters.cassandra.joining import (
    BYTES_MAX,
    STATEMENTS_MAX,
    WAIT_S,
    Joiner,
    is_small,
)
from hourhand.scheduler.adapters.cassandra.packing import (
    PackedBatch,
    PackedRows,
    RowPrefix,
    packed_bigint,
    packed_int,
)
from hourhand.scheduler.adapters.cassandra.sender import Failure
from tests.unit.scheduler.adapters.cassandra.answers import (
    FAILED,
    Driver,
    Ended,
    FailedResponse,
    Response,
)
from tests.unit.scheduler.adapters.cassandra.test_packing import PREPARED


class Alarms:
    """Keeps what is to be called later, for the test to call."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, delay_s: float, call: Callable[[], None]) -> None:
        self.set.append((delay_s, call))


def batch(partition: int, rows: int = 1, row_bytes: int = 100) -> PackedBatch:
    """Return a batch of one hour."""
    prefix = RowPrefix(PREPARED, packed_int(partition), packed_bigint(HOUR_MS))
    return prefix.batch([b"%03d" % partition + b"r" * (row_bytes - 3)] * rows)


def sent_rows(driver: Driver) -> list[PackedRows]:
    """Return the rows of each request."""
    sent: list[Any] = driver.sent
    return [each.rows for each in sent]


@pytest.fixture
def driver() -> Driver:
    """Return a driver whose answers the test gives."""
    return Driver()


@pytest.fixture
def alarms() -> Alarms:
    """Return alarms that the test lets ring."""
    return Alarms()


@pytest.fixture
def joiner(driver: Driver, alarms: Alarms) -> Joiner:
    """Return a joiner on both."""
    return Joiner(driver, alarms)


def test_a_write_goes_at_once_where_none_is_under_way(
    driver: Driver, alarms: Alarms, joiner: Joiner
) -> None:
    """As it is, and with no alarm."""
    first, ended = batch(1), Ended()
    joiner.write([first], ended)
    assert driver.sent == [first]
    driver.responses[0].succeed()
    assert (ended.times, ended.failures, alarms.set) == (1, [], [])


def test_what_waited_for_an_answer_goes_together(driver: Driver, joiner: Joiner) -> None:
    """In the order it came, and each call hears that it ended."""
    calls = [Ended() for _ in range(4)]
    for number, call in enumerate(calls):
        joiner.write([batch(number)], call)
    assert len(driver.sent) == 1
    driver.responses[0].succeed()

    assert [each.number for each in sent_rows(driver)] == [1, 3]
    assert sent_rows(driver)[1].packed == b"".join(batch(each).rows.packed for each in (1, 2, 3))
    assert [call.times for call in calls] == [1, 0, 0, 0]
    driver.responses[1].succeed()
    assert [(call.times, list(call.failures)) for call in calls] == [(1, [])] * 4


def test_what_is_held_up_holds_others_up_for_a_moment_only(
    driver: Driver, alarms: Alarms, joiner: Joiner
) -> None:
    """The alarm sends what waits, once for all of it."""
    calls = [Ended() for _ in range(3)]
    for number, call in enumerate(calls):
        joiner.write([batch(number)], call)
    ((delay_s, ring),) = alarms.set
    assert delay_s == WAIT_S
    ring()
    assert [each.number for each in sent_rows(driver)] == [1, 2]
    driver.responses[1].succeed()
    assert [call.times for call in calls] == [0, 1, 1]

    joiner.write([batch(3)], Ended())
    assert len(alarms.set) == 2
    driver.responses[0].succeed()
    assert len(driver.sent) == 3
    alarms.set[1][1]()
    assert len(driver.sent) == 3


def test_a_request_is_bounded_in_statements(driver: Driver, joiner: Joiner) -> None:
    """What does not fit goes in the next one, at the same time; a call is not torn apart."""
    joiner.write([batch(0)], Ended())
    for number in range(STATEMENTS_MAX):
        joiner.write([batch(number), batch(number + 100)], Ended())
    driver.responses[0].succeed()
    assert [each.number for each in sent_rows(driver)] == [1, 10, 10]


def test_a_request_is_bounded_in_bytes(driver: Driver, joiner: Joiner) -> None:
    """Below what Cassandra warns of."""
    joiner.write([batch(0)], Ended())
    for number in range(4):
        joiner.write([batch(number, rows=2, row_bytes=1_000)], Ended())
    driver.responses[0].succeed()
    assert [each.number for each in sent_rows(driver)] == [1, 4, 4]
    assert all(len(each.packed) <= BYTES_MAX for each in sent_rows(driver))


def test_each_call_hears_of_a_failure_by_its_own_statements(driver: Driver, joiner: Joiner) -> None:
    """So that it tries them again alone: one row that is refused is nobody else's fault."""
    mine, other = batch(1), batch(2)
    calls = [Ended() for _ in range(3)]
    for call, statement in zip(calls, (batch(0), mine, other), strict=True):
        joiner.write([statement], call)
    driver.responses[0].succeed()
    driver.responses[1].fail(FAILED)
    assert calls[1].failures == [Failure(mine, FAILED)]
    assert calls[2].failures == [Failure(other, FAILED)]


def test_writes_that_fail_as_they_are_sent() -> None:
    """Nothing is left waiting, whatever their number."""
    joiner = Joiner(Driver(FailedResponse), Alarms())
    calls = [Ended() for _ in range(5_000)]
    for call in calls:
        joiner.write([batch(1)], call)
    assert [call.times for call in calls] == [1] * len(calls)


@pytest.mark.parametrize(
    ("statements", "small"),
    [
        ([], False),
        (["bound"], False),
        ([batch(1), "bound"], False),
        ([batch(1)], True),
        ([batch(1)] * STATEMENTS_MAX, True),
        ([batch(1)] * (STATEMENTS_MAX + 1), False),
        ([batch(1, 2, BYTES_MAX // 2)], True),
        ([batch(1, 2, BYTES_MAX // 2 + 1)], False),
    ],
)
def test_only_small_writes_are_joined(statements: list[Any], small: bool) -> None:
    """A large one gains nothing, and others would wait for it."""
    assert is_small(statements) is small


def test_threads_write_while_others_answer() -> None:
    """Each call ends once; every row is sent once."""
    unanswered: SimpleQueue[Response | None] = SimpleQueue()

    class WaitingResponse(Response):
        def add_callbacks(self, *arguments: Any) -> None:
            super().add_callbacks(*arguments)
            unanswered.put(self)

    driver, alarms = Driver(WaitingResponse), Alarms()
    joiner = Joiner(driver, alarms)
    calls = [Ended() for _ in range(2_000)]

    def answer() -> None:
        while (response := unanswered.get(timeout=60)) is not None:
            response.succeed()

    with ThreadPoolExecutor(6) as pool:
        answering = [pool.submit(answer) for _ in range(2)]
        writing = [pool.submit(joiner.write, [batch(1)], call) for call in calls]
        for each in writing:
            each.result(timeout=60)
        while sum(call.times for call in calls) < len(calls):
            for _, ring in alarms.set[-1:]:
                ring()
        for _ in answering:
            unanswered.put(None)
    assert [call.times for call in calls] == [1] * len(calls)
    assert sum(each.number for each in sent_rows(driver)) == len(calls)
