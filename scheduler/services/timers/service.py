"""The operations of the timer service: accept a change, find a timer, list timers.

Any node takes any request: a change is a record of the log, answered once that is durable, and a
look-up reads the store. Changes that this process accepted and the store does not have yet are
answered from memory, so a client that reads where it wrote finds its change.
"""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from hourhand.actors.model.task.definition import Definition, DefinitionKind
from hourhand.actors.model.values.errors import HourhandError, LogUnavailable
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.actors.model.values.log_offset import era_of, kept_offset
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.system_tasks import unique_in_order
from hourhand.scheduler.services.timers.executor import (
    NEW,
    UNWRITTEN_MS,
    TimerChange,
    TimerTask,
    change_key,
    timer_change_task,
    timer_name,
    timer_pop_task,
    timer_row,
)
from hourhand.scheduler.services.timers.timer import TimerRule, TimerState, kept_rule, tag_changes
from hourhand.scheduler.tasks.appending import TaskAppender

RECENT_MAX = 20_000
"""Changes in memory until the store has them; the store has long had older ones."""
_PAGE_ROWS = 500
_REQUESTS_MAX = 400
"""Most reads for one listing, which bounds the search for a rare tag."""
DIRECT_MS_MIN = 1_000
"""A new timer that pops earlier might look for its row before that is written."""
_ROW_S = 1.0
"""Seconds for a new timer's row; after that a record of the log makes the row."""
_LOOKS = 3
_LOOK_PAUSE_S = 0.05
TOGETHER = 64
"""Number of new timers in a row that share a partition."""
_RANDOM_BYTES = 8


class TimerIds:
    """Makes ids that cannot be guessed; ids made together share a partition.

    A record, a row or a batch of one partition costs the servers hardly more with fifty timers than
    with one, so new timers fill a partition for a while before the next one's turn, as records
    without a key do in Kafka's sticky partitioner (KIP-480). Over time each partition has its
    share. Used from one thread.
    """

    def __init__(self, partition_of: Callable[[str], int], partition_count: int) -> None:
        """``partition_of`` returns the partition of an ordering id."""
        self._partition_of = partition_of
        self._spare: list[deque[str]] = [deque() for _ in range(partition_count)]
        """By partition: ids that were made during another partition's turn."""
        self._partition = secrets.randbelow(partition_count)
        self._left = TOGETHER

    def new(self) -> str:
        """Return an id that no other timer has."""
        if not self._left:
            self._partition = (self._partition + 1) % len(self._spare)
            self._left = TOGETHER
        self._left -= 1
        spare = self._spare[self._partition]
        while not spare:
            timer_id = secrets.token_hex(_RANDOM_BYTES)
            self._spare[self._partition_of(timer_name(timer_id).ordering_id)].append(timer_id)
        return spare.popleft()


class FoundTimer(NamedTuple):
    """A timer and its id, without the replication factor."""

    id: str
    state: TimerState


class TimerPage(NamedTuple):
    """A page of timers, and the cursor of the next page."""

    timers: Sequence[FoundTimer]
    next_after: str | None


class TimerService:
    """The operations behind the requests; used from one event loop."""

    def __init__(
        self,
        appender: TaskAppender,
        definitions: DefinitionBook,
        clock: Clock,
        unique: Callable[[int], str] = unique_in_order,
        telemetry: Telemetry | None = None,
    ) -> None:
        """``unique`` makes the names of changes: unique names, in the order of the calls.

        ``telemetry`` gets events about gained and lost tags.
        """
        self._unique = unique
        self._appender = appender
        self._definitions = definitions
        self._clock = clock
        self._ids = TimerIds(appender.partition_of, appender.partition_count)
        self._recent: OrderedDict[str, TimerState] = OrderedDict()
        self._telemetry = telemetry

    def new_id(self) -> str:
        """Return an id that no other timer has."""
        return self._ids.new()

    def now_ms(self) -> int:
        """Return the wall clock."""
        return self._clock.now_ms()

    async def put(self, timer_id: str, rule: TimerRule | None, *, new: bool = False) -> None:
        """Make, replace or (without a rule) delete a timer; returns when that is durable.

        No pop of an earlier state begins after that; with ``new`` there is no earlier state.
        """
        now_ms = min(self._clock.now_ms(), INSTANT_MAX_MS)
        unique = self._unique(now_ms)
        before: TimerState | None = None
        if new and rule is not None and rule.interval_ms >= DIRECT_MS_MIN and rule.pops(1):
            state = await self._make(timer_id, rule, now_ms, unique)
        else:
            task = timer_change_task(timer_id, now_ms, unique, TimerChange(rule, fresh=new))
            state = TimerState(now_ms, task.key.uniqueness_key, 0, kept_rule(rule))
            if new:
                state = await self._append(task, state)
            else:
                before, state = await self._replace(timer_id, task, state)
        self._remember(timer_id, state)
        if self._telemetry is not None:
            for each in tag_changes(None if before is None else before.rule, state.rule):
                self._telemetry.emit(each)

    async def _make(self, timer_id: str, rule: TimerRule, now_ms: int, unique: str) -> TimerState:
        """Make the first pop of a new timer, and then its row; there is no earlier state to change.

        A pop without a row belongs to no timer, while a row without a pop would never end.
        """
        due_ms = rule.pop_ms(now_ms, 1)
        pop = timer_pop_task(timer_id, due_ms, 1, NEW)
        position = await settled(self._appender.append_json(pop.key, pop.data))
        state = TimerState(now_ms, change_key(unique), position.offset, rule)
        row = timer_row(timer_id, state, NEW, now_ms)
        try:
            await settled(self._definitions.save(row), _ROW_S)
        except (TimeoutError, HourhandError):
            # The log answers: its record makes the row once the store is back, unless the row was
            # written after all and the timer was changed from within its callback meanwhile.
            change = TimerChange(rule, asked_at=position.offset)
            task = timer_change_task(timer_id, now_ms, unique, change)
            await settled(self._appender.append_json(task.key, task.data))
        if self._clock.now_ms() > due_ms + UNWRITTEN_MS // 2:
            raise LogUnavailable(
                "the first pop fell due before the timer was durable: make another one"
            )
        return state

    async def _append(self, task: TimerTask, state: TimerState) -> TimerState:
        """Append a task that makes a state; return the state with its place in the log."""
        position = await settled(self._appender.append_json(task.key, task.data))
        return msgspec.structs.replace(state, changed_at=position.offset)

    async def _replace(
        self, timer_id: str, task: TimerTask, state: TimerState
    ) -> tuple[TimerState | None, TimerState]:
        """Change a timer that may be there; returns what it was and what it is.

        The task itself may have to wait: for an owner of the partition, or behind a pop that is
        tried again and again.  Its row, which it will write once more, does not.
        """
        looked_up = self._definitions.find(timer_name(timer_id))
        state = await self._append(task, state)
        stored = await settled(looked_up)
        before = self._newest(timer_id, stored)
        if stored is not None:
            # The receipt has the broker's offset, and a topic that was made again counts from 0.
            kept = kept_offset(era_of(stored.offset), state.changed_at)
            state = msgspec.structs.replace(state, changed_at=kept)
        row = timer_row(timer_id, state, state.changed_at, state.start_ms)
        await settled(self._definitions.save(row))
        return before, state

    async def find(self, timer_id: str) -> FoundTimer | None:
        """Return a timer; None if there is none, or it has ended."""
        for look in range(_LOOKS):
            if look:
                # A timer that another node accepted a moment ago may not be in the store yet.
                await asyncio.sleep(_LOOK_PAUSE_S)
            row = await settled(self._definitions.find(timer_name(timer_id)))
            state = self._newest(timer_id, row)
            if state is not None:
                return None if state.rule is None else FoundTimer(timer_id, state)
        return None

    async def page(self, tag: str | None, after: str | None, limit: int) -> TimerPage:
        """Return about ``limit`` timers, those with a tag where one is given.

        Looks at so many rows at most; fewer timers, even none, come while there are more.
        """
        found: list[FoundTimer] = []
        cursor = after
        for _ in range(_REQUESTS_MAX):
            rows = min(limit, _PAGE_ROWS) if tag is None else _PAGE_ROWS
            page = await settled(self._definitions.page(DefinitionKind.TIMER, cursor, rows))
            found += [each for each in map(found_timer, page.definitions) if has_tag(each, tag)]
            cursor = page.next_after
            if cursor is None or len(found) >= limit:
                break
        return TimerPage(found, cursor)

    def _remember(self, timer_id: str, state: TimerState) -> None:
        known = self._recent.pop(timer_id, None)
        if known is not None and known.changed_at > state.changed_at:
            state = known
        self._recent[timer_id] = state
        if len(self._recent) > RECENT_MAX:
            self._recent.popitem(last=False)

    def _newest(self, timer_id: str, row: Definition | None) -> TimerState | None:
        stored = None
        if row is not None and not row.ended:
            stored = msgspec.json.decode(row.rule, type=TimerState)
        recent = self._recent.get(timer_id)
        if recent is not None and (stored is None or stored.changed_at < recent.changed_at):
            if stored is None and self._clock.now_ms() - recent.start_ms > _RECENT_FOR_MS:
                # The store had the row, which has vanished since.
                return None
            return recent
        return stored


_RECENT_FOR_MS = 60_000


def found_timer(row: Definition) -> FoundTimer:
    """Read a row that has not ended."""
    return FoundTimer(row.name.id, msgspec.json.decode(row.rule, type=TimerState))


def has_tag(timer: FoundTimer, tag: str | None) -> bool:
    """True if a timer has not ended and has the tag, if one is given."""
    rule = timer.state.rule
    return rule is not None and (tag is None or any(name == tag for name, _ in rule.tags))
