"""How statements are sent: as many at a time as there is room for, each call ended once."""

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from hourhand.scheduler.adapters.cassandra.sender import REQUESTS_IN_FLIGHT_MAX, Failure, send
from tests.unit.scheduler.adapters.cassandra.answers import (
    FAILED,
    Driver,
    Ended,
    FailedResponse,
    Response,
)


def test_statements_wait_until_there_is_room() -> None:
    """In the order they came."""
    driver, ended = Driver(), Ended()
    send(driver, range(REQUESTS_IN_FLIGHT_MAX + 2), ended)
    assert driver.sent == [*range(REQUESTS_IN_FLIGHT_MAX)]

    driver.responses[3].succeed()
    assert driver.sent == [*range(REQUESTS_IN_FLIGHT_MAX + 1)]
    driver.responses[0].fail(FAILED)
    assert driver.sent == [*range(REQUESTS_IN_FLIGHT_MAX + 2)]

    for position in {*range(REQUESTS_IN_FLIGHT_MAX + 2)} - {0, 3}:
        assert ended.times == 0
        driver.responses[position].succeed()
    assert ended.times == 1
    assert ended.failures == [Failure(0, FAILED)]


def test_rows_are_told_by_the_place_of_their_statement() -> None:
    """Before the call ends, in whatever order they come."""
    driver, ended, places = Driver(), Ended(), list[int]()

    def answered(place: int, _rows: object) -> None:
        assert not ended.times
        places.append(place)

    send(driver, ["a", "b", "c"], ended, answered)
    for place in (2, 0, 1):
        driver.responses[place].succeed()
    assert places == [2, 0, 1]
    assert ended.times == 1


def test_calls_do_not_wait_for_one_another() -> None:
    """A call whose answers do not come leaves the room of others alone."""
    driver, stuck, ended = Driver(), Ended(), Ended()
    send(driver, range(2 * REQUESTS_IN_FLIGHT_MAX), stuck)
    send(driver, ["other"], ended)
    driver.responses[-1].succeed()
    assert (stuck.times, ended.times) == (0, 1)


def test_a_call_ends_with_what_failed_when_the_last_answer_is_there() -> None:
    """The others are not among it."""
    driver, ended = Driver(), Ended()
    send(driver, ["a", "b", "c"], ended)
    driver.responses[1].fail(FAILED)
    driver.responses[2].succeed()
    assert ended.times == 0
    driver.responses[0].succeed()
    assert ended.times == 1
    assert ended.failures == [Failure("b", FAILED)]


def test_a_call_of_nothing_ends_at_once() -> None:
    """There is no answer to wait for."""
    ended = Ended()
    send(Driver(), [], ended)
    assert ended.times == 1
    assert not ended.failures


def test_many_statements_that_fail_as_they_are_sent() -> None:
    """They end inside of one another, and still one after the other."""
    driver, ended = Driver(FailedResponse), Ended()
    send(driver, range(10_000), ended)
    assert ended.times == 1
    assert ended.failures == [Failure(each, FAILED) for each in range(10_000)]


def test_a_driver_that_refuses_a_statement_leaves_room_for_others() -> None:
    """It raises where it should have answered: nothing is lost, nothing is stuck."""

    def refuse() -> Response:
        raise FAILED

    ended = Ended()
    send(Driver(refuse), range(2 * REQUESTS_IN_FLIGHT_MAX), ended)
    assert ended.times == 1
    assert len(ended.failures) == 2 * REQUESTS_IN_FLIGHT_MAX


def test_threads_send_while_others_answer() -> None:
    """Each call ends once, whichever thread sends and whichever answers."""
    unanswered: SimpleQueue[Response] = SimpleQueue()

    class WaitingResponse(Response):
        """An answer that a thread of its own gives, as the driver's event loop does."""

        def add_callbacks(self, *arguments: Any) -> None:
            """Let it be given from now on."""
            super().add_callbacks(*arguments)
            unanswered.put(self)

    calls = [Ended() for _ in range(40)]
    driver = Driver(WaitingResponse)

    def answer() -> None:
        for _ in range(50 * len(calls) // 2):
            unanswered.get(timeout=30).succeed()

    with ThreadPoolExecutor(6) as pool:
        answering = [pool.submit(answer) for _ in range(2)]
        for call in calls:
            pool.submit(send, driver, range(50), call)
        for each in answering:
            each.result(timeout=60)
    assert [call.times for call in calls] == [1] * len(calls)


def test_a_statement_told_of_twice_ends_no_other() -> None:
    """The driver tells that it timed out, and then of the answer to a try it was just making."""
    driver, ended, places = Driver(), Ended(), list[int]()
    send(driver, ["a", "b"], ended, lambda place, _rows: places.append(place))

    driver.responses[0].fail(FAILED)
    driver.responses[0].succeed()
    assert (ended.times, places) == (0, [])

    driver.responses[1].succeed()
    driver.responses[1].succeed()
    driver.responses[0].succeed()
    assert (ended.times, places) == (1, [1])
    assert ended.failures == [Failure("a", FAILED)]
