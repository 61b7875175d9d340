"""Wrapped ports answer as before, and tell how long it took and what failed."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import msgspec
import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.events import AssignmentReceived, LogCalled, StoreCalled
from hourhand.actors.model.values.errors import LogUnavailable, StoreUnavailable
from hourhand.actors.ports.log import Polled
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.log import MemoryLog
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.observing.counted import MeasuredLog, measured_stores
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import NOW_MS, a_stored_task
from tests.unit.fakes import HeldRequests


def test_a_write_tells_its_rows_and_the_time_until_its_answer() -> None:
    """Not the time until the call returned, which is always short."""
    clock, told, requests = VirtualClock(NOW_MS), RecordingTelemetry(), HeldRequests()
    stores = measured_stores(open_memory_stores(MemoryStores(), requests), clock, told)
    requests.hold("insert_tasks")

    written = stores.schedule.insert_tasks(3, (a_stored_task(), a_stored_task(offset=1)), 7)
    clock.advance(250)
    assert not told.events
    requests.take("insert_tasks")()

    assert written.result(timeout=30) is None
    assert told.events == [StoreCalled("insert_tasks", 2, 250.0)]


def test_what_the_stores_have_beside_them_is_passed_on() -> None:
    """A node opens its log with the id of its installation."""
    opened = msgspec.structs.replace(
        open_memory_stores(MemoryStores()), installation_id=lambda: "an-id"
    )

    stores = measured_stores(opened, VirtualClock(NOW_MS), RecordingTelemetry())

    assert stores.installation_id() == "an-id"
    assert stores.close is opened.close


def test_a_failed_read_tells_its_code() -> None:
    """And fails for whoever asked as it did before."""
    clock, told, requests = VirtualClock(NOW_MS), RecordingTelemetry(), HeldRequests()
    stores = measured_stores(open_memory_stores(MemoryStores(), requests), clock, told)
    requests.hold("find_tasks")

    found = stores.schedule.find_tasks(3, ())
    requests.take("find_tasks").fail(StoreUnavailable("gone"))

    assert isinstance(found.exception(timeout=30), StoreUnavailable)
    assert told.events == [StoreCalled("find_tasks", 0, 0.0, "store-unavailable")]


class _BrokenLog(MemoryLog):
    """Fails to poll while ``broken``."""

    broken = True

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Fail, as a log whose file is gone."""
        if self.broken:
            raise LogUnavailable("the folder is gone")
        return super().poll(records_max, timeout_ms)


class _Listener:
    """Takes what it is given."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def assigned(self, partitions: Sequence[int]) -> None:
        """Take partitions."""
        self.given += partitions

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """Give them up at once."""
        done: Future[Mapping[int, int]] = Future()
        done.set_result({})
        return done

    def lost(self, partitions: Sequence[int]) -> None:
        """Give them up."""


def test_a_log_tells_assignments_and_failed_polls() -> None:
    """And when it was polled last, by which a hang is noticed."""
    clock, told = VirtualClock(NOW_MS), RecordingTelemetry()
    inner = _BrokenLog(MemoryBroker(2, clock), Settings(), clock)
    log, listener = MeasuredLog(inner, clock, told), _Listener()
    log.subscribe(listener)
    clock.advance(5_000)

    with pytest.raises(LogUnavailable):
        log.poll(10, 0)
    assert told.events == [LogCalled("poll", 0.0, "log-unavailable")]
    failures = [log.failure]

    inner.broken = False
    log.poll(10, 0)

    assert listener.given == [0, 1]
    assert told.events[1:] == [AssignmentReceived(0), AssignmentReceived(1)]
    assert [*failures, log.failure] == ["the folder is gone", None]
    assert log.polled_ms == clock.monotonic_ms()
