"""Runs a timer: its changes, and its pops.

All are tasks of the timer's own ordering id; a new timer begins with its first pop. A pop calls
back, and makes the next pop after success, before it ends. So a crash between the two loses
neither, and repeats at most the callback that was under way, with the same number.
"""

import asyncio
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.execution.outcome import Drop, Outcome, Retry
from hourhand.actors.model.operations.events import TimerPopped
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.ports.log import Position
from hourhand.actors.ports.store import StatusStore
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.node.system_executor import ImmediateWork, SystemExecutor
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.runtime.light_future import then
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from hourhand.scheduler.services.timers.timer import TimerRule, TimerState, kept_rule, tag_changes
from hourhand.scheduler.tasks.appending import TaskAppender

ENDED_KEPT_MS = 10 * 86_400_000
"""Time for which the row of an ended timer stays, so that earlier requests cannot undo the end."""

NEW = 0
"""Offset of a new timer's row, and generation of its pops: below that of every later change."""
UNWRITTEN_MS = 20_000
"""Time for which a new timer's first pop waits for a row; a request is answered much earlier, or
fails."""

LOOK_MS_MAX = 2_000
"""A callback needs a look at its timer that is at most this old."""
LOOKS_MAX = 100
"""Looks of a node that are under way at once: others wait before they begin, so that none is too
old when its turn in the event loop comes."""

_CHANGE = "change:"
_encode = msgspec.json.Encoder().encode


class Tries:
    """Decides whether a callback is given up.

    Attempts that never reached their callback, because the store did not answer or the process
    died, do not count as tries.
    """

    def __init__(self, appender: TaskAppender, status: StatusStore, tries_max: int) -> None:
        self._appender = appender
        self._status = status
        self._tries_max = tries_max

    async def are_used_up(self, task: Task, attempt: int) -> bool:
        """True if the current failure, of that attempt, was the last allowed try."""
        if attempt < self._tries_max:
            return False
        partition = self._appender.partition_of(task.ordering_id)
        rows = await settled(self._status.find_attempts(partition, [task.key]))
        before = sum(row.result is AttemptResult.RETRY for row in rows)
        return before + 1 >= self._tries_max


class CallbackFailed(Exception):
    """A callback was not answered with 200 in time; the text says what came instead."""


class _RowMissing(Exception):
    """A new timer's row is still being written, or the process that made the timer died before
    that.
    """


class LookTooOld(Exception):
    """The timer may have been changed since it was read, and the change answered."""


class Caller(Protocol):
    """Makes callbacks."""

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """POST a body; raises CallbackFailed unless the answer is exactly 200.

        ``of`` is the path of the callback's timer or recurring schedule.
        """


class TimerChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of a task that makes, replaces or (without a rule) deletes a timer."""

    change: TimerRule | None = None
    fresh: bool = False
    """True if the id was made for this timer: no timer of this name existed before."""
    asked_at: int | None = None
    """Log offset of the request, if that is an earlier record than this task's own."""


class TimerPop(msgspec.Struct, frozen=True):
    """The data of a task that calls back."""

    pop: int
    """Its sequence number."""
    generation: int
    """Offset of the definition it belongs to."""


def timer_name(timer_id: str) -> DefinitionName:
    """Return the name of a timer's definition."""
    return DefinitionName(DefinitionKind.TIMER, timer_id)


def timer_row(timer_id: str, state: TimerState, offset: int, now_ms: int) -> Definition:
    """Return the definition of a timer."""
    expires_ms = now_ms + ENDED_KEPT_MS if state.rule is None else None
    return Definition(timer_name(timer_id), offset, msgspec.json.encode(state), None, expires_ms)


_decode_change = msgspec.json.Decoder(TimerChange).decode


class TimerTask(NamedTuple):
    """A task of a timer: its key, and its data as JSON."""

    key: TaskKey
    data: bytes


def timer_change_task(timer_id: str, now_ms: int, unique: str, change: TimerChange) -> TimerTask:
    """Return the task that changes a timer; it is due at the time of the request."""
    key = TaskKey(now_ms, timer_name(timer_id).ordering_id, change_key(unique))
    return TimerTask(key, _encode(change))


def change_key(unique: str) -> str:
    """Return the uniqueness key of a change."""
    return f"{_CHANGE}{unique}"


def timer_pop_task(timer_id: str, due_ms: int, number: int, generation: int) -> TimerTask:
    """Return the task of a pop; each call returns the same task."""
    unique = f"pop:{generation:020d}:{number:012d}"
    key = TaskKey(due_ms, timer_name(timer_id).ordering_id, unique)
    return TimerTask(key, _encode(TimerPop(number, generation)))


class RunTimer(SystemExecutor):
    """Runs one change or pop."""

    def __init__(
        self,
        dependencies: SystemDependencies,
        status: StatusStore,
        caller: Caller,
        settings: TimerSettings,
        looking: asyncio.Semaphore,
    ) -> None:
        """``looking`` bounds the looks of all executors of a node."""
        self._dependencies = dependencies
        self._looking = looking
        self._status = status
        self._tries = Tries(dependencies.appender, status, settings.callback_tries_max)
        self._caller = caller
        self._settings = settings

    def immediate(self, task: StoredTask) -> ImmediateWork | None:
        """Return the fast path of a new timer: nothing is stored of it, so nothing is read."""
        if not task.key.uniqueness_key.startswith(_CHANGE):
            return None
        try:
            change = _decode_change(task.data)
        except msgspec.MsgspecError:
            return None
        rule = change.change
        if not change.fresh or rule is None:
            return None
        return lambda: self._make(task.key, task.offset, rule)

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task, unless it was done before or belongs to an earlier state."""
        timer_id = task.ordering_id.rpartition(":")[2]
        async with self._looking:
            looked_ms = self._dependencies.clock.monotonic_ms()
            found = await settled(self._dependencies.definitions.find(timer_name(timer_id)))
            if "pop" in task.data:
                self._check_look(looked_ms)
        state = None
        if found is not None and not found.ended:
            state = msgspec.json.decode(found.rule, type=TimerState)
        try:
            if "pop" in task.data:
                pop = msgspec.convert(task.data, TimerPop)
                return await self._pop(task, found, state, pop)
            change = msgspec.convert(task.data, TimerChange)
        except msgspec.ValidationError as error:
            return Drop(f"its data is not a change of a timer: {error}")
        if state is not None and state.made_by == task.uniqueness_key:
            # It runs again after a crash, or was sent although the row was written: everything
            # except the first pop is durable.
            assert found is not None, "its state was read from it"
            if found.offset != NEW or not await self._was_dropped(timer_id, state):
                await self._append_pop(timer_id, state, 1, found.offset)
                return None
        asked_at = self.record_offset if change.asked_at is None else change.asked_at
        if state is not None and state.changed_at > asked_at:
            return Drop("a later request came before this one")
        offset = self.offset_over(found)
        await settled(self._begin(task.key, asked_at, offset, change.change))
        return None

    def _make(self, key: TaskKey, offset: int, rule: TimerRule) -> "Future[Outcome | None]":
        return then(self._begin(key, offset, offset, rule), lambda _begun: None)

    def _begin(
        self, key: TaskKey, changed_at: int, offset: int, rule: TimerRule | None
    ) -> "Future[tuple[Any, ...]]":
        """Make a state and its first pop durable.

        Both at the same time: the pop runs after this task has ended, and after a crash in between
        this task runs again.
        """
        timer_id = key.ordering_id.rpartition(":")[2]
        kept = kept_rule(rule)
        state = TimerState(key.scheduled_ms, key.uniqueness_key, changed_at, kept)
        under_way: list[Future[Any]] = [self._save(timer_id, state, offset)]
        if kept is not None:
            under_way.append(self._popping(timer_id, state, 1, offset))
        return gather(under_way)

    async def _was_dropped(self, timer_id: str, state: TimerState) -> bool:
        """True if a new timer's first pop was dropped because it found no row."""
        if state.rule is None:
            return False
        due_ms = state.rule.pop_ms(state.start_ms, 1)
        key = timer_pop_task(timer_id, due_ms, 1, NEW).key
        partition = self._dependencies.appender.partition_of(key.ordering_id)
        found = (await settled(self._status.find_completions(partition, [key]))).get(key)
        return found is not None and found.result is CompletionResult.DROPPED

    def _check_look(self, looked_ms: float) -> None:
        """Raise LookTooOld if this process paused, or the store was slow, since it requested a row.

        The next attempt, on this node or the partition's new owner, reads it again.
        """
        self._dependencies.check_lease()
        age_ms = self._dependencies.clock.monotonic_ms() - looked_ms
        if age_ms > LOOK_MS_MAX:
            raise LookTooOld(f"the timer was read {age_ms:.0f} ms ago; it is read again")

    async def _pop(
        self, task: Task, found: Definition | None, state: TimerState | None, pop: TimerPop
    ) -> Outcome | None:
        if found is None and pop.generation == NEW:
            late_ms = self._dependencies.clock.now_ms() - task.key.scheduled_ms
            if late_ms < UNWRITTEN_MS:
                raise _RowMissing(f"timer {task.ordering_id} has no row yet; it is read again")
        if found is None or state is None or state.rule is None:
            return Drop("the timer has ended")
        if found.offset != pop.generation:
            return Drop("the timer was changed since")
        rule, failure = state.rule, None
        try:
            await self._caller.call(
                rule.uri, rule.opaque.encode(), pop.pop, f"timers/{found.name.id}"
            )
        except CallbackFailed as error:
            if not await self._tries.are_used_up(task, self.attempt):
                self._note(state, pop, "failed")
                return Retry(after=timedelta(milliseconds=self._settings.callback_retry_ms))
            times = self._settings.callback_tries_max
            failure = f"the callback failed {times} times, last: {error}"
        self._note(state, pop, "popped" if failure is None else "given_up")
        if rule.pops(pop.pop + 1):
            await self._append_pop(found.name.id, state, pop.pop + 1, found.offset)
        else:
            ended = msgspec.structs.replace(state, rule=None)
            await settled(self._save(found.name.id, ended, self.offset_over(found)))
            for each in tag_changes(rule, None):
                self._dependencies.telemetry.emit(each)
        return None if failure is None else Drop(failure)

    def _note(self, state: TimerState, pop: TimerPop, result: str) -> None:
        assert state.rule is not None, "it pops"
        due_ms = state.rule.pop_ms(state.start_ms, pop.pop)
        late_ms = self._dependencies.clock.now_ms() - due_ms
        self._dependencies.telemetry.emit(TimerPopped(result, late_ms))

    async def _append_pop(
        self, timer_id: str, state: TimerState, number: int, generation: int
    ) -> None:
        if state.rule is not None:
            await settled(self._popping(timer_id, state, number, generation))

    def _popping(
        self, timer_id: str, state: TimerState, number: int, generation: int
    ) -> "Future[Position]":
        """Append the task of a pop."""
        assert state.rule is not None, "it pops"
        due_ms = state.rule.pop_ms(state.start_ms, number)
        task = timer_pop_task(timer_id, due_ms, number, generation)
        return self._dependencies.appender.append_json(task.key, task.data)

    def _save(self, timer_id: str, state: TimerState, offset: int) -> "Future[None]":
        row = timer_row(timer_id, state, offset, self._dependencies.clock.now_ms())
        return self._dependencies.definitions.save(row)
