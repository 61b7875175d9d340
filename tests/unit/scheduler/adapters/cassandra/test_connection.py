"""How a connection comes back: soon, however long the server was away; and what its timers hold."""

import weakref
from collections.abc import Callable

from hourhand.scheduler.adapters.cassandra.connection import Alarm
from tests.garbage import cyclic_garbage


class DriversTimer:
    """Stands for a timer of the driver, which keeps what it calls until its time."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        """Do as the driver does: remember it, and stay where it is."""
        self.cancelled = True


class Request:
    """Holds its timer, which is to tell it that no answer came."""

    def __init__(self) -> None:
        self.timed_out = 0
        self.alarm = Alarm(self.time_out)
        self.alarm.timer = DriversTimer(self.alarm.ring)

    def time_out(self) -> None:
        """Count the calls."""
        self.timed_out += 1


def test_an_alarm_rings_once() -> None:
    """The driver calls it when its time has come."""
    request = Request()
    ring = request.alarm.timer.call

    ring()
    ring()

    assert request.timed_out == 1


def test_a_cancelled_alarm_never_rings() -> None:
    """The driver may be about to ring it just then."""
    request = Request()
    timer = request.alarm.timer

    request.alarm.cancel()
    request.alarm.cancel()
    timer.call()

    assert (timer.cancelled, request.timed_out) == (True, 0)


def test_an_answered_request_is_freed_while_its_timer_waits_on() -> None:
    """It takes seconds until the driver comes to a cancelled timer."""
    with cyclic_garbage() as found:
        request = Request()
        timer, known = request.alarm.timer, weakref.ref(request)
        request.alarm.cancel()
        del request

        assert known() is None

    assert not timer.call()
    assert found["Request"] == 0


def test_a_request_that_timed_out_is_freed_as_well() -> None:
    """Its timer is off the driver's heap by then."""
    with cyclic_garbage() as found:
        request = Request()
        known = weakref.ref(request)
        request.alarm.timer.call()
        del request

        assert known() is None

    assert found["Alarm"] == 0
