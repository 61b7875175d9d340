"""The topic of outcomes of a simulated run: what its nodes tell, over a network that fails.

It takes nothing at times, and refuses some records for ever as too large.  It judges nothing.
"""

import json
from collections.abc import Callable
from concurrent.futures import Future

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import LogUnavailable, TaskTooLarge
from hourhand.scheduler.adapters.memory.delivery import Deliver, Request
from tests.simulation.history import Told
from tests.simulation.network import Network

_DOWN_MS, _EVERY_MS = 3_000, 11_000
"""The topic takes nothing for this long of each such time, until there is peace."""
_LARGE_EVERY = 7
"""One of so many records with a value or a reason is too large."""


class OutcomeTopic:
    """One topic, and the ways of all nodes to it."""

    def __init__(self, clock: VirtualClock, network: Network, note: Callable[[Told], None]) -> None:
        self._clock, self._network, self._note = clock, network, note
        self.fails = True
        """False in peace."""

    def of(self, node: str) -> "_Way":
        """Return one node's way to the topic."""
        return _Way(self, self._network.to_log_of(node))

    def take(self, value: bytes) -> None:
        """Keep a record; LogUnavailable, TaskTooLarge."""
        told = json.loads(value)
        now_ms = self._clock.monotonic_ms()
        if self.fails and now_ms % _EVERY_MS < _DOWN_MS:
            raise LogUnavailable("the simulated topic takes nothing")
        is_long = "returned" in told or "reason" in told
        if is_long and sum(told["key"].encode()) % _LARGE_EVERY == 0:
            raise TaskTooLarge("the simulated topic takes no such record")
        key = TaskKey.parse(told["key"])
        place = told["result"], told["finishedTime"], told.get("attempts", 0)
        self._note(Told(now_ms, told["partition"], key, *place))


class _Way:
    """``MessageWriter`` of one node."""

    def __init__(self, topic: OutcomeTopic, deliver: Deliver) -> None:
        self._topic, self._deliver = topic, deliver

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Send a record."""
        del topic, key, headers
        assert value is not None, "an outcome has a value"
        request: Request[None] = Request("produce", -1, lambda: self._topic.take(value))
        self._deliver(request)
        return request.future

    def close(self) -> None:
        """Nothing is open."""
