"""Callbacks of recurring schedules: occurrences that call a URL instead of running user code."""

from datetime import timedelta

import msgspec

from hourhand.actors.model.execution.outcome import Drop, Outcome, Retry
from hourhand.actors.model.operations.events import TimerPopped
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.task import Task
from hourhand.actors.ports.store import StatusStore
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from hourhand.scheduler.services.timers.executor import CallbackFailed, Caller, Tries

CALL = "call"
"""The kind in the ordering ids of such occurrences."""


class Call(msgspec.Struct, frozen=True):
    """The data of an occurrence."""

    uri: str
    opaque: str
    number: int
    """Number of the occurrence within its schedule, from 1."""


def call_ordering_id(name: str) -> str:
    """Return the ordering id of a schedule's callbacks."""
    return f"{RESERVED}{CALL}:{name}"


class CallBack(SystemExecutor):
    """Makes one callback."""

    def __init__(
        self,
        dependencies: SystemDependencies,
        status: StatusStore,
        caller: Caller,
        settings: TimerSettings,
    ) -> None:
        self._dependencies = dependencies
        self._tries = Tries(dependencies.appender, status, settings.callback_tries_max)
        self._caller = caller
        self._settings = settings

    async def execute(self, task: Task) -> Outcome | None:
        """Call back; a failure is retried as those of timers are."""
        try:
            call = msgspec.convert(task.data, Call)
        except msgspec.ValidationError as error:
            return Drop(f"its data is not a callback: {error}")
        try:
            of = f"recurring/{task.ordering_id.removeprefix(call_ordering_id(''))}"
            await self._caller.call(call.uri, call.opaque.encode(), call.number, of)
        except CallbackFailed as error:
            if not await self._tries.are_used_up(task, self.attempt):
                self._note(task, "failed")
                return Retry(after=timedelta(milliseconds=self._settings.callback_retry_ms))
            self._note(task, "given_up")
            times = self._settings.callback_tries_max
            return Drop(f"the callback failed {times} times, last: {error}")
        self._note(task, "popped")
        return None

    def _note(self, task: Task, result: str) -> None:
        late_ms = self._dependencies.clock.now_ms() - task.key.scheduled_ms
        self._dependencies.telemetry.emit(TimerPopped(result, late_ms))
