"""Runs a timer: its changes, and its pops.

All are tasks of the timer's own ordering id.  A pop calls back, and only when that succeeded is
the next one made, before this one ends; so a crash between the two loses neither, and repeats
at most the callback that was under way, with the same number.
"""

from datetime import timedelta
from typing import Protocol

import msgspec
from pydantic import JsonValue

from actors.model.definition import Definition, DefinitionKind, DefinitionName
from actors.model.events import TimerPopped
from actors.model.instant import from_millis
from actors.model.outcome import Drop, Outcome, Retry
from actors.model.task import Task
from scheduler.awaiting import settled
from scheduler.door_settings import TimerSettings
from scheduler.own_tasks import OwnExecutor, Surroundings
from scheduler.timers.timer import TimerRule, TimerState

ENDED_KEPT_MS = 10 * 86_400_000
"""How long the row of a timer that ended keeps earlier requests from undoing that."""


class CallbackFailed(Exception):
    """A callback was not answered with 200 in time; the text says what came instead."""


class Caller(Protocol):
    """Makes callbacks."""

    async def call(self, uri: str, body: bytes, sequence_number: int) -> None:
        """POST a body; raises CallbackFailed unless the answer is exactly 200."""


class TimerChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of a task that makes, replaces or (without a rule) deletes a timer."""

    change: TimerRule | None = None


class TimerPop(msgspec.Struct, frozen=True):
    """The data of a task that calls back."""

    pop: int
    """Its sequence number."""
    generation: int
    """Offset of the definition it belongs to."""


def timer_name(timer_id: str) -> DefinitionName:
    """Return the name of a timer's definition."""
    return DefinitionName(DefinitionKind.TIMER, timer_id)


def timer_change_task(timer_id: str, rule: TimerRule | None, now_ms: int, unique: str) -> Task:
    """Return the task that changes a timer; it starts when that was asked for."""
    data = msgspec.to_builtins(TimerChange(rule))
    return _task(timer_id, now_ms, f"change:{unique}", data)


def timer_pop_task(timer_id: str, due_ms: int, number: int, generation: int) -> Task:
    """Return the task of a pop; the same one whoever makes it again."""
    unique = f"pop:{generation:020d}:{number:012d}"
    return _task(timer_id, due_ms, unique, {"pop": number, "generation": generation})


def _task(timer_id: str, due_ms: int, unique: str, data: dict[str, JsonValue]) -> Task:
    return Task.model_construct(
        ordering_id=timer_name(timer_id).ordering_id,
        scheduled_time=from_millis(due_ms),
        uniqueness_key=unique,
        data=data,
    )


class RunTimer(OwnExecutor):
    """Runs one change or pop."""

    def __init__(self, surroundings: Surroundings, caller: Caller, settings: TimerSettings) -> None:
        self._surroundings = surroundings
        self._caller = caller
        self._settings = settings

    async def execute(self, task: Task) -> Outcome | None:
        """Do what the task says, unless it was done before or belongs to an earlier state."""
        timer_id = task.ordering_id.rpartition(":")[2]
        found = await settled(self._surroundings.definitions.find(timer_name(timer_id)))
        state = None
        if found is not None and not found.ended:
            state = msgspec.json.decode(found.rule, type=TimerState)
        try:
            if "pop" in task.data:
                pop = msgspec.convert(task.data, TimerPop)
                return await self._pop(timer_id, found, state, pop)
            change = msgspec.convert(task.data, TimerChange)
        except msgspec.ValidationError as error:
            return Drop(f"its data is no change of a timer: {error}")
        return await self._change(task, timer_id, found, state, change.change)

    async def _change(
        self,
        task: Task,
        timer_id: str,
        found: Definition | None,
        state: TimerState | None,
        rule: TimerRule | None,
    ) -> Outcome | None:
        if state is not None and state.made_by == task.uniqueness_key:
            # Run again after a crash: all but the first pop is durable.
            assert found is not None, "its state was read from it"
            await self._append_pop(timer_id, state, 1, found.offset)
            return None
        if state is not None and state.changed_at > self.record_offset:
            return Drop("a later request came before this one")
        offset = self.offset_over(found)
        if rule is not None and not rule.pops(1):
            rule = None
        fresh = TimerState(task.key.scheduled_ms, task.uniqueness_key, self.record_offset, rule)
        await self._save(timer_id, fresh, offset)
        await self._append_pop(timer_id, fresh, 1, offset)
        return None

    async def _pop(
        self, timer_id: str, found: Definition | None, state: TimerState | None, pop: TimerPop
    ) -> Outcome | None:
        if found is None or state is None or state.rule is None:
            return Drop("the timer has ended")
        if found.offset != pop.generation:
            return Drop("the timer was changed since")
        rule, failure = state.rule, None
        try:
            await self._caller.call(rule.uri, rule.opaque.encode(), pop.pop)
        except CallbackFailed as error:
            if self.attempt < self._settings.callback_tries_max:
                self._note(state, pop, "failed")
                return Retry(after=timedelta(milliseconds=self._settings.callback_retry_ms))
            failure = f"the callback failed {self.attempt} times, last: {error}"
        self._note(state, pop, "popped" if failure is None else "given_up")
        if rule.pops(pop.pop + 1):
            await self._append_pop(timer_id, state, pop.pop + 1, found.offset)
        else:
            ended = msgspec.structs.replace(state, rule=None)
            await self._save(timer_id, ended, self.offset_over(found))
        return None if failure is None else Drop(failure)

    def _note(self, state: TimerState, pop: TimerPop, result: str) -> None:
        assert state.rule is not None, "it pops"
        due_ms = state.rule.pop_ms(state.start_ms, pop.pop)
        late_ms = self._surroundings.clock.now_ms() - due_ms
        self._surroundings.telemetry.emit(TimerPopped(result, late_ms))

    async def _append_pop(
        self, timer_id: str, state: TimerState, number: int, generation: int
    ) -> None:
        if state.rule is None:
            return
        due_ms = state.rule.pop_ms(state.start_ms, number)
        task = timer_pop_task(timer_id, due_ms, number, generation)
        await settled(self._surroundings.appender.append(task))

    async def _save(self, timer_id: str, state: TimerState, offset: int) -> None:
        expires_ms = None
        if state.rule is None:
            expires_ms = self._surroundings.clock.now_ms() + ENDED_KEPT_MS
        row = Definition(timer_name(timer_id), offset, msgspec.json.encode(state), None, expires_ms)
        await settled(self._surroundings.definitions.save(row))
