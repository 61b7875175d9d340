"""ThroughputController: decides when a partition loads more of its schedule.

Decides by the tasks and bytes in memory and by the end of the loaded window, so that a node's
memory depends on its limits and not on the backlog (P13).  Never touches the store.
"""

from typing import assert_never

import msgspec

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.context import Timer
from hourhand.actors.messages import (
    BandsChanged,
    LoadMeasured,
    LoadTasks,
    MeasureLoad,
    MeetSiblings,
    ShrinkWindow,
    Siblings,
    TasksLoaded,
)
from hourhand.actors.model.values.settings import TreeSettings
from hourhand.actors.model.window.band import ON_TIME_SHARE, BandName

FIRST_AHEAD_MS = 2_000
"""Look-ahead of the first load: a partition that changed hands starts no task before this load
has ended, so it is short; the next load brings the rest."""
ON_TIME_AHEAD_MS = 5_000
"""Look-ahead for tasks on time, while other ids have a backlog."""


class _MeasureDue(msgspec.Struct, frozen=True):
    pass


Message = MeetSiblings | _MeasureDue | LoadMeasured | TasksLoaded | BandsChanged
"""All that this role is told."""


class ThroughputController(Actor):
    """States: measuring, loading, or waiting for the next tick."""

    def __init__(self, settings: TreeSettings) -> None:
        self._window = settings.window
        self._siblings: Siblings
        self._measuring = False
        self._has_loaded = False
        """True once all tasks that were due when the partition began have been in memory."""
        self._on_time_ms: int | None = None
        """The time up to which tasks on time are loaded, while other ids have a backlog."""
        self._next_load_ms: int | None = None
        """Wall time at which the end of a loaded window comes near; None while one is loading."""
        self._tick: Timer | None = None

    def on_receive(self, message: Message) -> None:
        match message:
            case MeetSiblings(siblings=siblings):
                self._siblings = siblings
                self._measure()
            case _MeasureDue():
                self._look()
            case LoadMeasured():
                self._decide(message)
            case TasksLoaded(held_up=True):
                self._wait(self._window.tick_ms)
            case TasksLoaded(reached_ms=reached_ms, complete=complete):
                self._plan_next(reached_ms, complete=complete)
            case BandsChanged(on_time_ms=on_time_ms):
                self._on_time_ms = on_time_ms
            case _:
                assert_never(message)

    def _measure(self) -> None:
        assert not self._measuring, "one question at a time"
        self._next_load_ms = None
        self._measuring = True
        self._siblings.partition_scheduler.tell(MeasureLoad())

    def _decide(self, measured: LoadMeasured) -> None:
        waiting, executing = measured.waiting, measured.executing
        assert 0 <= measured.on_time <= waiting, "what is on time is part of what waits"
        assert executing >= 0, "a number of tasks"
        free = self._window.tasks_max - waiting - executing
        if free < 0 or self._siblings.budget.free_bytes < 0:
            keep = max(0, self._window.tasks_max - executing)
            self._siblings.partition_scheduler.tell(ShrinkWindow(keep))
        if self._measuring:
            self._measuring = False
            self._load_up_to(free, measured.on_time)
        elif self._tick is not None:
            # Tasks were just dropped from memory: look again soon, not only when the window that
            # was loaded before is nearly over.
            self._next_load_ms = None
            self._wait(self._window.tick_ms)

    def _load_up_to(self, free: int, on_time: int) -> None:
        """Load a page once a tenth of the memory is free: each page costs a round trip.

        Tasks on time may use half of the memory, so that overdue tasks do not wait for memory that
        tasks on time have taken before they are due.
        """
        look_ahead_ms, now_ms = self._window.look_ahead_ms, self._context.clock.now_ms()
        if self._on_time_ms is not None:
            ahead_ms = min(look_ahead_ms, ON_TIME_AHEAD_MS)
            on_time_free = min(free, self._window.tasks_max // 2 - on_time)
            if self._on_time_ms - now_ms < ahead_ms // 2 and self._is_worth_a_page(on_time_free):
                self._load(now_ms + ahead_ms, on_time_free, BandName.ON_TIME)
                return
            free -= self._window.tasks_max // ON_TIME_SHARE
        if self._is_worth_a_page(free):
            ahead_ms = look_ahead_ms if self._has_loaded else min(look_ahead_ms, FIRST_AHEAD_MS)
            self._load(now_ms + ahead_ms, free)
        else:
            self._wait(self._window.tick_ms)

    def _is_worth_a_page(self, free: int) -> bool:
        budget = self._siblings.budget
        has_bytes = budget.free_bytes >= max(1, budget.share_bytes // 10)
        return has_bytes and free >= max(1, self._window.tasks_max // 10)

    def _load(self, before_ms: int, free: int, band: BandName = BandName.ORDINARY) -> None:
        limit = min(self._window.page_tasks, free)
        assert limit > 0, "a page of nothing is asked for, again and again"
        self._siblings.task_persistence.tell(LoadTasks(before_ms, limit, band))

    def _plan_next(self, reached_ms: int, *, complete: bool) -> None:
        assert self._tick is None, "nobody looks while a load is under way"
        if not complete:
            self._measure()
            return
        self._has_loaded = True
        now_ms, window = self._context.clock.now_ms(), self._window
        # A wall clock that is set back delays the next load by at most one window.
        self._next_load_ms = min(reached_ms - window.prefetch_ms, now_ms + window.look_ahead_ms)
        self._sleep(self._next_load_ms - now_ms)

    def _look(self) -> None:
        """Measure, unless it is too early by the wall clock, which may have been stepped."""
        self._tick, ahead_ms = None, 0
        if self._next_load_ms is not None:
            ahead_ms = self._next_load_ms - self._context.clock.now_ms()
        if 0 < ahead_ms <= self._window.look_ahead_ms:
            self._sleep(ahead_ms)
        else:
            self._measure()

    def _sleep(self, ahead_ms: int) -> None:
        self._wait(max(self._window.tick_ms, min(ahead_ms, self._window.clock_check_ms)))

    def _wait(self, delay_ms: float) -> None:
        assert delay_ms >= 0, "a wait does not go back in time"
        if self._tick is not None:
            self._tick.cancel()
        self._tick = self._context.after(delay_ms, _MeasureDue())
