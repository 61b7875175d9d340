"""The seam: what a simulation can do to a request, seen from the caller and from the data."""

import pytest

from hourhand.actors.model.operations.ownership import initial_watermark
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import OwnershipLost, StoreUnavailable
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores

TASK = StoredTask(TaskKey(1, "id", ""), b"{}", 7)
CUT = StoreUnavailable("cut off")


class Held:
    """Keeps every request."""

    def __init__(self) -> None:
        self.requests: list[Request[object]] = []

    def __call__(self, request: Request[object]) -> None:
        """Keep it."""
        self.requests.append(request)


@pytest.fixture
def data() -> MemoryStores:
    """What two views share."""
    return MemoryStores()


@pytest.fixture
def held() -> Held:
    """The requests of one view."""
    return Held()


def stored(data: MemoryStores) -> bool:
    """True if another node finds the task."""
    found = open_memory_stores(data).schedule.find_tasks(0, [TASK.key]).result(0)
    return TASK.key in found


def test_a_delayed_request_takes_effect_when_it_is_served(data: MemoryStores, held: Held) -> None:
    """Not before, and then the future resolves."""
    future = open_memory_stores(data, held).schedule.insert_tasks(0, [TASK], 1)
    assert not future.done()
    assert not stored(data)
    (request,) = held.requests
    assert (request.kind, request.partition) == ("insert_tasks", 0)
    request()

    assert future.done()
    assert stored(data)


@pytest.mark.parametrize("takes_effect", [False, True])
def test_a_failure_leaves_open_whether_it_happened(
    data: MemoryStores, held: Held, *, takes_effect: bool
) -> None:
    """The caller hears the same in both cases, and nothing afterwards."""
    future = open_memory_stores(data, held).schedule.insert_tasks(0, [TASK], 1)
    (request,) = held.requests
    if takes_effect:
        request.apply()
    request.fail(CUT)
    assert future.exception(0) is CUT
    assert stored(data) is takes_effect
    request()

    assert stored(data)
    assert future.exception(0) is CUT


def test_an_effect_happens_once(data: MemoryStores, held: Held) -> None:
    """However often it is delivered."""
    future = open_memory_stores(data, held).ownership.claim(0, 5)
    for _ in range(3):
        held.requests[0].apply()
    held.requests[0].answer()

    assert future.result(0).epoch == 1
    assert data.claims[0].epoch == 1


def test_an_effect_that_fails_is_told_as_it_is(data: MemoryStores, held: Held) -> None:
    """By the state at the time of the effect."""
    future = open_memory_stores(data, held).ownership.save_watermark(0, 1, initial_watermark(0))
    held.requests[0]()

    with pytest.raises(OwnershipLost):
        future.result(0)


def test_a_closed_view_refuses_and_the_others_go_on(data: MemoryStores) -> None:
    """Closing is one node's matter."""
    closed, other = open_memory_stores(data), open_memory_stores(data)
    closed.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        closed.schedule.insert_tasks(0, [TASK], 1).result(0)
    other.schedule.insert_tasks(0, [TASK], 1).result(0)
    assert stored(data)


def test_a_request_cannot_be_cancelled(data: MemoryStores, held: Held) -> None:
    """It may be under way."""
    future = open_memory_stores(data, held).schedule.insert_tasks(0, [TASK], 1)

    assert not future.cancel()
    held.requests[0]()
    assert future.result(0) is None
