"""The requests of a client for system tasks: messages to be sent later, recurring schedules.

Decides which requests are refused (CallerError) because their task could never succeed; the
executor of the task decides its effect.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.definition import Definition, DefinitionKind
from hourhand.actors.model.task.sealed import seal_of
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import HourhandError, InvalidTask, NoSuchSchedule
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.runtime.light_future import LightFuture, and_then
from hourhand.scheduler.services.recurring.declared import (
    Declaration,
    Declared,
    declaration_of,
    declaration_task,
    declared_of,
    name_of_owner,
)
from hourhand.scheduler.services.recurring.requests import request_task, set_task
from hourhand.scheduler.services.recurring.rule import RecurringRule, checked_name
from hourhand.scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    name_of,
    recurring_of,
    written_rule,
)
from hourhand.scheduler.services.relay.sending import MessageSender, due_ms, message_to_send
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.receipt import Receipt, refused

_RECENT_NAMES_MAX = 1_000


@dataclass(kw_only=True, eq=False)
class SystemRequests:
    """A client's calls that make system tasks."""

    settings: Settings
    payloads: PayloadCodecs | None
    clock: Clock
    sender: MessageSender
    append: Callable[[Task], LightFuture[Receipt]]
    """Appends a system task with any time."""
    definitions: Callable[[], DefinitionBook]
    """Returns the definitions, which are opened at their first use."""
    refuse_when_closed: Callable[[], None]
    """Raises NodeStopped if the client is closed."""
    refuse_kind: Callable[[str, str | None], None]
    """Raises InvalidTask if the executors given to the client do not run this kind."""
    _recent_names: deque[str] = field(
        init=False, default_factory=lambda: deque(maxlen=_RECENT_NAMES_MAX)
    )
    """Names of schedules that this client has set, which no node may have stored yet."""

    def send_later(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        when: datetime | timedelta,
        headers: Headers,
    ) -> "LightFuture[Receipt]":
        """Produce a message to a Kafka topic later; see ``SchedulerClient.send_later``."""
        try:
            message = message_to_send(topic, key, value, headers)
            self._refuse_topic(topic)
            now_ms = self.clock.now_ms()
            self.refuse_when_closed()
            return self.sender.send(message, due_ms(when, now_ms), now_ms).watch()
        except HourhandError as error:
            return refused(error)

    def set_recurring(
        self, name: str, make_rule: Callable[[], RecurringRule]
    ) -> "LightFuture[Receipt]":
        """Set a schedule to a rule; see ``SchedulerClient.schedule_recurring``."""
        try:
            return self.append(self._set_task(name, make_rule()))
        except HourhandError as error:
            return refused(error)

    def _set_task(self, name: str, rule: RecurringRule) -> Task:
        self.refuse_kind(f"the recurring schedule {shown(name)}", rule.kind)
        self._recent_names.append(name)
        return set_task(name, self._sealed_rule(name, rule), self.clock.now_ms())

    def _sealed_rule(self, name: str, rule: RecurringRule) -> RecurringRule:
        if self.payloads is None or not self.payloads.seals:
            return rule
        data = self.payloads.sealed_recurring(rule.data, name, rule.kind)
        sealed = rule.model_copy(update={"data": dict(data), "seal": seal_of(data)})
        # Sealing the same data twice gives different texts, and a changed rule would begin again.
        found = answered(self.definitions().find(name_of(name)))
        known = None if found is None or found.ended else recurring_of(found)
        if known is None or not _shares_seal(known.rule, sealed):
            return sealed
        is_equal = written_rule(self._opened_recurring(known).rule) == written_rule(rule)
        return known.rule if is_equal else sealed

    def declaration_of(
        self, rules: Mapping[str, RecurringRule], *, forced: bool = False
    ) -> Declaration:
        """Return the declaration of an owner's schedules; blocks where codecs seal their data.

        ``forced`` has the set take effect whatever was declared before.
        """
        sealed = {name: self._sealed_rule(name, rule) for name, rule in rules.items()}
        return declaration_of(rules, sealed, forced=forced)

    def declare_recurring(self, owner: str, declaration: Declaration) -> "LightFuture[Receipt]":
        """Declare all schedules of an owner, or renew what is in force.

        The future fails with TaskTooLarge if they have too much data for one record.
        """
        try:
            return self.append(declaration_task(owner, declaration, self.clock.now_ms()))
        except HourhandError as error:
            return refused(error)

    def stored_recurring(self, name: str) -> Recurring:
        """Return a schedule in its stored form; raises NoSuchSchedule. Blocks."""
        found = _current(answered(self.definitions().find(name_of(checked_name(name)))))
        if found is None:
            raise NoSuchSchedule(f"there is no recurring schedule {shown(name)}")
        return found

    def find_declared(self, owner: str) -> Declared | None:
        """Return the set of an owner that is in force; blocks for one read of the store."""
        return declared_of(answered(self.definitions().find(name_of_owner(owner))))

    def find_recurring(self, name: str) -> Recurring | None:
        """Return a stored schedule; see ``SchedulerClient.find_recurring``."""
        found = self.definitions().find(name_of(checked_name(name)))
        current = _current(answered(found))
        return None if current is None else self._opened_recurring(current)

    def list_recurring(self) -> list[Recurring]:
        """Return all schedules, by name; see ``SchedulerClient.list_recurring``."""
        book = self.definitions()
        found = map(recurring_of, book.all_of(DefinitionKind.RECURRING))
        current = (self._opened_recurring(one) for one in found if not one.state.over)
        return sorted(current, key=lambda one: one.name)

    def _opened_recurring(self, found: Recurring) -> Recurring:
        """Return a schedule with plain data; in its stored form if it cannot be opened."""
        rule = found.rule
        if self.payloads is None:
            return found
        try:
            data = self.payloads.opened_data(rule.task_data, "", f"{found.name}@", rule.kind)
        except Exception:  # noqa: BLE001 - a codec is user code, and the rest can be shown
            return found
        return found._replace(rule=rule.model_copy(update={"data": data, "seal": None}))

    def change_recurring(self, name: str, change: Change) -> "LightFuture[Receipt]":
        """Request a change of a schedule; see ``SchedulerClient.pause_recurring``."""
        request = ChangeRequest(change)

        def append(definition: Definition | None = None) -> LightFuture[Receipt]:
            # A schedule that this client has set may be on its way to the store.
            if _current(definition) is None and name not in self._recent_names:
                raise NoSuchSchedule(
                    f"there is no recurring schedule {shown(name)}, or no node has it yet: see"
                    " list_recurring() for the known ones"
                )
            return self.append(request_task(name, request, self.clock.now_ms()))

        try:
            self.refuse_when_closed()
            if checked_name(name) in self._recent_names:
                return append()
            return and_then(self.definitions().find(name_of(name)), append).watch()
        except HourhandError as error:
            return refused(error)

    def _refuse_topic(self, topic: str) -> None:
        names = self.settings.topic
        if not self.settings.relay.allows_sending(topic, (names.name, names.dead_letter)):
            raise InvalidTask(
                f"cannot send to topic {shown(topic)}: it is Hourhand's own, or"
                " relay.target_topics names others only"
            )


def _shares_seal(one: RecurringRule, other: RecurringRule) -> bool:
    """True if both data went through the same codecs, with the same keys and plain members."""
    envelopes = one.envelope, other.envelope
    if envelopes[0] is None or envelopes[1] is None:
        return False
    return envelopes[0].steps == envelopes[1].steps and one.data == other.data


def _current(definition: Definition | None) -> Recurring | None:
    """Return the schedule of a row; None without a row, or for one that has ended."""
    if definition is None or definition.ended:
        return None
    recurring = recurring_of(definition)
    return None if recurring.state.over else recurring
