"""Runs a recurring schedule: its changes, and a tick at times when it is due.

All are tasks of the schedule's own ordering id, so they run one after the other. A change that
begins a schedule makes its first occurrence ahead of its time, and each tick the next one, or those
of the next seconds (``ahead``). They are in the state before they are in the log, so a tick that is
run again makes the same ones again. A change that ends them cancels them before it is applied. The
occurrences themselves are tasks of the user's and run elsewhere.

A tick whose own time was not made ahead, as after an outage, makes its occurrence before the new
state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as dataclasses_replace
from typing import assert_never

import msgspec
from msgspec.structs import replace
from pydantic import JsonValue

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.execution.outcome import Drop, Outcome
from hourhand.actors.model.task.definition import RESERVED, Definition
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.services.recurring.ahead import (
    BEHIND_MS,
    Ends,
    count_ends,
    count_left,
    count_withdrawn,
    found_ends,
    is_of_withdrawn,
    next_tick_ms,
    occurrence_key,
    overlaps,
    sure_to_be_left_out,
    times_ahead,
    with_taken,
    without_left_out,
)
from hourhand.scheduler.services.recurring.rule import RecurringRule, checked_name, read_rule
from hourhand.scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    State,
    Tick,
    Withdrawn,
    name_of,
    recent_keys,
    recurring_of,
    rule_values,
    tick_task,
    written_rule,
)
from hourhand.scheduler.services.system.system_tasks import SystemDependencies

_ENDED_KEPT_MS = 10 * 86_400_000
_ORDERING_IDS = name_of("").ordering_id
"""Prefix of the ordering ids of schedules."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The effects of a change or tick: an occurrence at a time, a state, the next tick."""

    state: State
    next_ms: int | None
    occurrence: Task | None = None
    cancelled: tuple[TaskKey, ...] = ()
    """Keys made ahead that a change ends; they are cancelled before it."""
    begins: bool = False
    """True if a new rule begins, which counts anew."""


class RunRecurring(SystemExecutor):
    """Runs one change or tick."""

    def __init__(
        self,
        dependencies: SystemDependencies,
        stores: Stores,
        makes_ahead: Callable[[], bool] = lambda: False,
    ) -> None:
        """``makes_ahead`` returns True if every node judges late occurrences."""
        self._dependencies = dependencies
        self._stores = stores
        self._makes_ahead = makes_ahead
        self._began_ms = 0
        """Wall clock at the begin of this attempt: waiting within the attempt makes nothing too
        late."""

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task, unless it was done before or belongs to an earlier state."""
        self._began_ms = self._dependencies.clock.now_ms()
        name = task.ordering_id.removeprefix(_ORDERING_IDS)
        found = await settled(self._dependencies.definitions.find(name_of(name)))
        try:
            if "generation" in task.data:
                tick = msgspec.convert(task.data, Tick)
                return await self._tick(task, name, found, tick)
            request = msgspec.convert(task.data, ChangeRequest)
            checked_name(name)
            if request.change is Change.SET:
                read_rule(**(request.rule or {}))
        except (msgspec.ValidationError, InvalidTask, TypeError) as error:
            return Drop(f"its data is not a change of a recurring schedule: {error}")
        return await self._change(task, name, found, request)

    # The steps of a tick.

    async def _tick(
        self, task: Task, name: str, found: Definition | None, tick: Tick
    ) -> Outcome | None:
        if found is None:
            return Drop("there is no such schedule")
        known = recurring_of(found)
        if known.state.made_by == _mark(task):
            # It runs again after a crash: everything is durable but the tasks ahead and the tick.
            await self._append(known, found.offset)
            return None
        if found.offset != tick.generation or known.state.paused or known.state.over:
            return Drop("the schedule was changed since")
        step = await self._step_of(task, known, makes_ahead=self._makes_ahead())
        return await self._follow(name, found, step)

    async def _step_of(self, task: Task, known: Recurring, *, makes_ahead: bool) -> _Step:
        rule, due_ms = known.rule, task.key.scheduled_ms
        oldest_ms = self._began_ms - rule.catch_up_ms
        known = await self._with_withdrawn_counted(known)
        ends, open_keys = await self._ends_of(known, due_ms)
        now_key = occurrence_key(known.name, rule, due_ms)
        has_earlier = rule.overlap != "allow" and any(each != now_key for each in open_keys)
        is_ahead, left_out = due_ms in known.state.ahead, set[int]()
        if not is_ahead or rule.count_max is not None:
            left_out = sure_to_be_left_out(known, ends, self._began_ms)
        known = known._replace(state=_made_by(known.state, task))
        state = count_ends(known, due_ms, ends, open_keys, oldest_ms)
        occurrence: Task | None = None
        if is_ahead or count_left(rule, state, left_out) <= 0:
            # An earlier tick made it, or those that are open may be the last ones.
            pass
        elif due_ms < oldest_ms and not await self._began_in_time(task.key, rule):
            state = await self._too_late(known, state, due_ms)
        else:
            open_keys = without_left_out(known, left_out, open_keys)
            state, occurrence = self._occurrence(known, state, due_ms, "", open_keys)
        # Times that passed while no node ran, and are too old now, are skipped in one step.
        from_ms = self._within_catch_up(rule, due_ms)
        state = replace(state, passed_ms=from_ms)
        step = _Step(state, rule.next_after(from_ms, state.anchor_ms), occurrence)
        if not makes_ahead:
            return step
        places = count_left(rule, state, left_out)
        # While an earlier one is open the next ones may overlap with it: only one is made ahead.
        return self._with_ahead(known, from_ms, step, places, only_next=has_earlier)

    def _with_ahead(
        self, known: Recurring, from_ms: int, step: _Step, places: float, *, only_next: bool
    ) -> _Step:
        """Return a step with the occurrences that it makes ahead: none while times have passed
        that are made up for.
        """
        state = step.state
        if step.next_ms is None or self._began_ms - step.next_ms > BEHIND_MS:
            return step
        known = known._replace(state=state)
        times = times_ahead(known, from_ms, self._began_ms, places, only_next=only_next)
        all_ahead = (*state.ahead, *times)
        tick_ms = next_tick_ms(known.name, all_ahead, from_ms)
        numbered = _next_number(state) - 1 + len(times)
        return dataclasses_replace(
            step,
            state=replace(state, ahead=all_ahead, fresh=len(times), numbered=numbered),
            next_ms=step.next_ms if tick_ms is None else tick_ms,
        )

    def _within_catch_up(self, rule: RecurringRule, from_ms: int) -> int:
        """Return a time, or the last one that is too long ago: times up to that make no tasks."""
        return max(from_ms, self._began_ms - rule.catch_up_ms - 1)

    def _beginning(self, known: Recurring, from_ms: int, state: State) -> _Step:
        """Return the step of a change behind whose time a schedule has its next time."""
        step = _Step(state, known.rule.next_after(from_ms, state.anchor_ms))
        if not self._makes_ahead():
            return step
        places = count_left(known.rule, state)
        return self._with_ahead(known, from_ms, step, places, only_next=True)

    async def _ends_of(self, known: Recurring, due_ms: int) -> tuple[Ends, list[TaskKey]]:
        """Find out what became of the occurrences that were due by a time, and which of them are
        open.
        """
        rule, state = known.rule, known.state
        keys = [] if rule.overlap == "allow" else recent_keys(state)
        keys += [occurrence_key(known.name, rule, each) for each in state.ahead if each <= due_ms]
        ends = await self._found_ends(keys)
        for key, closed in tuple(ends.closed.items()):
            if is_of_withdrawn(state, closed):
                # The task that was made again is not stored yet.
                del ends.closed[key]
        now_ms = self._dependencies.clock.now_ms()
        return ends, [key for key in keys if ends.is_open(key, now_ms)]

    async def _found_ends(self, keys: Sequence[TaskKey]) -> Ends:
        by_partition: dict[int, list[TaskKey]] = {}
        for key in keys:
            partition = self._dependencies.appender.partition_of(key.ordering_id)
            by_partition.setdefault(partition, []).append(key)
        asked = [begun(found_ends(self._stores, *each)) for each in by_partition.items()]
        ends = Ends()
        for found in await settled(gather(asked)):
            ends.closed.update(found.closed)
            ends.stored.update(found.stored)
        return ends

    async def _with_withdrawn_counted(self, known: Recurring) -> Recurring:
        """Find out which of the withdrawn occurrences ran all the same."""
        if not known.state.withdrawn:
            return known
        ends = await self._found_ends([TaskKey.parse(each.key) for each in known.state.withdrawn])
        now_ms = self._dependencies.clock.now_ms()
        return known._replace(state=count_withdrawn(known, ends, now_ms))

    async def _began_in_time(self, tick: TaskKey, rule: RecurringRule) -> bool:
        """True if an earlier attempt of a tick was not too late: it may have made the task, which
        is in the log then and will be stored.
        """
        partition = self._dependencies.appender.partition_of(tick.ordering_id)
        attempts = await settled(self._stores.status.find_attempts(partition, [tick]))
        return any(each.started_ms <= tick.scheduled_ms + rule.catch_up_ms for each in attempts)

    async def _too_late(self, known: Recurring, state: State, due_ms: int) -> State:
        """Count a time as missed, unless an interrupted tick made its task in time."""
        key = occurrence_key(known.name, known.rule, due_ms)
        if await self._is_stored(key):
            return _with(state, key)
        return replace(state, missed=state.missed + 1)

    def _occurrence(
        self, known: Recurring, state: State, due_ms: int, mark: str, open_keys: list[TaskKey]
    ) -> tuple[State, Task | None]:
        """Return the task of a time, or None if the overlap policy skips it."""
        if overlaps(known.rule, len(open_keys)):
            return replace(state, skipped=state.skipped + 1), None
        task = occurrence_of(known, due_ms, mark, number=_next_number(state))
        return _with(state, task.key), task

    async def _is_stored(self, key: TaskKey) -> bool:
        partition = self._dependencies.appender.partition_of(key.ordering_id)
        rows = await settled(self._stores.schedule.find_tasks(partition, [key]))
        closed = await settled(self._stores.status.find_completions(partition, [key]))
        return key in rows or key in closed

    # The steps of a change.

    async def _change(
        self, task: Task, name: str, found: Definition | None, request: ChangeRequest
    ) -> Outcome | None:
        known = None if found is None else recurring_of(found)
        if found is not None and known is not None:
            if known.state.made_by == _mark(task):
                await self._append(known, found.offset)
                return None
            if self._came_after(known.state, request.change):
                return Drop("a later change came before this one")
        if request.owner is not None and (refusal := _against_owner(known, request)):
            return Drop(refusal)
        if found is not None and known is not None:
            await self._finish(known)
            # A new rule is first due after the moment of the request.
            is_set = request.change is Change.SET
            found = await self._catch_up(name, found, task.key.scheduled_ms + is_set)
            known = recurring_of(found)
        # A schedule that ended by itself can still be deleted, so that the same rule may begin
        # anew.
        is_there = known is not None and not known.state.over
        can_end = known is not None and request.change is Change.DELETE and not known.state.deleted
        if request.change is not Change.SET and not is_there and not can_end:
            return Drop("there is no such schedule")
        return await self._follow(name, found, await self._changed(task, known, request))

    def _came_after(self, state: State, change: Change) -> bool:
        """True if a later record already decided the state that a change would set."""
        decided_at = state.changed_at
        if change is Change.SET:
            decided_at = max(decided_at, state.declared_at)
        return decided_at > self.record_offset

    async def _catch_up(self, name: str, found: Definition, before_ms: int) -> Definition:
        """Make the occurrences that were due before a time: their ticks come one after the other
        through the log, and may come behind a change that was requested later.
        """
        while found.next_ms is not None and found.next_ms < before_ms:
            tick = tick_task(name, found.next_ms, found.offset)
            step = await self._step_of(tick, recurring_of(found), makes_ahead=False)
            await self._follow(name, found, step)
            read = await settled(self._dependencies.definitions.find(name_of(name)))
            assert read is not None, "it was written just now"
            found = read
        return found

    async def _finish(self, known: Recurring) -> None:
        """Append what the step of before makes ahead, unless its task has ended and so did that: a
        step that was cut short is tried again behind a change of an earlier time, and finds its
        schedule changed then.
        """
        if known.state.fresh == 0:
            return
        asked_ms, _, unique = known.state.made_by.partition(":")
        maker = TaskKey(int(asked_ms), name_of(known.name).ordering_id, unique)
        partition = self._dependencies.appender.partition_of(maker.ordering_id)
        if not await settled(self._stores.status.find_completions(partition, [maker])):
            await self._append_all(_fresh_tasks(known))

    async def _changed(self, task: Task, known: Recurring | None, request: ChangeRequest) -> _Step:
        asked_ms = task.key.scheduled_ms
        if request.change is Change.SET:
            return self._set(task, known, request)
        assert known is not None, "only a schedule that exists is changed"
        known = await self._with_withdrawn_counted(known)
        state = _made_by(known.state, task)
        if request.change is Change.TRIGGER:
            return await self._triggered(known, state, asked_ms)
        state = replace(state, changed_at=self.record_offset)
        match request.change:
            case Change.PAUSE:
                return self._ending_ahead(known, _Step(replace(state, paused=True), None), asked_ms)
            case Change.RESUME:
                if not state.paused:
                    return _Step(state, known.next_ms)
                # The change may be read behind ticks of times after its request.
                from_ms = self._within_catch_up(known.rule, max(asked_ms, state.passed_ms))
                if state.ended is not None:
                    state = replace(state, ended=(state.ended[0], min(state.ended[1], from_ms)))
                return self._beginning(known, from_ms, replace(state, paused=False))
            case Change.DELETE:
                revision = max(state.revision, request.revision)
                over = _Step(replace(state, over=True, deleted=True, revision=revision), None)
                return self._ending_ahead(known, over, asked_ms)
            case _:
                assert_never(request.change)

    async def _triggered(self, known: Recurring, state: State, asked_ms: int) -> _Step:
        """Return the step that makes an occurrence now; the last one that is still ahead makes
        room for it where the count is used up.
        """
        ends, open_keys = await self._ends_of(known, asked_ms)
        left_out = sure_to_be_left_out(known, ends, self._began_ms)
        later = [each for each in state.ahead if each > max(asked_ms, self._began_ms)]
        places = count_left(known.rule, state, left_out)
        if places + len(later) <= 0:
            return _Step(replace(state, skipped=state.skipped + 1), known.next_ms)
        open_keys = without_left_out(known, left_out, open_keys)
        state, occurrence = self._occurrence(known, state, asked_ms, "!", open_keys)
        if occurrence is not None and known.rule.ordering_id.startswith(RESERVED):
            # Callbacks of later times have later numbers.
            numbered = state.numbered + len(later)
            state = replace(state, fresh=len(later), numbered=numbered)
        step = _Step(state, known.next_ms, occurrence)
        gives_way = occurrence is not None and places <= 0
        return self._ending_ahead(known, step, later[-1]) if gives_way else step

    def _set(self, task: Task, known: Recurring | None, request: ChangeRequest) -> _Step:
        asked_ms = task.key.scheduled_ms
        rule = read_rule(**(request.rule or {}))
        if known is not None and (_follows(known, request) or _goes_on(known, rule)):
            state = replace(
                _made_by(known.state, task),
                declared_at=self.record_offset,
                owner=request.owner,
                revision=request.revision,
            )
            return _Step(state, known.next_ms)
        # A declaration does not end what an operator paused.
        stays_paused = request.owner is not None and known is not None and known.state.paused
        state = State(
            rule_values(rule),
            asked_ms,
            _mark(task),
            changed_at=self.record_offset,
            paused=stays_paused,
            owner=request.owner,
            revision=request.revision,
        )
        cancelled: tuple[TaskKey, ...] = ()
        if known is not None:
            before = self._ending_ahead(known, _Step(known.state, None), asked_ms + 1)
            # The rest was made by the rule of before, and runs as any earlier task.
            left = (str(occurrence_key(known.name, known.rule, t)) for t in before.state.ahead)
            recent = (*known.state.recent, *left)
            # Tasks of the rule before do not count for this one.
            withdrawn = tuple(replace(each, counts=False) for each in known.state.withdrawn)
            state = replace(state, recent=recent, ended=before.state.ended, withdrawn=withdrawn)
            cancelled = before.cancelled
        name = task.ordering_id.removeprefix(_ORDERING_IDS)
        made = Recurring(name, rule, state, None)
        from_ms = self._within_catch_up(rule, asked_ms)
        step = _Step(state, None) if stays_paused else self._beginning(made, from_ms, state)
        return dataclasses_replace(step, cancelled=cancelled, begins=True)

    @staticmethod
    def _ending_ahead(known: Recurring, step: _Step, from_ms: int) -> _Step:
        """Return the step of a change that ends the occurrences made for a time and later ones."""
        times = tuple(each for each in step.state.ahead if each >= from_ms)
        kept = tuple(each for each in step.state.ahead if each < from_ms)
        state = replace(step.state, ahead=kept, fresh=max(0, step.state.fresh - len(times)))
        if times:
            state = replace(state, ended=(from_ms, times[-1]))
        cancelled = (occurrence_key(known.name, known.rule, each) for each in times)
        return dataclasses_replace(step, state=state, cancelled=tuple(cancelled))

    # The last steps of a tick and of a change, in this order.

    async def _follow(self, name: str, found: Definition | None, step: _Step) -> Outcome | None:
        offset, appender = self.offset_over(found), self._dependencies.appender
        self._dependencies.check_lease()
        if step.occurrence is not None:
            await settled(appender.append(step.occurrence))
        state, expires_ms = await self._withdrawn(step), None
        rule = RecurringRule.model_validate(state.rule)
        used_up = rule.count_max is not None and state.taken >= rule.count_max
        # A paused schedule has no next time but has not ended; any other one without a next time
        # has.
        if used_up or (step.next_ms is None and not state.paused):
            state = replace(state, over=True)
        if state.over:
            expires_ms = self._dependencies.clock.now_ms() + _ENDED_KEPT_MS
        next_ms = None if state.over else step.next_ms
        row = Definition(name_of(name), offset, msgspec.json.encode(state), next_ms, expires_ms)
        await settled(self._dependencies.definitions.save(row))
        await self._append(Recurring(name, rule, state, next_ms), offset)
        return None

    async def _withdrawn(self, step: _Step) -> State:
        """Cancel what a change ends; return the state that knows of it."""
        if not step.cancelled:
            return step.state
        appender = self._dependencies.appender
        places = await settled(gather([appender.cancel(key) for key in step.cancelled]))
        counts = step.state.rule.get("count_max") is not None and not step.begins
        withdrawn = {each.key: each for each in step.state.withdrawn}
        for key, place in zip(step.cancelled, places, strict=True):
            withdrawn[str(key)] = Withdrawn(str(key), place.offset, counts)
        return replace(step.state, withdrawn=tuple(withdrawn.values()))

    async def _append(self, known: Recurring, generation: int) -> None:
        """Append what is in the state: the tasks that it makes ahead, and the next tick."""
        tasks = _fresh_tasks(known)
        if known.next_ms is not None:
            tasks.append(tick_task(known.name, known.next_ms, generation))
        if tasks:
            await self._append_all(tasks)

    async def _append_all(self, tasks: Sequence[Task]) -> None:
        self._dependencies.check_lease()
        await settled(gather([self._dependencies.appender.append(each) for each in tasks]))


def _against_owner(known: Recurring | None, request: ChangeRequest) -> str | None:
    """Return why the change of a declaration does not apply; None if it does."""
    is_removal = request.change is Change.DELETE
    if known is None:
        return "there is no such schedule" if is_removal else None
    state = known.state
    if state.owner == request.owner:
        newest = (
            state.revision >= request.revision
            if is_removal
            else (state.revision > request.revision)
        )
        return "a newer declaration came before this one" if newest else None
    if is_removal or (state.owner is not None and not state.over):
        return f"the schedule belongs to {state.owner or 'whoever set it by hand'}"
    return None


def _follows(known: Recurring, request: ChangeRequest) -> bool:
    """True if a schedule already has the rule of this declaration, however its data is sealed."""
    state = known.state
    is_same = (state.owner, state.revision) == (request.owner, request.revision)
    return request.owner is not None and is_same and not state.deleted


def _goes_on(known: Recurring, rule: RecurringRule) -> bool:
    """True if the new rule equals the current one; the schedule then continues unchanged.

    A schedule that ended by itself stays ended; a deleted one begins again.
    """
    if written_rule(known.rule) != written_rule(rule):
        return False
    state = known.state
    if state.deleted:
        return False
    # Old rows lack the mark ``deleted``: a schedule that was over too early had been deleted.
    if not state.over or (rule.count_max is not None and state.taken >= rule.count_max):
        return True
    return rule.next_after(state.passed_ms, state.anchor_ms) is None


def occurrence_of(known: Recurring, due_ms: int, mark: str = "", *, number: int = 0) -> Task:
    """Return the task of the occurrence at a time; only callbacks have its number."""
    rule = known.rule
    key = occurrence_key(known.name, rule, due_ms, mark)
    return Task.model_construct(
        ordering_id=key.ordering_id,
        scheduled_time=key.scheduled_time,
        uniqueness_key=key.uniqueness_key,
        data=_data(rule, number),
        kind=rule.kind,
        priority=rule.priority,
        expires=rule.expires_after,
    )


def _fresh_tasks(known: Recurring) -> list[Task]:
    """Return the tasks that are made behind a state."""
    state = known.state
    times = state.ahead[len(state.ahead) - state.fresh :]
    numbers = range(state.numbered - len(times) + 1, state.numbered + 1)
    return [
        occurrence_of(known, due_ms, number=number)
        for due_ms, number in zip(times, numbers, strict=True)
    ]


def _made_by(state: State, task: Task) -> State:
    """Return a state as the begin of what a task makes of it."""
    return replace(state, made_by=_mark(task), fresh=0)


def _next_number(state: State) -> int:
    return max(state.numbered, state.taken) + 1


def _with(state: State, key: TaskKey) -> State:
    return replace(with_taken(state, key), numbered=_next_number(state))


def _data(rule: RecurringRule, number: int) -> dict[str, JsonValue]:
    """Return an occurrence's data: a user's unchanged, that of our own kinds with its number."""
    if rule.ordering_id.startswith(RESERVED):
        return {**rule.data, "number": number}
    return rule.task_data


def _mark(task: Task) -> str:
    """Return a text that identifies a tick or change within its schedule."""
    return f"{task.key.scheduled_ms}:{task.uniqueness_key}"
