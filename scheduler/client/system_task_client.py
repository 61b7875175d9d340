"""The part of a client that makes system tasks: messages to be sent later, recurring schedules.

Decides what is refused (CallerError) because such a task could never do it; what the task does is
decided where it runs.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from actors.model.codec import Headers
from actors.model.definition import Definition, DefinitionKind
from actors.model.display import shown
from actors.model.errors import HourhandError, InvalidTask, NoSuchSchedule
from actors.model.sealed import seal_of
from actors.model.task import Task
from actors.ports.clock import Clock
from scheduler.configuration.settings import Settings
from scheduler.futures.answers import answered
from scheduler.futures.light_future import LightFuture, and_then
from scheduler.payloads.codecs import PayloadCodecs
from scheduler.records.receipt import Receipt, refused
from scheduler.services.definition_book import DefinitionBook
from scheduler.services.recurring.requests import request_task, rule_of, set_task
from scheduler.services.recurring.rule import Overlap, RecurringRule, checked_name
from scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    name_of,
    recurring_of,
    written_rule,
)
from scheduler.services.relay.sending import MessageSender, due_ms, message_to_send

_RECENT_NAMES_MAX = 1_000


class SystemTaskClient(ABC):
    """The part of a client that makes system tasks."""

    _settings: Settings
    _payloads: PayloadCodecs | None
    _clock: Clock
    _sender: MessageSender

    def __init__(self) -> None:
        self._recent_names: deque[str] = deque(maxlen=_RECENT_NAMES_MAX)
        """Of schedules that this client has set, which no node may have taken up yet."""

    @abstractmethod
    def _refuse_when_closed(self) -> None:
        """Raise where the client may not be used any more."""

    @abstractmethod
    def _refuse_kind(self, what: str, kind: str | None) -> None:
        """Raise InvalidTask where the executors given to this client run no such kind."""

    @abstractmethod
    def _append_own(self, task: Task) -> "LightFuture[Receipt]":
        """Append a system task, whatever its time."""

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
    ) -> "LightFuture[Receipt]":
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
            self._refuse_when_closed()
            return self._sender.send(message, due_ms(when, now_ms), now_ms).watch()
        except HourhandError as error:
            return refused(error)

    def schedule_recurring(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str | ZoneInfo = "UTC",
        ordering_id: str | None = None,
        kind: str | None = None,
        priority: int | None = None,
        data: Mapping[str, JsonValue] | None = None,
        overlap: Overlap = "skip",
        catch_up: timedelta = timedelta(hours=1),
        jitter: timedelta = timedelta(0),
        starts: datetime | None = None,
        ends: datetime | None = None,
        count_max: int | None = None,
    ) -> "LightFuture[Receipt]":
        """Run a task again and again, by a cron expression or an interval.

        Changes nothing where there is such a schedule of the same name already, and replaces one
        that differs.  ``docs/recurring.md`` says what each argument means.  The future fails with
        InvalidTask where no such schedule can be, and where the executors that this client was
        given do not run ``kind``; a client without them takes every kind.  Where payload codecs
        seal its data, the call blocks for one read of the store, and the future fails with
        StoreUnavailable.
        """

        def task() -> Task:
            rule = rule_of(
                name,
                cron=cron,
                every=every,
                time_zone=time_zone,
                ordering_id=ordering_id,
                kind=kind,
                priority=priority,
                data=data,
                overlap=overlap,
                catch_up=catch_up,
                jitter=jitter,
                starts=starts,
                ends=ends,
                count_max=count_max,
            )
            return self._set_task(name, rule)

        return self._appended(task)

    def _set_task(self, name: str, rule: RecurringRule) -> Task:
        self._refuse_kind(f"the recurring schedule {shown(name)}", rule.kind)
        self._recent_names.append(name)
        return set_task(name, self._sealed_rule(name, rule), self._clock.now_ms())

    def _sealed_rule(self, name: str, rule: RecurringRule) -> RecurringRule:
        if self._payloads is None or not self._payloads.seals:
            return rule
        data = self._payloads.sealed_recurring(rule.data, name, rule.kind)
        sealed = rule.model_copy(update={"data": dict(data), "seal": seal_of(data)})
        # Sealed twice the same data differs, and a rule that differs begins anew.
        found = answered(self._opened_definitions().find(name_of(name)))
        known = None if found is None or found.ended else recurring_of(found)
        if known is None or not _shares_seal(known.rule, sealed):
            return sealed
        is_equal = written_rule(self._opened_recurring(known).rule) == written_rule(rule)
        return known.rule if is_equal else sealed

    def pause_recurring(self, name: str) -> "LightFuture[Receipt]":
        """Let a schedule rest: it is due at no time until it is resumed.

        This and the three calls below read the store before they send, and fail with
        NoSuchSchedule where it has no schedule of this name; one that another process has just
        set may not be there yet.  What is asked before their answer may overtake them.
        """
        return self._change_recurring(name, Change.PAUSE)

    def resume_recurring(self, name: str) -> "LightFuture[Receipt]":
        """Let a paused schedule go on from now; what it missed is not made up for."""
        return self._change_recurring(name, Change.RESUME)

    def trigger_recurring(self, name: str) -> "LightFuture[Receipt]":
        """Run a schedule's task now, besides the times at which it is due, paused or not."""
        return self._change_recurring(name, Change.TRIGGER)

    def delete_recurring(self, name: str) -> "LightFuture[Receipt]":
        """End a schedule; a task that was made already still runs."""
        return self._change_recurring(name, Change.DELETE)

    def find_recurring(self, name: str) -> Recurring | None:
        """Return a schedule as the store has it; None where there is none, or not yet.

        Blocks for one read of the store; raises StoreUnavailable.
        """
        found = self._opened_definitions().find(name_of(checked_name(name)))
        current = _current(answered(found))
        return None if current is None else self._opened_recurring(current)

    def list_recurring(self) -> list[Recurring]:
        """Return all schedules, by name; blocks, as ``find_recurring``."""
        book = self._opened_definitions()
        found = map(recurring_of, book.all_of(DefinitionKind.RECURRING))
        current = (self._opened_recurring(one) for one in found if not one.state.over)
        return sorted(current, key=lambda one: one.name)

    def _opened_recurring(self, found: Recurring) -> Recurring:
        """Return a schedule with plain data; as it is stored where it cannot be opened."""
        rule = found.rule
        if self._payloads is None:
            return found
        try:
            data = self._payloads.opened_data(rule.task_data, "", f"{found.name}@", rule.kind)
        except Exception:  # noqa: BLE001 - a codec is user code, and the rest can be shown
            return found
        return found._replace(rule=rule.model_copy(update={"data": data, "seal": None}))

    def _change_recurring(self, name: str, change: Change) -> "LightFuture[Receipt]":
        request = ChangeRequest(change)

        def append(definition: Definition | None = None) -> LightFuture[Receipt]:
            # One that this client has set may be on its way to the store.
            if _current(definition) is None and name not in self._recent_names:
                raise NoSuchSchedule(
                    f"there is no recurring schedule {shown(name)}, or no node has it yet: see"
                    " list_recurring() for those there are"
                )
            return self._append_own(request_task(name, request, self._clock.now_ms()))

        try:
            self._refuse_when_closed()
            if checked_name(name) in self._recent_names:
                return append()
            return and_then(self._opened_definitions().find(name_of(name)), append).watch()
        except HourhandError as error:
            return refused(error)

    def _appended(self, make: Callable[[], Task]) -> "LightFuture[Receipt]":
        """Append the task that ``make`` returns; what it refuses comes through the future."""
        try:
            return self._append_own(make())
        except HourhandError as error:
            return refused(error)

    def _refuse_topic(self, topic: str) -> None:
        names = self._settings.topic
        if not self._settings.relay.allows_sending(topic, (names.name, names.dead_letter)):
            raise InvalidTask(
                f"cannot send to topic {shown(topic)}: it is Hourhand's own, or"
                " relay.target_topics names others only"
            )


def _shares_seal(one: RecurringRule, other: RecurringRule) -> bool:
    """Whether data went through the same codecs, with the same keys and members left plain."""
    envelopes = one.envelope, other.envelope
    if envelopes[0] is None or envelopes[1] is None:
        return False
    return envelopes[0].steps == envelopes[1].steps and one.data == other.data


def _current(definition: Definition | None) -> Recurring | None:
    """Return the schedule that a row holds; None for none, or one that is over."""
    if definition is None or definition.ended:
        return None
    recurring = recurring_of(definition)
    return None if recurring.state.over else recurring
