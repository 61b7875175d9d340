"""Timers as operators see them: a page of them, one with its open pops, and their deletion.

Decides the fields. The timer service makes timers; they are deleted here as it deletes them.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hourhand.actors.model.task.definition import Definition, DefinitionKind
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.admin.acting import ActReport
from hourhand.scheduler.admin.answers import Answer, Instant, ShownTask, instant_text
from hourhand.scheduler.admin.definitions import list_definitions
from hourhand.scheduler.admin.outcome_words import said_of
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.timers.executor import timer_name
from hourhand.scheduler.services.timers.service import (
    FoundTimer,
    TimerService,
    found_timer,
    has_tag,
)
from hourhand.scheduler.services.timers.timer import next_pop, split_id
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.tasks.inspector import Inspector, TaskView

_OPEN_MAX = 5
_LOOKED_MAX = 1_000
_AHEAD_MS = 31 * 86_400_000
"""A later pop is not searched for: ``nextPop`` has its time."""


class ShownTag(Answer, frozen=True):
    """A tag and the count that a timer adds to it."""

    type: str
    count: int


class NextPop(Answer, frozen=True):
    """The time of a timer's next pop, and its number."""

    number: int
    time: Instant | None


class ShownTimer(Answer, frozen=True, kw_only=True):
    """A timer, its next pop and, if it is shown alone, the tasks it waits for."""

    id: str
    ordering_id: str
    since: Instant | None
    interval_ms: int
    repeat_for_ms: int
    uri: str
    replication_factor: int
    tags: list[ShownTag]
    next_pop: NextPop
    opaque: str | UnsetType = UNSET
    open: list[ShownTask] | UnsetType = UNSET


class TimerListing(Answer, frozen=True):
    """A page of timers; it may be short, or even empty, while there are more."""

    timers: list[ShownTimer]
    next_after: str | None


class TimerAnswer(Answer, frozen=True):
    """One timer."""

    timer: ShownTimer


class TimerResult(Answer, frozen=True):
    """The outcome for a timer."""

    id: str
    outcome: str


class TimersEnded(ActReport, frozen=True):
    """The outcomes for timers."""

    results: list[TimerResult]
    unknown: Sequence[str] = ()
    """Ids that no timer has."""

    @classmethod
    def of(cls, results: list[TimerResult]) -> Self:
        """Count them."""
        outcomes = dict(Counter(each.outcome for each in results))
        said = said_of("timer delete", outcomes)
        return cls(asked=len(results), outcomes=outcomes, said=said, results=results)


class Timers:
    """Reads and ends timers; used from any thread."""

    def __init__(
        self,
        appender: TaskAppender,
        definitions: DefinitionBook,
        inspector: Inspector,
        clock: Clock,
    ) -> None:
        self._appender = appender
        self._definitions = definitions
        self._inspector = inspector
        self._clock = clock

    def page(self, tag: str | None, after: str | None, limit: int, *, data: bool) -> TimerListing:
        """Return about ``limit`` timers; with ``tag``, those that have it."""

        def keep(row: Definition) -> FoundTimer | None:
            timer = found_timer(row)
            return timer if has_tag(timer, tag) else None

        listing = list_definitions(self._definitions, DefinitionKind.TIMER, after, limit, keep)
        shown = [self.listed(each, data=data) for each in listing.found]
        return TimerListing(timers=shown, next_after=listing.next_after)

    def find(self, text: str) -> FoundTimer | None:
        """Return one timer by its id, in the form of the service's URLs; None if there is none."""
        return self.known([text]).get(text)

    def known(self, texts: Sequence[str]) -> dict[str, FoundTimer]:
        """Return the existing timers by the given texts."""
        ids = {text: parts[0] for text in texts if (parts := split_id(text)) is not None}
        rows = self._definitions.find_all(map(timer_name, set(ids.values())))
        timers = [found_timer(row) for row in answered(rows) if not row.ended]
        found = {each.id: each for each in timers if each.state.rule is not None}
        return {text: found[timer_id] for text, timer_id in ids.items() if timer_id in found}

    def shown(self, timer: FoundTimer, *, data: bool) -> ShownTimer:
        """Show one timer with its open tasks: the next pop, or one that is retried."""
        tasks = [ShownTask.of(each, data=False) for each in self.open_tasks(timer)]
        return replace(self.listed(timer, data=data), open=tasks)

    def open_tasks(self, timer: FoundTimer) -> Sequence[TaskView]:
        """Return the tasks that a timer waits for."""
        listing = self._inspector.list_open(
            to_ms=self._clock.now_ms() + _AHEAD_MS,
            limit=_OPEN_MAX,
            looked_max=_LOOKED_MAX,
            ordering_id=timer_name(timer.id).ordering_id,
        )
        return listing.tasks

    def listed(self, timer: FoundTimer, *, data: bool) -> ShownTimer:
        """Show a timer in a list."""
        rule, start_ms = timer.state.rule, timer.state.start_ms
        assert rule is not None, "a timer that has ended is not shown"
        number, due_ms = next_pop(rule, start_ms, self._clock.now_ms())
        return ShownTimer(
            id=f"{timer.id}-{rule.replication}",
            ordering_id=timer_name(timer.id).ordering_id,
            since=instant_text(start_ms),
            interval_ms=rule.interval_ms,
            repeat_for_ms=rule.repeat_for_ms,
            uri=rule.uri,
            replication_factor=rule.replication,
            tags=[ShownTag(type=tag, count=count) for tag, count in rule.tags],
            next_pop=NextPop(number=number, time=instant_text(due_ms)),
            opaque=rule.opaque if data else UNSET,
        )

    def delete(self, known: Iterable[FoundTimer]) -> TimersEnded:
        """Delete timers, each once; returns when that is durable, and no pop begins after it."""
        timers = list({each.id: each for each in known}.values())
        asyncio.run(self._delete(timers))
        return TimersEnded.of([TimerResult(id=_text(each), outcome="deleted") for each in timers])

    async def _delete(self, timers: Sequence[FoundTimer]) -> None:
        # A service of its own, because one belongs to one event loop.
        service = TimerService(self._appender, self._definitions, self._clock)
        await asyncio.gather(*(service.put(timer.id, None) for timer in timers))


def _text(timer: FoundTimer) -> str:
    assert timer.state.rule is not None, "a timer that has ended is not shown"
    return f"{timer.id}-{timer.state.rule.replication}"
