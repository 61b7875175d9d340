"""Lifecycle events to a topic, before what they tell of becomes durable.

``around`` puts itself before the stores of a node or bulk writer: the events of a write are
produced first, and the write begins when the topic has them.  So an event is never lost by the
death of its process; it may be told twice, with one id, or tell of an attempt that then runs
again.  ``emit`` tells of starts, for which nothing waits.  It never blocks: a slow topic makes
the stores look slow, and the engine's own limits bound what waits.
"""

import itertools
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

import msgspec

from actors.kernel.futures import gather
from actors.model.events import AttemptStarted, Event, RetriesExhausted
from actors.model.key import TaskKey
from actors.model.memory import PAGE_BYTES_MAX
from actors.model.status import AttemptRecord, Completion
from actors.model.task import StoredTask
from actors.ports.clock import Clock
from actors.ports.store import ScheduleStore, StatusStore, Stores, TaskPage
from scheduler.ports.lifecycle import (
    LifecycleEvent,
    accepted_event,
    attempt_event,
    blocked_event,
    closed_event,
    encode_event,
    started_event,
)
from scheduler.ports.messages import MessageWriter

Tell = Callable[[Sequence[LifecycleEvent], Callable[[], "Future[None]"]], "Future[None]"]


class LifecycleFeed:
    """Also a ``Telemetry``; used from any thread."""

    def __init__(self, messages: MessageWriter, topic: str, clock: Clock) -> None:
        self._messages = messages
        self._topic = topic
        self._clock = clock
        # With the process's own name, for a start is told by the process it happens in.
        self._process = uuid.uuid4().hex
        self._numbers = itertools.count()

    def around(self, stores: Stores) -> Stores:
        """Return stores whose writes are told first; closing them closes the feed."""

        def close() -> None:
            # What was told may still have to be written.
            self.close()
            stores.close()

        return msgspec.structs.replace(
            stores,
            close=close,
            schedule=ToldSchedule(stores.schedule, self._tell, self._clock),
            status=ToldStatus(stores.status, self._tell),
        )

    def emit(self, event: Event) -> None:
        """Tell of a start, or of an ordering id that waits for an operator; nothing waits for it.

        What is told of the same ordering id later comes later in the topic.
        """
        match event:
            case AttemptStarted(partition=partition, key=key, attempt=attempt):
                told = started_event(partition, key, attempt, self._clock.now_ms(), self._which())
            case RetriesExhausted(partition=partition, key=key, on_exhausted="block"):
                told = blocked_event(partition, key, self._clock.now_ms(), self._which())
            case _:
                return
        try:
            self._produce(told)
        except Exception:
            # The contract of the port: nobody fails because somebody wanted to know.
            logging.getLogger("hourhand").debug("a start could not be told", exc_info=True)

    def close(self) -> None:
        """Wait, bounded, for what the topic has not acknowledged."""
        self._messages.close()

    def _which(self) -> str:
        return f"{self._process} {next(self._numbers)}"

    def _produce(self, event: LifecycleEvent) -> "Future[None]":
        return self._messages.produce(
            self._topic, event.ordering_id.encode(), encode_event(event), ()
        )

    def _tell(
        self, events: Sequence[LifecycleEvent], write: "Callable[[], Future[None]]"
    ) -> "Future[None]":
        """Produce events, then write; the future is the write's."""
        if not events:
            return write()
        outcome: Future[None] = Future()
        outcome.set_running_or_notify_cancel()
        told = gather([self._produce(each) for each in events])
        told.add_done_callback(partial(_go_on, write, outcome))
        return outcome


def _go_on(
    write: "Callable[[], Future[None]]", outcome: "Future[None]", told: "Future[object]"
) -> None:
    """Write when the topic has the events; fail as it failed."""
    try:
        told.result()
        write().add_done_callback(partial(_pass_on, outcome))
    except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the write
        outcome.set_exception(error)


def _pass_on(outcome: "Future[None]", written: "Future[None]") -> None:
    try:
        outcome.set_result(written.result())
    except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the write
        outcome.set_exception(error)


class ToldSchedule:
    """``ScheduleStore``: rows are told as accepted before they are written."""

    def __init__(self, store: ScheduleStore, tell: Tell, clock: Clock) -> None:
        self._store = store
        self._tell = tell
        self._clock = clock

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Tell of the rows, then write them."""
        now_ms = self._clock.now_ms()
        events = [accepted_event(partition, task, write_time, now_ms) for task in tasks]
        return self._tell(events, partial(self._store.insert_tasks, partition, tasks, write_time))

    def load_tasks(
        self,
        partition: int,
        after: TaskKey,
        before_ms: int,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """As the store behind it."""
        return self._store.load_tasks(partition, after, before_ms, limit, page_bytes)

    def find_tasks(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, StoredTask]]":
        """As the store behind it."""
        return self._store.find_tasks(partition, keys)

    def load_ordering(
        self,
        partition: int,
        ordering_id: str,
        after: TaskKey,
        up_to: TaskKey,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """As the store behind it."""
        return self._store.load_ordering(partition, ordering_id, after, up_to, limit, page_bytes)

    def delete_tasks(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """As the store behind it: what was told of stays told."""
        return self._store.delete_tasks(partition, first_hour_ms, end_hour_ms, write_time)


class ToldStatus:
    """``StatusStore``: ends of attempts and keys are told before they are written."""

    def __init__(self, store: StatusStore, tell: Tell) -> None:
        self._store = store
        self._tell = tell

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Tell of the ends, then write them."""
        events = [closed_event(partition, each, write_time) for each in completions]
        return self._tell(
            events, partial(self._store.insert_completions, partition, completions, write_time)
        )

    def load_completions(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[Completion]]":
        """As the store behind it."""
        return self._store.load_completions(partition, after, up_to)

    def find_completions(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, Completion]]":
        """As the store behind it."""
        return self._store.find_completions(partition, keys)

    def insert_attempts(
        self, partition: int, attempts: Sequence[AttemptRecord], write_time: int
    ) -> "Future[None]":
        """Tell of those that failed, then write all."""
        events = [event for each in attempts if (event := attempt_event(partition, each))]
        return self._tell(
            events, partial(self._store.insert_attempts, partition, attempts, write_time)
        )

    def load_attempts(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[AttemptRecord]]":
        """As the store behind it."""
        return self._store.load_attempts(partition, after, up_to)

    def find_attempts(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[AttemptRecord]]":
        """As the store behind it."""
        return self._store.find_attempts(partition, keys)

    def delete_statuses(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """As the store behind it: what was told of stays told."""
        return self._store.delete_statuses(partition, first_hour_ms, end_hour_ms, write_time)
