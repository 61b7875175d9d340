"""Invents the tasks of a simulated run: ids, times, and how each attempt of a task goes.

All from random numbers.  It sends nothing.
"""

import random
import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count, islice

from pydantic import JsonValue

from hourhand.actors.model.flow.flow import FairShare, FlowRule, FlowRules
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.ports.clock import Clock
from tests.simulation import limited, unordered
from tests.simulation.pretending import pretending
from tests.simulation.scenario import Workload
from tests.simulation.sizes import filler
from tests.simulation.whose import told_whose

_HOSTILE = ("exit:5", "interrupt:5", "closing:5", "own:5")
KIND = "charge"
"""The kind of those tasks that have one."""
FLOW_RULES = FlowRules(
    {
        None: FlowRule(fair=FairShare(key="tenant", weights={"t1": 3})),
        KIND: FlowRule(priority=5, fair=FairShare(key="tenant")),
    }
)
"""Flow rules of tasks with tenants."""
FIRST_TENANT = "t0"
"""It has the most tasks."""
_PRIORITIES = (None, None, None, -5, 0, 5, 100)
HARM = (
    *("cancel", "cancel all", "stop", "close", "close outside", "handler", "factory", "executor"),
    *("flood", "exit", "fail", "leave", "block", "forget", "hang", "swallow", "rename", "thread"),
)
"""Harm that ``guests`` can do to what they find."""
HEALTHY, SICK = "h", "s"
"""First letters of ordering ids whose tasks always succeed soon, and of all others."""


def rules_of(workload: Workload) -> FlowRules:
    """Return the rules of flow control of a run's kinds."""
    if workload.limits:
        return limited.rules_of(limited.limits_of(limits=True, lend=workload.lend))
    return FLOW_RULES if workload.tenants else FlowRules.NONE


def expires_in(data: Mapping[str, object]) -> datetime | timedelta | None:
    """Return the expiry that a task's data tells of; None without one."""
    lasts, until = data.get("lasts"), data.get("until")
    if isinstance(lasts, int):
        return timedelta(milliseconds=lasts)
    return from_millis(until) if isinstance(until, int) else None


def own_priority_of(key: TaskKey) -> int | None:
    """Return a task's own priority where tasks have tenants; one of another time has the same."""
    return _PRIORITIES[zlib.crc32(key.uniqueness_key.encode()) % len(_PRIORITIES)]


class TaskMaker:
    """Makes tasks for clients and other producers, each with a name of its own."""

    def __init__(
        self, workload: Workload, *, clock: Clock, grace_ms: int, pace: float, rng: random.Random
    ) -> None:
        self.clock = clock
        self.pace = pace
        self._workload = workload
        self._grace_ms = grace_ms
        self._rng = rng
        self._number = 0
        self._hot_ids: tuple[str, ...] = ()

    def keep_to(self, partitions: int, of: int) -> None:
        """Give sick tasks ids of the first partitions alone."""
        ids = (f"{SICK}{number}" for number in count())
        hot = (each for each in ids if partition_of(each, of) < partitions)
        self._hot_ids = tuple(islice(hot, self._workload.sick_ordering_ids))

    def next_name(self) -> str:
        """Return a uniqueness key that was not used before."""
        self._number += 1
        return f"t{self._number}"

    def ordering_id(self) -> str:
        """Return the ordering id of the next task."""
        load = self._workload
        sick = self._rng.random() < load.sick and load.sick_ordering_ids
        return self.sick_id() if sick else f"{HEALTHY}{self._rng.randrange(load.ordering_ids)}"

    def sick_id(self) -> str:
        """Return one of the ids whose tasks do not all go well."""
        number = self._rng.randrange(max(1, self._workload.sick_ordering_ids))
        return self._hot_ids[number] if self._hot_ids else f"{SICK}{number}"

    def healthy_id(self) -> str:
        """Return one of the ids whose tasks are short and succeed."""
        return f"{HEALTHY}{self._rng.randrange(self._workload.ordering_ids)}"

    def time_ms(self) -> int:
        """Return a time to schedule for: about now, soon, at the end of what is planned."""
        rng, now_ms = self._rng, self.clock.now_ms()
        ahead_ms, round_ms = self.paced(self._workload.ahead_ms), self.paced(100)
        lot = rng.random()
        if lot < 0.06:
            edge_ms = self._grace_ms
            return now_ms - rng.choice((edge_ms, edge_ms + 1, rng.randrange(2 * edge_ms)))
        if lot < 0.3:
            return now_ms + rng.randrange(self.paced(800))
        if lot < 0.4:
            return now_ms + ahead_ms + rng.randrange(self.paced(10_000))
        # Round times make neighbours of the same millisecond.
        return now_ms // round_ms * round_ms + round_ms * rng.randrange(1, ahead_ms // round_ms + 2)

    def paced(self, duration_ms: int) -> int:
        """Return how long something lasts at the run's pace."""
        return round(duration_ms * self.pace)

    def data(self, ordering_id: str) -> dict[str, JsonValue]:
        """Return data that says how each attempt goes."""
        rng = self._rng
        if ordering_id.startswith(HEALTHY):
            return self.plan([f"ok:{rng.randrange(50)}"], blocking=rng.random() < 0.6)
        if self._workload.deadly and rng.random() < self._workload.deadly:
            runs = ["kill:0"]
        elif self._workload.hostile and rng.random() < self._workload.hostile:
            runs = [rng.choice(_HOSTILE)] * rng.randrange(1, 3) + ["ok:5"]
        elif rng.random() < self._workload.kills:
            runs = ["kill:0"] * rng.randrange(1, 3) + ["ok:5"]
        elif self._workload.snoozing and rng.random() < self._workload.snoozing:
            snooze = rng.choice(("snooze:10", "snoozes:10"))
            runs = rng.choice(([snooze, "ok:5"], ["fail:20", snooze, "ok:5"]))
        elif self._workload.hostile_setup:
            runs = rng.choice((["ok:10"], ["fail:20", "ok:20"], ["retry:50", "ok:5"]))
        else:
            hang = self.hang()
            runs = list(
                rng.choice(
                    (
                        ["ok:10"],
                        ["ok:300"],
                        ["fail:20", "ok:20"],
                        ["fail:5"],
                        ["retry:50", "fail:700", "ok:5"],
                        ["drop:10"],
                        [hang],
                        ["fail:20", hang],
                    )
                )
            )
        return self.plan(runs, blocking=rng.random() < 0.6)

    def hang(self) -> str:
        """Return an attempt that lasts long."""
        return f"ok:{self._rng.randrange(500, self._workload.hang_ms)}"

    def plan(self, runs: list[str], *, blocking: bool) -> dict[str, JsonValue]:
        """Return data with these attempts, each as long as the run's pace makes it."""
        self._number += 1
        paced = []
        for run in runs:
            kind, _, duration_ms = run.partition(":")
            paced.append(f"{kind}:{self.paced(int(duration_ms))}")
        data: dict[str, JsonValue] = {
            "n": self._number,
            "runs": list[JsonValue](paced),
            "blocking": blocking,
        }
        load = self._workload
        if load.expiring and self._rng.random() < load.expiring:
            lot = self._rng.random()
            if lot < 0.5:
                data["lasts"] = self.paced(self._rng.choice((1, 40, 400, 2_500)))
            else:
                data["until"] = self.clock.now_ms() + self.paced(self._rng.randrange(1, 9_000))
        if load.results:
            data["returns"] = True
        if load.guests is not None:
            does_harm = self._rng.random() < load.guests
            data["harm"] = [self._rng.choice(HARM) for _ in runs] if does_harm else []
        if load.tenants:
            lot = int(self._rng.expovariate(0.9))
            # A backlog of the first tenant has ids of its own.
            lot += bool(load.backlog_of_one)
            data["tenant"] = f"t{min(lot, load.tenants - 1)}"
        if load.heavy and self._rng.random() < load.heavy:
            data["text"] = "x" * self._rng.randrange(load.heavy_bytes)
        return data

    def padded(self, key: TaskKey, size_bytes: int) -> bytes:
        """Return the record of a task that ends well, of about so many bytes and never less than
        it takes.
        """
        return encode_task(
            self.task(key, self.pad(key, self.plan(["ok:5"], blocking=False), size_bytes))
        )

    def pad(
        self, key: TaskKey, data: dict[str, JsonValue], size_bytes: int
    ) -> dict[str, JsonValue]:
        """Return data whose record takes so many bytes, where it does not take more anyway."""
        data = {**data, "pad": ""}
        missing = size_bytes - len(encode_task(self.task(key, data)))
        return {**data, "pad": filler(max(0, missing), self._rng)}

    def task(self, key: TaskKey, data: dict[str, JsonValue]) -> Task:
        """Return the value that clients take."""
        kind = self._kind(key)
        priority = own_priority_of(key) if self._workload.tenants else None
        until = data.get("until")
        if isinstance(until, int) and until <= key.scheduled_ms:
            # No client takes a task that could never run.
            data = {name: value for name, value in data.items() if name != "until"}
        expires = expires_in(data)
        if self._workload.sealed:
            data = told_whose(key, data)
        if self._workload.pretends:
            data = pretending(data, kind, priority)
        return Task(
            ordering_id=key.ordering_id,
            scheduled_time=from_millis(key.scheduled_ms),
            uniqueness_key=key.uniqueness_key,
            data=data,
            kind=kind,
            priority=priority,
            expires=expires,
        )

    def _kind(self, key: TaskKey) -> str | None:
        if self._workload.unordered:
            return unordered.kind_of(key)
        if self._workload.limits and not key.ordering_id.startswith(HEALTHY):
            return limited.kind_of(key, lend=self._workload.lend)
        share = self._workload.kinds
        if not share or key.ordering_id.startswith(HEALTHY):
            return None
        return KIND if self._rng.random() < share else None
