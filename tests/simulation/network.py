"""The simulated network: when a request to the log or the store takes effect, and what its
sender hears.

It may delay, reorder (but not the appends of a partition), fail before or after the effect,
or let a failed write take effect later, which is all that a real server can do to a client.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hourhand.actors.model.values.errors import LogUnavailable, OperatorError, StoreUnavailable
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.memory.delivery import Deliver, Request

SLOW_ANSWER_MS = 2_000.0
"""A slow server answers after at most so long."""


@dataclass(slots=True)
class Weather:
    """How badly requests fare; all are probabilities, 0 in good weather."""

    fails_before: float = 0.0
    fails_after: float = 0.0
    takes_effect_late: float = 0.0
    is_slow: float = 0.0
    slow_ms: float = SLOW_ANSWER_MS
    late_ms: float = 4_000.0
    """A failed write takes effect up to this long after its sender was told."""


@dataclass(slots=True)
class Network:
    """Carries the requests of all nodes and clients, in virtual time."""

    clock: Clock
    rng: random.Random
    store: Weather = field(default_factory=Weather)
    log: Weather = field(default_factory=Weather)
    commits: Weather = field(default_factory=Weather)
    letters: Weather | None = None
    """How dead letters fare, where that differs from all else that is appended."""
    broken: set[tuple[str, int]] = field(default_factory=set)
    """Kind and partition of requests that all fail without effect."""
    next_of: dict[str, Callable[[str, Request[Any]], None]] = field(default_factory=dict)
    """Who carries the next request of a kind, and for whom, where that is another matter."""
    around_commits: Callable[[], AbstractContextManager[None]] = nullcontext
    """What is so while a commit takes effect."""
    asked: Callable[[str, Request[Any]], None] = lambda _sender, _request: None
    """Is told of each request and its sender, before anything comes of it."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many requests fared how badly."""
    _actions: list[tuple[float, int, str, bool, Callable[[], None]]] = field(default_factory=list)
    _sequence: "count[int]" = field(default_factory=count)
    _last_effect_ms: dict[tuple[str, int], float] = field(default_factory=dict)
    _dead: set[str] = field(default_factory=set)

    def clear(self) -> None:
        """Let every new request be served soon."""
        self.store, self.log = Weather(), Weather()
        self.commits, self.letters = Weather(), None
        self.next_of, self.broken = {}, set()
        self.around_commits = nullcontext

    def to_store(self, sender: str) -> Deliver:
        """Return one node's way to the store."""

        def carry(request: Request[Any]) -> None:
            self.asked(sender, request)
            take = self.next_of.pop(request.kind, None)
            if take is None:
                self.through(self.store, sender, request)
            else:
                take(sender, request)

        return carry

    def through(self, weather: Weather, sender: str, request: Request[Any]) -> None:
        """Carry a request to the store as it fares in a weather."""
        self._carry(sender, request, weather, in_order=False)

    def to_log(self, request: Request[Any]) -> None:
        """Carry an append, a dead letter or a commit; they keep their order."""
        self.asked("", request)
        self._carry("", request, self._log_weather(request), in_order=True)

    def to_log_of(self, sender: str) -> Deliver:
        """Return one node's way to the log, which its death cuts off."""

        def carry(request: Request[Any]) -> None:
            self.asked(sender, request)
            self._carry(sender, request, self._log_weather(request), in_order=True)

        return carry

    def _log_weather(self, request: Request[Any]) -> Weather:
        match request.kind:
            case "commit":
                return self.commits
            case "dead_letter" if self.letters is not None:
                return self.letters
            case _:
                return self.log

    def cut_off(self, sender: str) -> None:
        """The sender died: it hears nothing more, and half of what it sent is lost."""
        self._dead.add(sender)
        self._actions = [
            each
            for each in self._actions
            if each[2] != sender or (each[3] and self.rng.random() < 0.5)
        ]
        heapq.heapify(self._actions)

    def next_ms(self) -> float | None:
        """Return the monotonic time of the next effect or answer."""
        return self._actions[0][0] if self._actions else None

    def run_due(self) -> None:
        """Let everything happen whose time has come."""
        now_ms = self.clock.monotonic_ms()
        while self._actions and self._actions[0][0] <= now_ms:
            _, _, sender, is_effect, act = heapq.heappop(self._actions)
            if is_effect or sender not in self._dead:
                act()

    def _carry(
        self, sender: str, request: Request[Any], weather: Weather, *, in_order: bool
    ) -> None:
        rng = self.rng
        way = "log" if in_order else "store"
        slow = rng.random() < weather.is_slow
        delay_ms = rng.uniform(20.0, weather.slow_ms) if slow else rng.uniform(0.1, 4.0)
        self.counts[f"{way} request slow"] += slow
        effect_ms = self.clock.monotonic_ms() + delay_ms * rng.random()
        answer_ms = self.clock.monotonic_ms() + delay_ms
        if in_order:
            place = ("commit" if request.kind == "commit" else "append", request.partition)
            effect_ms = max(effect_ms, self._last_effect_ms.get(place, 0.0))
            self._last_effect_ms[place] = effect_ms
            answer_ms = max(answer_ms, effect_ms)
        lot = rng.random()
        failure = _failure(request)
        if lot < weather.fails_before or (request.kind, request.partition) in self.broken:
            self._at(answer_ms, sender, lambda: request.fail(failure))
            self.counts[f"{way} request without effect"] += 1
            return
        lot -= weather.fails_before
        if lot < weather.takes_effect_late and not in_order:
            self._at(answer_ms, sender, lambda: request.fail(failure))
            effect_ms = answer_ms + rng.uniform(1.0, weather.late_ms)
            self.counts[f"{way} request with late effect"] += 1
            self._at(effect_ms, sender, request.apply, is_effect=True)
            return
        self._at(effect_ms, sender, lambda: self._apply(request), is_effect=True)
        if lot - weather.takes_effect_late < weather.fails_after:
            self._at(answer_ms, sender, lambda: request.fail(failure))
            self.counts[f"{way} request with lost answer"] += 1
        else:
            self._at(answer_ms, sender, request.answer)

    def _apply(self, request: Request[Any]) -> None:
        with self.around_commits() if request.kind == "commit" else nullcontext():
            request.apply()

    def _at(
        self, time_ms: float, sender: str, act: Callable[[], None], *, is_effect: bool = False
    ) -> None:
        entry = (time_ms, next(self._sequence), sender, is_effect, act)
        heapq.heappush(self._actions, entry)


def _failure(request: Request[Any]) -> OperatorError:
    if request.kind in {"append", "dead_letter", "commit"}:
        return LogUnavailable(f"the simulated log failed {request.kind}")
    return StoreUnavailable(f"the simulated store failed {request.kind}")
