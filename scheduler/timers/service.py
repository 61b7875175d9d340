"""What the timer service does for a request: accept a change, find a timer, list timers.

Any node takes any request: a change is a record of the log, answered once that is durable, and a
look-up reads the store.  What this process accepted and the store does not have yet is answered
from memory, so a client that asks where it wrote finds what it wrote.
"""

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from actors.model.definition import Definition, DefinitionKind
from actors.model.instant import INSTANT_MAX_MS
from actors.ports.clock import Clock
from scheduler.appending import TaskAppender
from scheduler.awaiting import settled
from scheduler.definition_book import DefinitionBook
from scheduler.own_tasks import unique_in_order
from scheduler.timers.executor import timer_change_task, timer_name
from scheduler.timers.timer import TimerRule, TimerState

RECENT_MAX = 20_000
"""Changes remembered until the store has them; older ones it has had for long."""
_PAGE_ROWS = 500
_LOOKS = 3
_LOOK_PAUSE_S = 0.05


class FoundTimer(NamedTuple):
    """A timer and its id, without the replication factor."""

    id: str
    state: TimerState


class TimerPage(NamedTuple):
    """Some timers, and where the next ones begin."""

    timers: Sequence[FoundTimer]
    next_after: str | None


class TimerService:
    """The operations behind the requests; used from one event loop."""

    def __init__(self, appender: TaskAppender, definitions: DefinitionBook, clock: Clock) -> None:
        self._appender = appender
        self._definitions = definitions
        self._clock = clock
        self._recent: OrderedDict[str, TimerState] = OrderedDict()
        self.tag_counts: Counter[str] = Counter()
        """By tag: the counts of timers set here."""

    @staticmethod
    def new_id() -> str:
        """Return an id that no other timer has."""
        return secrets.token_hex(8)

    def now_ms(self) -> int:
        """Return the wall clock."""
        return self._clock.now_ms()

    async def put(self, timer_id: str, rule: TimerRule | None) -> None:
        """Make, replace or (without a rule) delete a timer; returns when that is durable."""
        now_ms = min(self._clock.now_ms(), INSTANT_MAX_MS)
        unique = unique_in_order(now_ms)
        task = timer_change_task(timer_id, rule, now_ms, unique)
        position = await settled(self._appender.append(task))
        kept = rule if rule is not None and rule.pops(1) else None
        self._remember(timer_id, TimerState(now_ms, unique, position.offset, kept))
        for tag, count in () if rule is None else rule.tags:
            self.tag_counts[tag] += count

    async def find(self, timer_id: str) -> FoundTimer | None:
        """Return a timer; None where there is none, or it has ended."""
        for look in range(_LOOKS):
            if look:
                # Accepted by another node a moment ago, it may not be in the store yet.
                await asyncio.sleep(_LOOK_PAUSE_S)
            row = await settled(self._definitions.find(timer_name(timer_id)))
            state = self._newest(timer_id, row)
            if state is not None:
                return None if state.rule is None else FoundTimer(timer_id, state)
        return None

    async def page(self, tag: str | None, after: str | None, limit: int) -> TimerPage:
        """Return about ``limit`` timers, those with a tag where one is given."""
        found: list[FoundTimer] = []
        partition, cursor = _split_cursor(after)
        while partition < self._definitions.partition_count:
            page = await settled(
                self._definitions.store.page(
                    partition, DefinitionKind.TIMER, cursor, min(limit, _PAGE_ROWS)
                )
            )
            found += [each for each in map(_found, page.definitions) if _has(each, tag)]
            cursor = page.next_after
            if cursor is None:
                partition += 1
            if len(found) >= limit:
                break
        ended = partition >= self._definitions.partition_count
        return TimerPage(found, None if ended else f"{partition}~{cursor or ''}")

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
                # The store had it, and the row has vanished since.
                return None
            return recent
        return stored


_RECENT_FOR_MS = 60_000


def _found(row: Definition) -> FoundTimer:
    return FoundTimer(row.name.id, msgspec.json.decode(row.rule, type=TimerState))


def _has(timer: FoundTimer, tag: str | None) -> bool:
    rule = timer.state.rule
    return rule is not None and (tag is None or any(name == tag for name, _ in rule.tags))


def _split_cursor(after: str | None) -> tuple[int, str | None]:
    """Read where a listing goes on; ValueError for what no listing returned."""
    if after is None:
        return 0, None
    number, _, cursor = after.partition("~")
    if not number.isascii() or not number.isdigit() or len(number) > 6:
        raise ValueError(f"{after[:80]!r} is no cursor of a listing")
    return int(number), cursor or None
