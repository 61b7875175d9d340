"""What clients and foreign producers send in a simulated run, all from its random numbers.

It decides keys, times and how each attempt of a task goes; the real client does the sending.
"""

import random
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Protocol

from pydantic import JsonValue

from actors.model.codec import CommandKind, encode_task
from actors.model.errors import HourhandError
from actors.model.instant import from_millis
from actors.model.key import TaskKey
from actors.model.partition import partition_of
from actors.model.task import Task
from actors.ports.clock import Clock
from actors.ports.log import LogWriter
from scheduler.client import Receipt, SchedulerClient
from tests.simulation.history import Asked
from tests.simulation.scenario import Workload

HEALTHY, SICK = "h", "s"
"""First letters of ordering ids whose tasks always succeed soon, and of all others."""

_POISON: tuple[bytes, ...] = (
    b"",
    b"{",
    b'{"orderingId":"h0"}',
    b'{"orderingId":"","scheduledTime":"2026-01-01T00:00:00.000Z","uniquenessKey":"x"}',
    b'{"orderingId":"h0","scheduledTime":"2026-01-01T00:00:00Z","uniquenessKey":"x","version":9}',
    b'{"orderingId":"h0","scheduledTime":"soon","uniquenessKey":"x","taskData":{},"version":1}',
)


class Sender(Protocol):
    """The world, as far as clients need it."""

    @property
    def clock(self) -> Clock:
        """What time it is."""

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later."""

    def note(self, entry: Asked) -> None:
        """Keep what was asked, and with what success."""


class WorkloadDriver:
    """Sends tasks, commands and strange records until a time."""

    def __init__(
        self,
        world: Sender,
        workload: Workload,
        *,
        client: SchedulerClient,
        client_clock: Clock,
        writer: LogWriter,
        grace_ms: int,
        rng: random.Random,
    ) -> None:
        self._world = world
        self._workload = workload
        self._client = client
        self._clock = client_clock
        self._writer = writer
        self._grace_ms = grace_ms
        self._rng = rng
        self._number = 0
        self._known: list[TaskKey] = []

    def begin(self, until_ms: float) -> None:
        """Plan the first of everything; each plans the next of its kind."""
        for _ in range(self._workload.burst_tasks):
            self._world.after(self._rng.uniform(0.0, 1_000.0), self._send_burst_task)
        self._repeat(self._workload.tasks_per_s, self._send_task, until_ms)
        self._repeat(self._workload.commands_per_s, self._send_command, until_ms)
        self._repeat(self._workload.strange_per_s, self._send_strange, until_ms)

    def drop(self, keys: Iterable[TaskKey]) -> None:
        """Drop what an operator would find blocked."""
        for key in keys:
            self._asked("drop", key, 0, self._client.drop_task(key))

    def _repeat(self, per_s: float, action: Callable[[], None], until_ms: float) -> None:
        if not per_s:
            return
        delay_ms = self._rng.expovariate(per_s / 1000.0)
        if self._world.clock.monotonic_ms() + delay_ms >= until_ms:
            return

        def act() -> None:
            action()
            self._repeat(per_s, action, until_ms)

        self._world.after(delay_ms, act)

    # Tasks.

    def _send_task(self) -> None:
        known = [key for key in self._known[-30:] if key.scheduled_ms > self._clock.now_ms()]
        if known and self._rng.random() < 0.12:
            key = self._rng.choice(known)
        else:
            key = TaskKey(self._time_ms(), self._ordering_id(), self._next_name())
        self._schedule(key, self._data(key.ordering_id))

    def _send_burst_task(self) -> None:
        due_ms = self._clock.now_ms() // 1000 * 1000 + 3_000
        key = TaskKey(due_ms, f"{SICK}0", self._next_name())
        self._schedule(key, {"n": self._number, "runs": ["ok:30"], "blocking": True})

    def _schedule(self, key: TaskKey, data: dict[str, JsonValue]) -> None:
        task = self._task(key, data)
        future = self._client.schedule_task(task)
        self._asked("schedule", key, key.scheduled_ms, future)
        self._known.append(key)

    def _task(self, key: TaskKey, data: dict[str, JsonValue]) -> Task:
        return Task(
            ordering_id=key.ordering_id,
            scheduled_time=from_millis(key.scheduled_ms),
            uniqueness_key=key.uniqueness_key,
            data=data,
        )

    def _next_name(self) -> str:
        self._number += 1
        return f"t{self._number}"

    def _ordering_id(self) -> str:
        load = self._workload
        sick = self._rng.random() < 0.35 and load.sick_ordering_ids
        letter, count = (SICK, load.sick_ordering_ids) if sick else (HEALTHY, load.ordering_ids)
        return f"{letter}{self._rng.randrange(count)}"

    def _time_ms(self) -> int:
        rng, now_ms, ahead_ms = self._rng, self._clock.now_ms(), self._workload.ahead_ms
        lot = rng.random()
        if lot < 0.06:
            edge_ms = self._grace_ms
            return now_ms - rng.choice((edge_ms, edge_ms + 1, rng.randrange(2 * edge_ms)))
        if lot < 0.3:
            return now_ms + rng.randrange(800)
        if lot < 0.4:
            return now_ms + ahead_ms + rng.randrange(10_000)
        # Round times make neighbours of the same millisecond.
        return now_ms // 100 * 100 + 100 * rng.randrange(1, ahead_ms // 100 + 2)

    def _data(self, ordering_id: str) -> dict[str, JsonValue]:
        rng, self._number = self._rng, self._number + 1
        blocking = rng.random() < 0.6
        if ordering_id.startswith(HEALTHY):
            runs = [f"ok:{rng.randrange(50)}"]
        elif rng.random() < self._workload.kills:
            runs = ["kill:0"] * rng.randrange(1, 3) + ["ok:5"]
        else:
            hang = f"ok:{rng.randrange(500, self._workload.hang_ms)}"
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
        return {"n": self._number, "runs": list[JsonValue](runs), "blocking": blocking}

    # Commands.

    def _send_command(self) -> None:
        if not self._known:
            return
        key = self._rng.choice(self._known[-25:])
        kind = self._rng.choice(list(CommandKind))
        match kind:
            case CommandKind.CANCEL:
                self._asked(kind, key, 0, self._client.cancel_task(key))
            case CommandKind.DROP:
                self._asked(kind, key, 0, self._client.drop_task(key))
            case CommandKind.RETRY:
                self._asked(kind, key, 0, self._client.retry_task(key))
            case CommandKind.RUN_NOW:
                self._asked(kind, key, 0, self._client.run_task_now(key))
            case CommandKind.RESCHEDULE:
                to_ms = self._rng.choice((self._time_ms(), key.scheduled_ms))
                future = self._client.reschedule_task(key, from_millis(to_ms))
                self._asked(kind, key, to_ms, future)
                self._known.append(key._replace(scheduled_ms=to_ms))

    # What other producers do.

    def _send_strange(self) -> None:
        rng, count = self._rng, self._writer.partition_count()
        lot = rng.random()
        if lot < 0.35:
            value = rng.choice((*_POISON, b"x" * 3_000))
            self._writer.append(rng.randrange(count), b"any", value)
            return
        ordering_id = f"{HEALTHY}{rng.randrange(self._workload.ordering_ids)}"
        now_ms = self._clock.now_ms()
        own = partition_of(ordering_id, count)
        if lot < 0.6:
            due_ms = now_ms + rng.randrange(-2_000, self._workload.ahead_ms)
            partition = (own + 1) % count
        else:
            due_ms = now_ms - rng.choice((3_000, 60_000, 7_200_000, 2 * 86_400_000))
            partition = own
        key = TaskKey(due_ms, ordering_id, self._next_name())
        task = self._task(key, {"n": self._number, "runs": ["ok:5"], "blocking": False})
        self._writer.append(partition, ordering_id.encode(), encode_task(task))
        self._known.append(key)

    def _asked(self, kind: str, key: TaskKey, time_ms: int, future: "Future[Receipt]") -> None:
        """Note what came of a request, when it is known."""
        wall_ms = self._clock.now_ms()

        def note(done: "Future[Receipt]") -> None:
            error = done.exception()
            assert error is None or isinstance(error, HourhandError), f"a bug: {error!r}"
            receipt = None if error else done.result()
            self._world.note(
                Asked(
                    at_ms=self._world.clock.monotonic_ms(),
                    kind=kind,
                    key=key,
                    time_ms=time_ms,
                    wall_ms=wall_ms,
                    grace_ms=self._grace_ms,
                    error=type(error).__name__ if error else "",
                    partition=receipt.partition if receipt else -1,
                    offset=receipt.offset if receipt else -1,
                )
            )

        future.add_done_callback(note)
