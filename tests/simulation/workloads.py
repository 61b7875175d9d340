"""Records that clients and others send in a simulated run, and their times, from random numbers.

It decides what is asked for and when; the real client does the sending.
"""

import random
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from operator import itemgetter
from typing import Any, Protocol

from pydantic import JsonValue

from hourhand.actors.model.task.codec import CommandKind
from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.task.links import On
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.model.values.instant import from_millis, to_millis
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.client.client import PairReceipt, Receipt, SchedulerClient
from hourhand.scheduler.runtime.light_future import then as after
from tests.builders import CHANGING
from tests.simulation.history import Asked
from tests.simulation.outside import OutsideWriter
from tests.simulation.producers import Producers
from tests.simulation.scenario import Workload
from tests.simulation.sizes import size_about
from tests.simulation.task_maker import SICK, TaskMaker


class Sender(Protocol):
    """The world, as far as clients need it."""

    @property
    def clock(self) -> Clock:
        """The clock of the run."""

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
        maker: TaskMaker,
        producers: Producers,
        outside: OutsideWriter,
        grace_ms: int,
        rng: random.Random,
    ) -> None:
        self.producers = producers
        self.outside = outside
        self._world = world
        self._workload = workload
        self._client = client
        self._maker = maker
        self._clock = maker.clock
        self._grace_ms = grace_ms
        self._rng = rng
        self._known: list[TaskKey] = []
        self._followers: dict[TaskPair, tuple[Task, On]] = {}
        self._grouped: list[TaskKey] = []
        self._until_ms = 0.0

    def begin(self, until_ms: float) -> None:
        """Plan the first of everything; each plans the next of its kind."""
        self._until_ms = until_ms
        load, pace = self._workload, self._maker.pace
        for _ in range(load.burst_tasks):
            self._world.after(self._rng.uniform(0.0, 1_000.0) * pace, self._send_burst_task)
        for _ in range(load.backlog_tasks):
            delay_ms = self._rng.uniform(0.0, 5_000.0) * pace
            self._world.after(delay_ms, self.producers.send_backlog_task)
        self._repeat(load.tasks_per_s, self._send_task, until_ms)
        self._repeat(load.groups_per_s, self._send_group, until_ms)
        self._repeat(load.commands_per_s, self._send_command, until_ms)
        self._repeat(load.strange_per_s, self._send_strange, until_ms)
        self._repeat(load.sized_per_s, self._send_sized, until_ms)
        self._repeat(load.outside_per_s, self.outside.write_batch, until_ms)
        self._repeat(load.volleys_per_s, self._send_volley, until_ms)
        self._repeat(load.returns_per_s, self._send_return, until_ms)
        self._repeat(load.swapped_per_s, self.producers.send_swapped, until_ms)

    def drop(self, keys: Iterable[TaskKey]) -> None:
        """Drop what an operator would find blocked."""
        for key in keys:
            self._asked("drop", key, 0, self._client.drop_task(key))

    def _repeat(self, per_s: float, action: Callable[[], None], until_ms: float) -> None:
        if not per_s:
            return
        delay_ms = self._rng.expovariate(per_s / 1000.0) * self._maker.pace
        if self._world.clock.monotonic_ms() + delay_ms >= until_ms:
            return

        def act() -> None:
            action()
            self._repeat(per_s, action, until_ms)

        self._world.after(delay_ms, act)

    # Tasks.

    def _send_task(self) -> None:
        known = [key for key in self._known[-30:] if key.scheduled_ms > self._clock.now_ms()]
        again = known and self._rng.random() < 0.12
        key = self._rng.choice(known) if again else self._new_key()
        data = self._maker.data(key.ordering_id)
        if self._workload.sized and self._rng.random() < self._workload.sized:
            data = self._maker.pad(key, data, size_about(self.producers.limits, self._rng))
        self._schedule(key, data)
        if self._rng.random() < self._workload.races:
            self._plan_race(key)
        if self._workload.again and self._rng.random() < self._workload.again:
            self._plan_again(key)

    def _new_key(self) -> TaskKey:
        pairs = self._workload.pairs
        if pairs and self._known and self._rng.random() < pairs / 2:
            # Another task of a pair, so that several have it, or one that is open beside others.
            return self._rng.choice(self._known[-10:])._replace(scheduled_ms=self._maker.time_ms())
        ordering_id = self._maker.ordering_id()
        key = TaskKey(self._maker.time_ms(), ordering_id, self._maker.next_name())
        if self._workload.followed and self._rng.random() < self._workload.followed:
            self._plan_follower(key)
        return key

    def _plan_follower(self, key: TaskKey) -> None:
        """Give all tasks with both ids one follower, which may be due long before they end."""
        then = TaskKey(
            max(self._maker.time_ms(), self._clock.now_ms()),
            self._maker.ordering_id(),
            f"{key.uniqueness_key}+",
        )
        on: On = self._rng.choice(("success", "any"))
        task = self._maker.task(then, self._maker.data(then.ordering_id))
        self._followers[TaskPair(*key[1:])] = task, on

    def _plan_again(self, key: TaskKey) -> None:
        """Send a later record of the key: it runs, waits for its retry, or is closed by then."""
        due_in_ms = key.scheduled_ms - self._clock.now_ms()
        delay_ms = due_in_ms + self._rng.uniform(0.0, 4_000.0) * self._maker.pace
        if 0 <= delay_ms < self._until_ms - self._world.clock.monotonic_ms():
            data = self._maker.data(key.ordering_id)
            self._world.after(delay_ms, lambda: self._schedule(key, data))

    def _send_burst_task(self) -> None:
        due_ms = self._clock.now_ms() // 1000 * 1000 + self._maker.paced(3_000)
        key = TaskKey(due_ms, f"{SICK}0", self._maker.next_name())
        self._schedule(key, self._maker.plan(["ok:30"], blocking=True))

    def _send_volley(self) -> None:
        """Send what is due soon and more than memory may hold, so that one poll brings it all."""
        for _ in range(self._workload.volley_tasks):
            due_ms = self._clock.now_ms() + self._rng.randrange(self._maker.paced(4_000))
            key = TaskKey(due_ms, self._maker.healthy_id(), self._maker.next_name())
            self._schedule(key, self._maker.data(key.ordering_id))

    def _schedule(self, key: TaskKey, data: dict[str, JsonValue]) -> None:
        if self._is_over(key):
            return
        then, on = self._follower_of(key)
        task = self._maker.task(key, data)
        future = self._client.schedule_task(task, then=then, on=on)
        self._asked("schedule", key, key.scheduled_ms, future)
        self._known.append(key)

    def _follower_of(self, key: TaskKey) -> tuple[Task | None, On]:
        """Return the follower of all tasks with both ids."""
        found = self._followers.get(TaskPair(*key[1:]))
        return (None, "success") if found is None else found

    def _is_over(self, key: TaskKey) -> bool:
        """True if a client would refuse the follower as due in the past."""
        then, _ = self._follower_of(key)
        grace_ms = self._grace_ms
        return then is not None and to_millis(then.scheduled_time) < self._clock.now_ms() - grace_ms

    def _send_group(self) -> None:
        """Send tasks with one follower, now and then by the same call twice."""
        keys = [
            TaskKey(self._due_ms(), self._maker.ordering_id(), self._maker.next_name())
            for _ in range(self._rng.randrange(2, 6))
        ]
        tasks = [self._maker.task(key, self._maker.data(key.ordering_id)) for key in keys]
        follower = TaskKey(self._due_ms(), self._maker.ordering_id(), self._maker.next_name())
        then = self._maker.task(follower, self._maker.data(follower.ordering_id))
        on: On = self._rng.choice(("success", "any"))
        for _ in range(self._rng.choice((1, 1, 1, 2))):
            sent = self._client.group(tasks, then=then, on=on)
            for number, key in enumerate(keys):
                receipt = after(sent, itemgetter(number))
                self._asked("schedule", key, key.scheduled_ms, receipt)
        self._grouped += keys
        for key in keys:
            if self._rng.random() < self._workload.races:
                self._plan_race(key)

    def _due_ms(self) -> int:
        """Return a time that no client refuses."""
        return max(self._maker.time_ms(), self._clock.now_ms())

    # Commands.

    def _send_command(self) -> None:
        if self._grouped and self._rng.random() < 0.5:
            self._command(self._rng.choice(self._grouped[-25:]))
            return
        if not self._known:
            return
        key = self._rng.choice(self._known[-25:])
        if self._workload.replaces and self._rng.random() < self._workload.replaces:
            self._replace(key)
        else:
            self._command(key)

    def _replace(self, key: TaskKey) -> None:
        """Have a new task take the place of a pair's, at another time or at its own."""
        times = (self._maker.time_ms(), self._maker.time_ms(), key.scheduled_ms)
        key = key._replace(scheduled_ms=self._rng.choice(times))
        if self._is_over(key):
            return
        data = self._maker.data(key.ordering_id)
        then, on = self._follower_of(key)
        task = self._maker.task(key, data)
        sent = self._client.schedule_task(task, replace=True, then=then, on=on)
        self._asked("replace", key, key.scheduled_ms, sent, by_pair=True)
        self._known.append(key)

    def _plan_race(self, key: TaskKey) -> None:
        """Aim commands at the moment a task falls due and at its first attempt.

        A command takes as long to arrive as the next poll takes to come.
        """
        due_in_ms = key.scheduled_ms - self._clock.now_ms()
        delay_ms = due_in_ms + self._rng.uniform(-150.0, 600.0) * self._maker.pace
        if not 0 <= delay_ms < self._until_ms - self._world.clock.monotonic_ms():
            return
        replaces = self._workload.replaces
        for _ in range(self._rng.choice((1, 1, 2))):
            does_replace = bool(replaces) and self._rng.random() < replaces
            act = self._replace if does_replace else self._command
            self._world.after(delay_ms, partial(act, key))
            delay_ms += self._rng.uniform(0.0, 50.0)

    def _command(self, key: TaskKey) -> None:
        kind = self._rng.choice(CHANGING)
        pairs = self._workload.pairs
        by_pair = bool(pairs) and self._rng.random() < pairs
        name = TaskPair(*key[1:]) if by_pair else key
        to_ms = 0
        sent: Future[Receipt] | Future[PairReceipt]
        match kind:
            case CommandKind.CANCEL:
                ends = self._workload.ends
                running = bool(ends) and self._rng.random() < ends
                sent = self._client.cancel_task(name, running=running)
            case CommandKind.DROP:
                sent = self._client.drop_task(name)
            case CommandKind.RETRY:
                sent = self._client.retry_task(name)
            case CommandKind.RUN_NOW:
                sent = self._client.run_task_now(name)
            case CommandKind.RESCHEDULE:
                to_ms = self._rng.choice((self._maker.time_ms(), key.scheduled_ms))
                sent = self._client.reschedule_task(name, from_millis(to_ms))
                known = self._grouped if key in self._grouped else self._known
                known.append(key._replace(scheduled_ms=to_ms))
        self._asked(kind, key, to_ms, sent, by_pair=by_pair)

    def _send_return(self) -> None:
        """Bring back what failed, by its dead letter or by its key, or what may never have."""
        key = self.producers.replay_letter() if self._rng.random() < 0.4 else None
        if key is None:
            known = [*self.producers.lettered(), *self._known[-200:]]
            if known:
                key = self._rng.choice(known)
                self._asked("retry", key, 0, self._client.retry_task(key))

    def _send_strange(self) -> None:
        key = self.producers.send_strange()
        if key is not None:
            self._known.append(key)

    def _send_sized(self) -> None:
        self._known.append(self.producers.send_sized())

    def _asked(
        self,
        kind: str,
        key: TaskKey,
        time_ms: int,
        future: "Future[Receipt] | Future[PairReceipt]",
        *,
        by_pair: bool = False,
    ) -> None:
        """Note what came of a request, when it is known."""
        wall_ms = self._clock.now_ms()

        def note(done: "Future[Any]") -> None:
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
                    by_pair=by_pair,
                )
            )

        future.add_done_callback(note)
