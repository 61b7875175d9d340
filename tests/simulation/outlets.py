"""The outlets of the doors of a simulated installation: the out-topic, and targets of callbacks.

They write down what reaches them, and misbehave as a target's address says.  They judge nothing.
"""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.memory.delivery import Deliver, Request
from hourhand.scheduler.services.timers.executor import CallbackFailed
from tests.simulation.door_history import Appeared, CallAnswered, Called
from tests.simulation.history import History
from tests.simulation.loop import current_name

OUT_PARTITION = 1_000
"""A partition of no other topic, so that only messages keep their order among each other."""
CALL_TIMEOUT_MS = 400.0
URIS = {"http://good": 8, "http://bad": 2, "http://late": 1, "http://moved": 1}
"""Addresses of targets, and how often one is chosen: the second fails now and then, the third
answers too late now and then, the last one sends everybody elsewhere."""


class OutTopic:
    """Implements ``MessageWriter`` for one node."""

    def __init__(self, node: str, clock: Clock, history: History, deliver: Deliver) -> None:
        self._node = node
        self._clock = clock
        self._history = history
        self._deliver = deliver

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Produce a message; it appears, or not, when the network lets it."""
        del topic
        attempt, wall_ms, kept = int(current_name()), self._clock.now_ms(), tuple(headers)

        def appear() -> None:
            now_ms = self._clock.monotonic_ms()
            self._history.add(Appeared(now_ms, self._node, attempt, wall_ms, key, value, kept))

        request = Request("append", OUT_PARTITION, appear)
        self._deliver(request)
        return request.future

    def close(self) -> None:
        """Keep everything."""


class Targets:
    """Targets of the callbacks of timers, for all callers."""

    def __init__(self, history: History, rng: random.Random, called: Callable[[str], None]) -> None:
        """``called`` is told of each callback's body, while its node waits for the answer."""
        self._history = history
        self._rng = rng
        self._called = called
        self._ids = count(1)

    async def take(self, node: str, clock: Clock, uri: str, body: bytes, number: int) -> None:
        """Take a callback; CallbackFailed where it is not answered well and in time."""
        call, rng = next(self._ids), self._rng
        attempt, wall_ms = int(current_name()), clock.now_ms()
        now_ms = clock.monotonic_ms()
        self._history.add(Called(now_ms, call, node, attempt, wall_ms, uri, body, number))
        self._called(body.decode())
        answer_ms = rng.uniform(1.0, 60.0)
        fails = uri == "http://moved" or (uri == "http://bad" and rng.random() < 0.4)
        if uri == "http://late" and rng.random() < 0.4:
            answer_ms, fails = CALL_TIMEOUT_MS, True
        answered = asyncio.Event()
        asyncio.get_running_loop().call_later(answer_ms / 1000, answered.set)
        await answered.wait()
        self._history.add(CallAnswered(clock.monotonic_ms(), call, not fails))
        if fails:
            raise CallbackFailed("the simulated target wants it to fail")


class NodeCaller:
    """Implements ``Caller`` for one node."""

    def __init__(self, node: str, clock: Clock, targets: Targets) -> None:
        self._node = node
        self._clock = clock
        self._targets = targets

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """Call back."""
        del of
        await self._targets.take(self._node, self._clock, uri, body, sequence_number)
