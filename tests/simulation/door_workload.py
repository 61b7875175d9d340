"""Requests to the doors in a simulated run, and their times, from random numbers.

It puts messages into the in-topic, asks nodes for timers and sends changes of recurring
schedules; it notes what was asked, and judges nothing.
"""

import asyncio
import random
import zlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

from msgspec.structs import replace

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.codec import Headers, encode_task
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import format_instant, from_millis
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.recurring.declared import Declaration
from hourhand.scheduler.services.recurring.rule import RecurringRule
from hourhand.scheduler.services.recurring.state import Change, ChangeRequest, change_task
from hourhand.scheduler.services.relay.headers import ID_CHARS_MAX
from hourhand.scheduler.services.relay.message import Delivery, Message, delivery_task
from hourhand.scheduler.services.system.debounced_tasks import debounced_call
from hourhand.scheduler.services.system.unique_tasks import unique_request
from hourhand.scheduler.services.timers.timer import TimerRule
from tests.simulation.debounce_invariants import CALLED
from tests.simulation.declared_sets import NAMES, VERSIONS, set_of
from tests.simulation.door_history import (
    DoorEntry,
    Put,
    RecurringAsked,
    SentLater,
    TimerAnswered,
    TimerAsked,
)
from tests.simulation.member import Member
from tests.simulation.outlets import URIS
from tests.simulation.scenario import DoorLoad
from tests.simulation.sizes import RelayLimits, any_headers, any_relay_id, any_value
from tests.simulation.unique_invariants import WANTED

OUT = "hourhand-relay-out"
KEYS = (None, b"", b"k0", b"k1", b"k2", b"\xff\x00")
SCHEDULES = ("skip", "buffer_one", "allow")


class DoorWorld(Protocol):
    """The world as the workload of the doors sees it."""

    clock: VirtualClock
    broker: MemoryBroker
    pace: float

    @property
    def members(self) -> list[Member]:
        """The nodes that live."""

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later."""

    def note_door(self, entry: DoorEntry) -> None:
        """Keep what was asked."""


class DoorWorkload:
    """Asks until a time."""

    def __init__(
        self,
        world: DoorWorld,
        load: DoorLoad,
        in_topic: MemoryBroker,
        limits: RelayLimits,
        rng: random.Random,
    ) -> None:
        self._world = world
        self._load = load
        self._in_topic = in_topic
        self._limits = limits
        self._rng = rng
        self._writer = MemoryWriter(world.broker)
        self._number = 0
        self._until_ms = 0.0
        self._ends_ms = 0
        self._timers: list[str] = []
        self._known: list[str] = []
        """The timers somebody was told the id of."""
        self._dues: dict[str, int] = {}
        """By relay id: the deadline of the last message."""
        self._schedules: list[str] = []
        self._rules: dict[str, dict[str, Any]] = {}
        """The rule that each of them was set to last."""
        self._version = 0
        """Version that processes have which start now; some still have the one before."""

    def begin(self, until_ms: float) -> None:
        """Plan the first of everything; each plans the next of its kind."""
        self._until_ms, load = until_ms, self._load
        self._ends_ms = self._wall_ms() + round(until_ms - self._now_ms())
        self._repeat(load.messages_per_s, self._put_message)
        self._repeat(load.controls_per_s, self._put_control)
        self._repeat(load.idle_controls_per_s, self._put_idle_control)
        self._repeat(load.later_per_s, self._send_later)
        self._repeat(load.timers_per_s, self._make_timer)
        self._repeat(load.timer_changes_per_s, self._change_timer)
        self._repeat(load.schedule_changes_per_s, self._change_schedule)
        self._repeat(load.deploys_per_s, self._deploy)
        self._repeat(load.operator_changes_per_s, self._operate)
        self._repeat(load.unique_per_s, self._ask_unique)
        self._repeat(load.debounced_per_s, self._call_debounced)
        for _ in range(load.schedules):
            self._world.after(
                self._rng.uniform(0.0, 5_000.0) * self._world.pace, self._set_schedule
            )

    def called(self, body: str) -> None:
        """A timer called back: now and then it is changed from within its callback."""
        if self._until_ms > self._now_ms() and self._rng.random() < self._load.inside:
            timer_id = body.partition("/")[0]
            self._world.after(1.0, lambda: self._ask_timer(timer_id, self._rule()))

    def _repeat(self, per_s: float, action: Callable[[], None]) -> None:
        if not per_s:
            return
        delay_ms = self._rng.expovariate(per_s / 1000.0) * self._world.pace
        if self._now_ms() + delay_ms >= self._until_ms:
            return

        def act() -> None:
            action()
            self._repeat(per_s, action)

        self._world.after(delay_ms, act)

    def _now_ms(self) -> float:
        return self._world.clock.monotonic_ms()

    def _wall_ms(self) -> int:
        return self._world.clock.now_ms()

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _paced(self, duration_ms: float) -> int:
        return round(duration_ms * self._world.pace)

    def _due_ms(self) -> int:
        """Return a deadline: soon, later, the same as others', or past."""
        rng, now_ms = self._rng, self._wall_ms()
        lot = rng.random()
        if lot < 0.1:
            return now_ms - rng.choice((1, 500, 60_000))
        if lot < 0.25:
            return now_ms + rng.randrange(1, self._paced(600))
        round_ms = self._paced(1_000)
        return now_ms // round_ms * round_ms + round_ms * rng.randrange(1, 10)

    # Messages.

    def _put_message(self) -> None:
        number, rng = self._next(), self._rng
        message_id = f"id{rng.randrange(self._load.message_ids)}"
        due_ms = self._due_ms()
        value = b"m%d" % number
        if rng.random() < 0.05:
            # Above what a task holds, so that it is parked beside it.
            value += b"x" * 1_500
        kept: Headers = (("h", b"\x00%d" % number), ("h", None), ("a", b""))[: rng.randrange(4)]
        lot = rng.random()
        deadline = b"soon" if lot < self._load.malformed else format_instant(due_ms).encode()
        action = "" if lot < self._load.malformed else "schedule"
        if self._load.sized and rng.random() < self._load.sized:
            value = any_value(value + b"/", self._limits, rng)
            kept = any_headers(rng, self._limits.row_bytes_max * 5 // 4)
            message_id = any_relay_id(message_id, ID_CHARS_MAX, rng)
            if len(message_id) > ID_CHARS_MAX:
                action = ""
        if action:
            self._dues[message_id] = due_ms
        self._put(action, message_id, due_ms, rng.choice(KEYS), value, kept, deadline)

    def _put_control(self) -> None:
        self._control(lambda late_ms: late_ms < 2_000)

    def _put_idle_control(self) -> None:
        self._control(lambda late_ms: late_ms > 500)

    def _control(self, is_chosen: Callable[[int], bool]) -> None:
        wall_ms = self._wall_ms()
        known = [one for one, due_ms in self._dues.items() if is_chosen(wall_ms - due_ms)]
        if not known:
            return
        message_id, action = self._rng.choice(known), self._rng.choice(("cancel", "reschedule"))
        due_ms = self._due_ms()
        self._put(action, message_id, due_ms, None, b"", (), format_instant(due_ms).encode())

    def _put(
        self,
        action: str,
        message_id: str,
        due_ms: int,
        key: bytes | None,
        value: bytes,
        kept: Headers,
        deadline: bytes,
    ) -> None:
        partitions = self._in_topic.partitions
        partition = zlib.crc32(key or b"") % len(partitions)
        headers: list[tuple[str, bytes | None]] = [
            ("chronosMessageId", message_id.encode()),
            ("chronosDeadline", deadline),
        ]
        if action not in {"", "schedule"}:
            headers.append(("hourhandAction", action.encode()))
        self._rng.shuffle(headers)
        stamp_ms = self._wall_ms()
        offset = partitions[partition].append(stamp_ms, key, value, (*headers, *kept))
        now_ms, fits = self._now_ms(), self._limits.fits(key, value, kept)
        self._world.note_door(
            Put(now_ms, partition, offset, action, message_id, due_ms, key, value, kept, fits)
        )

    def _send_later(self) -> None:
        number, due_ms = self._next(), max(self._due_ms(), self._wall_ms())
        key = self._rng.choice(KEYS)
        value = b"later%d" % number
        task = delivery_task(due_ms, f"later{number:09d}", key, Delivery(Message(OUT, key, value)))

        def noted() -> None:
            self._world.note_door(SentLater(self._now_ms(), due_ms, key, value))

        self._append(task, noted)

    def _append(self, task: Task, acknowledged: Callable[[], None]) -> None:
        partition = partition_of(task.ordering_id, self._writer.partition_count())
        future = self._writer.append(partition, task.ordering_id.encode(), encode_task(task))
        future.add_done_callback(lambda done: None if done.exception() else acknowledged())

    # Timers.

    def _make_timer(self) -> None:
        timer_id = f"{len(self._timers):016x}"
        self._timers.append(timer_id)
        self._ask_timer(timer_id, self._rule(), made=True)

    def _change_timer(self) -> None:
        if self._known:
            timer_id = self._rng.choice(self._known[-12:])
            deletes = self._rng.random() < 0.3
            self._ask_timer(timer_id, None if deletes else self._rule())

    def _rule(self) -> TimerRule:
        rng = self._rng
        interval_ms = rng.choice((0, self._paced(400), self._paced(1_000), self._paced(3_000)))
        repeats = rng.choice((1, 1, 2, 5, 9)) if interval_ms else 0
        uri = rng.choices(list(URIS), list(URIS.values()))[0]
        repeat_for_ms = repeats * interval_ms + rng.choice((0, interval_ms // 2))
        return TimerRule(interval_ms, repeat_for_ms, uri, "")

    def _ask_timer(self, timer_id: str, rule: TimerRule | None, *, made: bool = False) -> None:
        number, members = self._next(), [m for m in self._world.members if not m.is_stopping]
        if rule is not None:
            # A target hears from the body whose it is.
            rule = replace(rule, opaque=f"{timer_id}/{number}")
        if not members:
            return
        doors = self._rng.choice(members).doors
        assert doors is not None, "every node of this world has doors"
        note = self._world.note_door
        note(TimerAsked(self._now_ms(), number, timer_id, rule, made))

        def answered(done: "asyncio.Task[None]") -> None:
            error = "" if done.exception() is None else type(done.exception()).__name__
            note(TimerAnswered(self._now_ms(), number, error))
            if made and not error:
                self._known.append(timer_id)

        doors.ask(doors.service.put(timer_id, rule, new=made), number).add_done_callback(answered)

    # Recurring schedules.

    def _set_schedule(self) -> None:
        name = f"every-{len(self._schedules)}"
        self._schedules.append(name)
        self._change(name, Change.SET)

    def _change_schedule(self) -> None:
        if self._schedules:
            kinds = (Change.SET, Change.PAUSE, Change.RESUME, Change.TRIGGER, Change.DELETE)
            change = self._rng.choices(kinds, (4, 2, 3, 2, 1))[0]
            self._change(self._rng.choice(self._schedules), change)

    def _change(self, name: str, change: Change) -> None:
        number = self._next()
        rule = self._rule_to_set(name) if change is Change.SET else None
        unique = f"{self._wall_ms():015d}-{number:09d}"
        task = change_task(name, self._wall_ms(), unique, ChangeRequest(change, rule))
        entry = RecurringAsked(self._now_ms(), number, name, change.value)
        self._append(task, lambda: self._world.note_door(entry))

    def _rule_to_set(self, name: str) -> dict[str, Any]:
        """Return a rule, often the one that was set before, as of an application that starts."""
        if name not in self._rules or self._rng.random() < 0.4:
            self._rules[name] = self._recurring_rule(name)
        return self._rules[name]

    def _recurring_rule(self, name: str) -> dict[str, Any]:
        rng = self._rng
        wait_ms = self._until_ms - self._now_ms()
        values: dict[str, Any] = {
            "ordering_id": f"s-{name}",
            "overlap": rng.choice(SCHEDULES),
            "data": dict(self._plan()),
            # Before the run is, or it would never be finished.
            "ends_ms": self._wall_ms() + round(min(wait_ms, self._paced(30_000))) + 1_000,
            "catch_up_ms": rng.choice((self._paced(1_500), 3_600_000)),
        }
        if rng.random() < 0.3:
            values["cron"] = f"*/{rng.choice((1, 2, 5))} * * * * *"
        else:
            values["every_ms"] = self._paced(rng.choice((700, 1_000, 2_500, 11_000)))
        if rng.random() < 0.2:
            values["count_max"] = rng.randrange(1, 6)
        if rng.random() < 0.2:
            values["jitter_ms"] = self._paced(300)
        checked = RecurringRule.model_validate(values)
        return checked.model_dump(mode="json", exclude_defaults=True)

    # Recurring schedules that are declared.

    def declared(self) -> Declaration:
        """Return the set that a process declares which starts now."""
        version = self._version - (self._rng.random() < 0.3)
        return set_of(version % VERSIONS, self._ends_ms)

    def _deploy(self) -> None:
        self._version += self._rng.randrange(1, VERSIONS)

    def _operate(self) -> None:
        change = self._rng.choice((Change.PAUSE, Change.RESUME))
        self._change(self._rng.choice(NAMES), change)

    # Tasks of which one is made in a window, or after it.

    def _ask_unique(self) -> None:
        self._request(WANTED, unique_request)

    def _call_debounced(self) -> None:
        self._request(CALLED, debounced_call)

    def _request(self, prefix: str, make: Callable[[Task, timedelta, int, str], Task]) -> None:
        number, rng = self._next(), self._rng
        # Clients' clocks differ, and each request asks for a time that no other asks for.
        asked_ms = self._wall_ms() + rng.randrange(-400, 400)
        due_ms = self._wall_ms() + rng.randrange(self._paced(3_000)) // 1_000 * 1_000
        task = Task.model_construct(
            ordering_id=f"{prefix}{rng.randrange(self._load.unique_ids)}",
            scheduled_time=from_millis(due_ms // 1_000 * 1_000 + number % 1_000),
            uniqueness_key="k",
            data=dict(self._plan()),
            kind=None,
        )
        window_ms = self._paced(rng.choice((300, 1_000, 1_000, 4_000)))
        window = timedelta(milliseconds=window_ms)
        request = make(task, window, asked_ms, f"{asked_ms:015d}-{number:09d}")
        self._append(request, lambda: None)

    def _plan(self) -> Mapping[str, Any]:
        """Return data that says how each attempt of an occurrence goes."""
        runs = [f"ok:{self._paced(self._rng.choice((5, 5, 200, 2_200)))}"]
        return {"n": 0, "runs": runs, "blocking": False}
