"""Liveness and readiness of a node, for probes and people.

A node is live while its polling thread polls and its dispatcher hands out messages. It is ready
while it also works on partitions, may start their tasks, and log and store answer it. Decides
nothing about tasks, and asks the store at most once a second for all callers together.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hourhand.actors.ports.clock import Clock

STORE_TIMEOUT_S = 5.0
STORE_ASKED_EVERY_MS = 1_000


class Check(NamedTuple):
    """One check and its result."""

    name: str
    ok: bool
    detail: str


class Dispatching(NamedTuple):
    """The figures of a dispatcher."""

    rounds: int
    """Grows with every round; odd during one."""
    waiting: int


@dataclass(frozen=True, slots=True)
class NodeProbes:
    """Sources of the facts; each may be called from any thread, at any time."""

    dispatching: Callable[[], Dispatching]
    partitions: Callable[[], tuple[int, ...]]
    works: Callable[[], bool]
    """Returns True if every owned partition is worked on."""
    lease_ends_ms: Callable[[], float]
    ask_store: "Callable[[], Future[Any]]"
    polled_ms: Callable[[], float] = lambda: float("-inf")
    poll_failure: Callable[[], str | None] = lambda: None
    """Returns the error of the last poll, if the log is watched."""
    waiting: Callable[[], Mapping[int, str]] = dict
    """Returns, by partition, the reason why nothing more of it can be read, if the log is
    watched."""
    measures: Mapping[str, Callable[[], Mapping[Any, float]]] = field(default_factory=dict)
    """Gauges of the catalogue that are computed at each read, by label."""

    def watching(
        self,
        polled_ms: Callable[[], float],
        poll_failure: Callable[[], str | None],
        waiting: Callable[[], Mapping[int, str]] = dict,
    ) -> "NodeProbes":
        """Return the same probes, with those of the polling."""
        return replace(self, polled_ms=polled_ms, poll_failure=poll_failure, waiting=waiting)


@dataclass
class Health:
    """Judges one node; used from any thread."""

    probes: NodeProbes
    clock: Clock
    hang_ms: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen_rounds: int = -1
    _seen_ms: float = 0.0
    _store: tuple[float, Check] | None = None

    def live(self) -> list[Check]:
        """Return the checks of ``/livez``; none of them waits for another system."""
        return [self._polling(), self._dispatcher()]

    def ready(self) -> list[Check]:
        """Return the checks of ``/readyz``; waits for the store, at most a few seconds."""
        return [*self.live(), self._partitions(), self._lease(), self._log(), self._ask_store()]

    def is_ready(self) -> bool:
        """True if all checks pass, by the store's last answer, without a request."""
        known = [self._store[1]] if self._store else []
        checks = [*self.live(), self._partitions(), self._lease(), self._log(), *known]
        return all(check.ok for check in checks)

    def watch(self) -> None:
        """Look at the dispatcher; the second look at the same round notices a hang."""
        self._stuck_ms()

    def _polling(self) -> Check:
        age_ms = self.clock.monotonic_ms() - self.probes.polled_ms()
        return Check("polling", age_ms <= self.hang_ms, f"last poll {age_ms / 1000:.1f} s ago")

    def _dispatcher(self) -> Check:
        stuck_ms = self._stuck_ms()
        waiting = self.probes.dispatching().waiting
        detail = f"{waiting} messages wait"
        if stuck_ms:
            detail += f", one round goes on for {stuck_ms / 1000:.1f} s"
        return Check("dispatcher", stuck_ms <= self.hang_ms, detail)

    def _stuck_ms(self) -> float:
        """Return for how long a round has been seen to run; 0 if the dispatcher rests or moves."""
        rounds, now_ms = self.probes.dispatching().rounds, self.clock.monotonic_ms()
        with self._lock:
            if rounds != self._seen_rounds or rounds % 2 == 0:
                self._seen_rounds, self._seen_ms = rounds, now_ms
            return now_ms - self._seen_ms

    def _partitions(self) -> Check:
        held = self.probes.partitions()
        if not held:
            return Check("partitions", ok=False, detail="the group has assigned none to it")
        works = self.probes.works()
        return Check("partitions", works, f"{len(held)}, {'all' if works else 'not all'} at work")

    def _lease(self) -> Check:
        left_ms = self.probes.lease_ends_ms() - self.clock.monotonic_ms()
        detail = "guarded by a lock" if left_ms == float("inf") else f"{left_ms / 1000:.1f} s left"
        return Check(
            "lease", left_ms > 0, detail if left_ms > 0 else "none: it may not start tasks"
        )

    def _log(self) -> Check:
        if (failure := self.probes.poll_failure()) is not None:
            return Check("log", ok=False, detail=failure)
        # Another node could read no more of it, so this one stays ready.
        waiting = [f"partition {each}: {why}" for each, why in self.probes.waiting().items()]
        return Check("log", ok=True, detail="; ".join(["answers", *waiting]))

    def _ask_store(self) -> Check:
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            kept = self._store
            if kept is not None and now_ms - kept[0] < STORE_ASKED_EVERY_MS:
                return kept[1]
            # Set before the request, so that many probes at a time cause one.
            self._store = (now_ms, kept[1] if kept else Check("store", ok=True, detail="asked"))
        check = self._asked_store(now_ms)
        with self._lock:
            self._store = (now_ms, check)
        return check

    def _asked_store(self, began_ms: float) -> Check:
        try:
            self.probes.ask_store().result(timeout=STORE_TIMEOUT_S)
        except TimeoutError:
            return Check("store", ok=False, detail=f"no answer in {STORE_TIMEOUT_S:.0f} s")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            return Check("store", ok=False, detail=str(error))
        took_ms = self.clock.monotonic_ms() - began_ms
        return Check("store", ok=True, detail=f"answers in {took_ms:.1f} ms")


def is_well(checks: Iterable[Check]) -> bool:
    """True if all checks pass."""
    return all(check.ok for check in checks)
