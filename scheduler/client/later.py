"""What a client asks for beside tasks: messages to be sent later, recurring schedules.

Decides nothing itself: it makes the tasks that do, and refuses (CallerError) what they could
never do.  ``SchedulerClient`` has these methods; they are here because they are about other
things than tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from pydantic import JsonValue

from actors.model.codec import Headers
from actors.model.definition import DefinitionKind
from actors.model.display import shown
from actors.model.errors import HourhandError, InvalidTask, TaskTooLarge
from actors.model.task import Task
from actors.ports.clock import Clock
from scheduler.configuration.settings import Settings
from scheduler.services.definition_book import DefinitionBook
from scheduler.services.own_tasks import unique_in_order
from scheduler.services.recurring.requests import request_task, rule_of, set_task
from scheduler.services.recurring.rule import Overlap, checked_name
from scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    name_of,
    recurring_of,
)
from scheduler.services.relay.delivery import Message
from scheduler.services.relay.sending import due_ms, message_to_send, sending_task
from scheduler.services.relay.sizes import beside, fits_inline

_READ_TIMEOUT_S = 30.0

Proof = TypeVar("Proof")
"""What a client returns for a record that the log holds: a ``Receipt``."""


class LaterRequests(ABC, Generic[Proof]):
    """The part of a client that makes Hourhand's own tasks."""

    _settings: Settings
    _clock: Clock

    @abstractmethod
    def _append_own(self, task: Task) -> "Future[Proof]":
        """Append a task of Hourhand's own, whatever its time."""

    @abstractmethod
    def _opened_definitions(self) -> DefinitionBook:
        """Return the definitions, opened when they are first needed."""

    def send_later(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        when: datetime | timedelta,
        headers: Headers = (),
    ) -> "Future[Proof]":
        """Produce a message to a Kafka topic at an aware time, or after a delay.

        The message appears byte for byte, at least once; messages of one key and time in the
        order of the calls.  The future resolves when the log holds it durably; the receipt's key
        can be cancelled and rescheduled like a task's.  It fails with InvalidTask for what
        Kafka could not hold, or for a topic that ``relay.target_topics`` does not allow.
        """
        try:
            message = message_to_send(topic, key, value, headers)
            self._refuse_topic(topic)
            now_ms = self._clock.now_ms()
            return self._send_message(message, due_ms(when, now_ms), now_ms)
        except HourhandError as error:
            refused: Future[Proof] = Future()
            refused.set_exception(error)
            return refused

    def schedule_recurring(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str = "UTC",
        ordering_id: str | None = None,
        data: Mapping[str, JsonValue] | None = None,
        overlap: Overlap = "skip",
        catch_up: timedelta = timedelta(hours=1),
        jitter: timedelta = timedelta(0),
        starts: datetime | None = None,
        ends: datetime | None = None,
        count_max: int | None = None,
    ) -> "Future[Proof]":
        """Run a task again and again, by a cron expression or an interval.

        Replaces a schedule of the same name.  Each time it is due a task with ``ordering_id``
        (by default the name) and ``data`` is run by this installation's executor; its uniqueness
        key is ``name@time``.  ``docs/recurring.md`` says what each argument means.  The future
        fails with InvalidTask where no such schedule can be.
        """

        def task() -> Task:
            rule = rule_of(
                name,
                cron=cron,
                every=every,
                time_zone=time_zone,
                ordering_id=ordering_id,
                data=None if data is None else dict(data),
                overlap=overlap,
                catch_up=catch_up,
                jitter=jitter,
                starts=starts,
                ends=ends,
                count_max=count_max,
            )
            return set_task(name, rule, self._clock.now_ms())

        return self._appended(task)

    def pause_recurring(self, name: str) -> "Future[Proof]":
        """Let a schedule rest: it is due at no time until it is resumed."""
        return self._change_recurring(name, Change.PAUSE)

    def resume_recurring(self, name: str) -> "Future[Proof]":
        """Let a paused schedule go on from now; what it missed is not made up for."""
        return self._change_recurring(name, Change.RESUME)

    def trigger_recurring(self, name: str) -> "Future[Proof]":
        """Run a schedule's task now, besides the times at which it is due, paused or not."""
        return self._change_recurring(name, Change.TRIGGER)

    def delete_recurring(self, name: str) -> "Future[Proof]":
        """End a schedule; a task that was made already still runs."""
        return self._change_recurring(name, Change.DELETE)

    def find_recurring(self, name: str) -> Recurring | None:
        """Return a schedule as the store has it; None where there is none, or not yet.

        Blocks for one read of the store; raises StoreUnavailable.
        """
        found = self._opened_definitions().find(name_of(checked_name(name)))
        definition = found.result(timeout=_READ_TIMEOUT_S)
        if definition is None or definition.ended:
            return None
        recurring = recurring_of(definition)
        return None if recurring.state.over else recurring

    def list_recurring(self) -> list[Recurring]:
        """Return all schedules, by name; blocks, as ``find_recurring``."""
        book = self._opened_definitions()
        found = map(recurring_of, book.all_of(DefinitionKind.RECURRING, _READ_TIMEOUT_S))
        return sorted((one for one in found if not one.state.over), key=lambda one: one.name)

    def _change_recurring(self, name: str, change: Change) -> "Future[Proof]":
        request = ChangeRequest(change)
        return self._appended(lambda: request_task(name, request, self._clock.now_ms()))

    def _appended(self, make: Callable[[], Task]) -> "Future[Proof]":
        """Append the task that ``make`` returns; what it refuses comes through the future."""
        try:
            return self._append_own(make())
        except HourhandError as error:
            refused: Future[Proof] = Future()
            refused.set_exception(error)
            return refused

    def _refuse_topic(self, topic: str) -> None:
        names = self._settings.topic
        if not self._settings.relay.allows_sending(topic, (names.name, names.dead_letter)):
            raise InvalidTask(
                f"cannot send to topic {shown(topic)}: it is Hourhand's own, or"
                " relay.target_topics names others only"
            )

    def _send_message(self, message: Message, when_ms: int, now_ms: int) -> "Future[Proof]":
        """Let a message wait: in a task, or beside one where it is long."""
        if fits_inline(message, self._settings.relay.inline_bytes_max):
            return self._append_own(sending_task(message, when_ms, now_ms))
        return self._send_parked(message, when_ms, now_ms)

    def _send_parked(self, message: Message, when_ms: int, now_ms: int) -> "Future[Proof]":
        """Make the message durable beside its task before the task is."""
        place = unique_in_order(now_ms)
        task = sending_task(message, when_ms, now_ms, parked=place)
        outcome: Future[Proof] = Future()
        outcome.set_running_or_notify_cancel()
        try:
            row = beside(place, message, self._settings.tree.execution.row_bytes_max)
        except TaskTooLarge as error:
            outcome.set_exception(error)
            return outcome

        def follow(appended: "Future[Proof]") -> None:
            error = appended.exception()
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(appended.result())

        def append(saved: "Future[None]") -> None:
            error = saved.exception()
            if error is not None:
                outcome.set_exception(error)
            else:
                self._append_own(task).add_done_callback(follow)

        self._opened_definitions().save(row).add_done_callback(append)
        return outcome
