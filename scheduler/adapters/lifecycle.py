"""Lifecycle events to a topic, before the events' writes become durable.

``around`` wraps the stores of a node or bulk writer: the events of a write are produced first, and
the write begins when the topic has them. So an event is never lost by the death of its process; it
may be published twice, with one id, or belong to an attempt that then runs again. ``emit``
publishes starts, which nothing waits for. It never blocks: a slow topic makes the stores look slow,
and the engine's own limits bound the waiting work.
"""

import itertools
import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

import msgspec

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.operations.events import (
    AttemptStarted,
    Event,
    RetriesExhausted,
    TaskHeld,
)
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import ScheduleStore, StatusStore, Stores
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.lifecycle import (
    LifecycleEvent,
    accepted_event,
    attempt_event,
    blocked_event,
    closed_event,
    encode_event,
    started_event,
)
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.runtime.light_future import and_then

Publish = Callable[[Sequence[LifecycleEvent], Callable[[], "Future[None]"]], "Future[None]"]


def publish_lives(settings: Settings, messages: MessageWriter, clock: Clock) -> "LifecycleFeed":
    """Return a publisher to the topic of the settings."""
    assert settings.events.topic is not None, "only asked for where it is named"
    return LifecycleFeed(messages, settings.events.topic, clock)


class LifecycleFeed:
    """Also a ``Telemetry``; used from any thread."""

    def __init__(self, messages: MessageWriter, topic: str, clock: Clock) -> None:
        self._messages = messages
        self._topic = topic
        self._clock = clock
        # An id of this process: a start is published by the process in which it happens.
        self._process = uuid.uuid4().hex
        self._numbers = itertools.count()

    def publishing(self, stores: Stores) -> Stores:
        """Return stores whose writes are published first; closing them closes the feed."""

        def close() -> None:
            # Published events may still have to be written.
            self.close()
            stores.close()

        return msgspec.structs.replace(
            stores,
            close=close,
            schedule=PublishedSchedule(stores.schedule, self._publish, self._clock),
            status=PublishedStatus(stores.status, self._publish),
        )

    def emit(self, event: Event) -> None:
        """Publish a start, or a blocked ordering id; nothing waits for it.

        Later events of the same ordering id come later in the topic.
        """
        match event:
            case AttemptStarted(partition=partition, key=key, attempt=attempt):
                found = started_event(partition, key, attempt, self._clock.now_ms(), self._which())
            case (
                RetriesExhausted(partition=partition, key=key, on_exhausted="block")
                | TaskHeld(partition=partition, key=key)
            ):
                found = blocked_event(partition, key, self._clock.now_ms(), self._which())
            case _:
                return
        try:
            self._produce(found)
        except Exception:
            # The contract of the port: reporting never fails its caller.
            logging.getLogger("hourhand").debug("a start could not be published", exc_info=True)

    def close(self) -> None:
        self._messages.close()

    def _which(self) -> str:
        return f"{self._process} {next(self._numbers)}"

    def _produce(self, event: LifecycleEvent) -> "Future[None]":
        return self._messages.produce(
            self._topic, event.ordering_id.encode(), encode_event(event), ()
        )

    def _publish(
        self, events: Sequence[LifecycleEvent], write: "Callable[[], Future[None]]"
    ) -> "Future[None]":
        """Produce events, then write; the future is the write's."""
        if not events:
            return write()
        published = gather([self._produce(each) for each in events])
        return and_then(published, lambda _published: write())


class PublishedSchedule:
    """``ScheduleStore``: rows are published as accepted before they are written."""

    def __init__(self, store: ScheduleStore, publish: Publish, clock: Clock) -> None:
        self._insert_tasks = store.insert_tasks
        self._publish = publish
        self._clock = clock
        self.load_tasks = store.load_tasks
        self.find_tasks = store.find_tasks
        self.load_ordering = store.load_ordering
        self.find_keys = store.find_keys
        # Events that are already published stay.
        self.delete_tasks = store.delete_tasks

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Publish the rows, then write them."""
        now_ms = self._clock.now_ms()
        events = [accepted_event(partition, task, write_time, now_ms) for task in tasks]
        return self._publish(events, partial(self._insert_tasks, partition, tasks, write_time))


class PublishedStatus:
    """``StatusStore``: ends of attempts and keys are published before they are written."""

    def __init__(self, store: StatusStore, publish: Publish) -> None:
        self._insert_completions = store.insert_completions
        self._insert_attempts = store.insert_attempts
        self._publish = publish
        self.load_completions = store.load_completions
        self.find_completions = store.find_completions
        self.load_attempts = store.load_attempts
        self.find_attempts = store.find_attempts
        self.delete_statuses = store.delete_statuses

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Publish the ends, then write them."""
        events = [closed_event(partition, each, write_time) for each in completions]
        return self._publish(
            events, partial(self._insert_completions, partition, completions, write_time)
        )

    def insert_attempts(
        self, partition: int, attempts: Sequence[AttemptRecord], write_time: int
    ) -> "Future[None]":
        """Publish failed attempts, then write all."""
        events = [event for each in attempts if (event := attempt_event(partition, each))]
        return self._publish(
            events, partial(self._insert_attempts, partition, attempts, write_time)
        )
