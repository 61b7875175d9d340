"""The registry of system tasks: every kind of them, with the executor that runs it.

Each node can run all of them, whatever service its operator started: any node of the group may own
the partition of a timer or a message. Resources that only some need are opened at their first use,
and closed with the node.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Lock

from hourhand.actors.model.task.definition import DefinitionKind
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import LogWriter
from hourhand.actors.ports.store import Stores
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.services.recurring.ahead import LateOccurrences
from hourhand.scheduler.services.recurring.declared import DecideDeclared
from hourhand.scheduler.services.recurring.executor import RunRecurring
from hourhand.scheduler.services.relay.claim_state import DecidedHere
from hourhand.scheduler.services.relay.claims import DecideClaims
from hourhand.scheduler.services.relay.delivery import DeliverMessage
from hourhand.scheduler.services.relay.gathering import CLAIMS
from hourhand.scheduler.services.relay.message import SEND
from hourhand.scheduler.services.relay.shares import SharedMessages
from hourhand.scheduler.services.system.debounced_tasks import DecideDebounced
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.grouped_tasks import CountGroup
from hourhand.scheduler.services.system.system_tasks import (
    ExecutorFactory,
    RoutedFactory,
    SystemDependencies,
    UserFactory,
    routed,
)
from hourhand.scheduler.services.system.unique_tasks import DecideUnique
from hourhand.scheduler.services.timers.calls import CALL, CallBack
from hourhand.scheduler.services.timers.executor import LOOKS_MAX, Caller, RunTimer
from hourhand.scheduler.tasks.appending import TaskAppender


def open_caller(
    settings: TimerSettings, clock: Clock, trace: Callable[[], Mapping[str, str]] = dict
) -> Caller:
    """Open the HTTP client for callbacks; SettingsInvalid if it is not installed."""
    with required_by("a timer, which calls back over HTTP,"):
        from hourhand.scheduler.services.timers.callbacks import HttpCaller
    return HttpCaller(settings, clock, trace)


@dataclass
class SystemTaskRegistry:
    """The executors of one node, and their open resources."""

    settings: Settings
    stores: Stores
    writer: LogWriter
    partition_count: int
    clock: Clock
    telemetry: Telemetry
    open_messages: Callable[[], MessageWriter]
    """Called at most once, when the first message is passed on."""
    open_caller: Callable[[], Caller]
    """Called at most once, when the first timer calls back."""
    lease_ends_ms: Callable[[], float]
    looks_max: int = 5
    makes_ahead: Callable[[], bool] = lambda: True
    """Returns True while occurrences may be made ahead: every node judges those that are late."""
    _lock: Lock = field(default_factory=Lock)
    _messages: MessageWriter | None = None

    @cached_property
    def dependencies(self) -> SystemDependencies:
        """The ports and settings that the executors share."""
        appender = TaskAppender(self.writer, self.partition_count)
        book = DefinitionBook(self.stores.definitions, appender.partition_count, self.clock)
        return SystemDependencies(
            appender=appender,
            definitions=book,
            clock=self.clock,
            telemetry=self.telemetry,
            lease_ends_ms=self.lease_ends_ms,
            looks_max=self.looks_max,
            installation_id=self.stores.installation_id,
        )

    @cached_property
    def late_occurrences(self) -> LateOccurrences:
        """Judges occurrences that start late."""
        own = self.dependencies
        return LateOccurrences(own.definitions, self.stores, own.appender)

    def factory_with(self, users: UserFactory) -> RoutedFactory:
        """Return a factory for a user's tasks and the system's."""
        return routed(users, self._factories())

    def close(self) -> None:
        """Close everything that was opened."""
        with self._lock:
            messages, self._messages = self._messages, None
        if messages is not None:
            messages.close()

    def _allows(self, topic: str, relayed: bool) -> bool:  # noqa: FBT001 - a port's question
        """True if a topic may be a target, of a relayed message or of ``send_later``."""
        relay, names = self.settings.relay, self.settings.topic
        allows = relay.allows_target if relayed else relay.allows_sending
        return allows(topic, (names.name, names.dead_letter))

    def _factories(self) -> Mapping[str, ExecutorFactory]:
        dependencies = self.dependencies
        decided, status, timers = DecidedHere(), self.stores.status, self.settings.timers
        kept_ms = self.settings.tree.watermark.completion_retention_ms
        caller = _LaterCaller(self.open_caller)
        return {
            DefinitionKind.RECURRING.value: partial(
                RunRecurring, dependencies, self.stores, self.makes_ahead
            ),
            DefinitionKind.DECLARED.value: partial(DecideDeclared, dependencies),
            CLAIMS: partial(DecideClaims, dependencies, status, decided, kept_ms),
            DefinitionKind.TIMER.value: partial(
                RunTimer, dependencies, status, caller, timers, asyncio.Semaphore(LOOKS_MAX)
            ),
            DefinitionKind.UNIQUE.value: partial(DecideUnique, dependencies),
            DefinitionKind.DEBOUNCED.value: partial(DecideDebounced, dependencies),
            DefinitionKind.GROUP.value: partial(CountGroup, dependencies),
            CALL: partial(CallBack, dependencies, status, caller, timers),
            SEND: partial(
                DeliverMessage,
                dependencies,
                self._opened_messages,
                self.writer,
                self._allows,
                decided,
            ),
        }

    def _opened_messages(self) -> MessageWriter:
        with self._lock:
            if self._messages is None:
                self._messages = SharedMessages(self.open_messages(), self.clock)
            return self._messages


class _LaterCaller:
    """Opens the caller in the event loop that needs it first."""

    def __init__(self, make: Callable[[], Caller]) -> None:
        self._make = make
        self._caller: Caller | None = None

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """Call with the opened caller; callbacks are made from one event loop only."""
        if self._caller is None:
            self._caller = self._make()
        await self._caller.call(uri, body, sequence_number, of)
