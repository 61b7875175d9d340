"""A node is alive and ready exactly as long as its parts are."""

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.scheduler.observe.health import Dispatching, Health, NodeProbes, is_well

HANG_MS = 1_000


class Node:
    """What a node would answer, in a test's hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.dispatching = Dispatching(0, 0)
        self.asked = 0
        self.store: Future[object] = Future()
        self.store.set_result(None)
        self.probes = NodeProbes(
            dispatching=lambda: self.dispatching,
            partitions=lambda: (0, 1),
            works=lambda: True,
            lease_ends_ms=lambda: self.clock.monotonic_ms() + 5_000,
            ask_store=self._ask,
            polled_ms=self.clock.monotonic_ms,
        )

    def _ask(self) -> "Future[object]":
        self.asked += 1
        return self.store

    def health(self, **changed: Any) -> Health:
        """Return who judges it, some probes replaced."""
        return Health(replace(self.probes, **changed), self.clock, HANG_MS)


def failing(health: Health) -> list[str]:
    """Return the names of what is wrong."""
    return [check.name for check in health.ready() if not check.ok]


def test_a_node_that_works_is_alive_and_ready() -> None:
    """All six checks say so."""
    health = Node().health()

    assert is_well(health.live())
    assert failing(health) == []
    assert health.is_ready()


def test_a_polling_thread_that_hangs_is_no_life() -> None:
    """Up to the limit it may be slow."""
    node = Node()
    health = node.health(polled_ms=lambda: 0.0)

    node.clock.advance(HANG_MS)
    assert is_well(health.live())
    node.clock.advance(1)

    assert [check.name for check in health.live() if not check.ok] == ["polling"]


@pytest.mark.parametrize("rounds", [6, 7])
def test_a_dispatcher_hangs_only_inside_a_round(rounds: int) -> None:
    """Between two rounds it rests, for as long as it likes."""
    node = Node()
    health = node.health()
    node.dispatching = Dispatching(rounds, 12)
    health.watch()

    node.clock.advance(HANG_MS + 1)

    assert is_well(health.live()) == (rounds == 6)
    node.dispatching = Dispatching(9, 12)
    assert is_well(health.live())


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"partitions": tuple}, "partitions"),
        ({"works": lambda: False}, "partitions"),
        ({"lease_ends_ms": lambda: float("-inf")}, "lease"),
        ({"poll_failure": lambda: "the folder is gone"}, "log"),
    ],
)
def test_a_node_that_cannot_work_is_alive_but_not_ready(
    changed: dict[str, object], name: str
) -> None:
    """A restart would not help it."""
    health = Node().health(**changed)

    assert is_well(health.live())
    assert failing(health) == [name]
    assert not health.is_ready()


def test_a_store_that_fails_makes_a_node_unready_until_it_answers() -> None:
    """It is asked once a second, however many probes come."""
    node = Node()
    node.store = Future()
    node.store.set_exception(StoreUnavailable("no replica"))
    health = node.health()

    assert [failing(health) for _ in range(5)] == [["store"]] * 5
    assert not health.is_ready()
    assert node.asked == 1

    node.store = Future()
    node.store.set_result(None)
    node.clock.advance(1_001)

    assert failing(health) == []
    assert node.asked == 2


def test_a_partition_that_waits_in_the_log_is_told_and_leaves_the_node_ready() -> None:
    """Another node could not read it either."""
    health = Node().health(waiting=lambda: {3: "it waits at offset 7"})

    (log,) = (check for check in health.ready() if check.name == "log")

    assert (log.ok, log.detail) == (True, "answers; partition 3: it waits at offset 7")
    assert health.is_ready()
