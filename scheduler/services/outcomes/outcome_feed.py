"""The stream of outcomes: each closed task is told once its completion is durable, at least once.

A write of completions is preceded by a row of the outcome log, so a process that dies leaves
behind all that it has not told.  ``step`` hands the rows of writes that have ended to the sink, in
order, and removes them once the sink has them.  Decides when an outcome is told and what happens to
one that is refused.  Never holds up a completion for the sink: what it does not take waits in the
store, so memory is bounded however long that is.
"""

import itertools
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby

from msgspec.structs import replace

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.operations.events import OutcomeRefused, OutcomesHeld, OutcomesTold
from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.outcome_row import (
    ClosedTask,
    OutcomesRow,
    entries_of,
    outcome_rows,
    row_with,
    unread_by,
    unsettled_by,
)
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.values.display import message_of
from hourhand.actors.model.values.errors import TaskTooLarge
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import ResultStore, StatusStore, Stores
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.ports.outcomes import (
    TOLD,
    OutcomeRecord,
    OutcomeSink,
    outcome_record,
)
from hourhand.scheduler.runtime.light_future import and_then
from hourhand.scheduler.runtime.steps import Steps, begun

WINDOW_ROWS = 64
"""Rows that are read at once, each of some hundred tasks at most."""
_PIECES_MAX = 10_000
"""More rows than one write has."""
_PAUSE_MIN_MS, _PAUSE_MAX_MS = 500.0, 30_000.0
"""Pauses before the sink, or the store, is asked again; each is twice the one before."""

DOUBT_MS = 30_000.0
"""A write that failed, or of an owner that is gone, has its effect within this time or never."""
_LOOK_MS = 60_000.0
"""An earlier owner that is still at work may write a row after this one has read the log."""
_UNREAD_MAX = 8
"""Most earlier owners whose late rows are looked for, which bounds the size of a row."""
TELLING_MAX = 4
"""Most partitions that are told of at once, which bounds memory."""

_Told = tuple[ClosedTask, OutcomeRecord]


@dataclass(slots=True)
class _Doubt:
    """A write of which some completions may not be durable."""

    until_ms: float
    """Monotonic time from which on nothing more of it becomes durable."""
    rows: list[OutcomesRow] = field(default_factory=list)
    """Its rows that were found last; others may still come."""

    def names_any(self, keys: Collection[TaskKey]) -> bool:
        """True if it is unknown of one of these keys whether its completion is durable."""
        entries = chain.from_iterable(map(entries_of, self.rows))
        return any(each.key in keys and not each.is_sure for each in entries)

    @property
    def is_over(self) -> bool:
        """True if all of it is durable."""
        return bool(self.rows) and all(e.is_sure for row in self.rows for e in entries_of(row))


@dataclass(slots=True)
class _Partition:
    """One partition, as long as this process is its owner."""

    number: int
    epoch: int
    ready: "Future[None]"
    """Resolved when what may be written over is known."""
    under_way: set[int] = field(default_factory=set)
    valued: set[TaskKey] = field(default_factory=set)
    """Keys whose values were written, and whose completions follow."""
    failed: set[int] = field(default_factory=set)
    """Writes that failed since ``doubts`` was made; they may have had their effect."""
    doubts: dict[int, _Doubt] | None = None
    """By number; None until the log was read."""
    unread: tuple[tuple[int, int], ...] = ()
    """Spans of numbers of earlier owners, above the first and below the second, of which no owner
    had found a row when it began; any row there came later."""
    last: int = 0
    """The last number of a write of this owner."""
    told_end: int = 0
    """Rows with lower numbers are told."""
    oldest_ms: int = 0
    """Wall time at which the first task that is not told was closed; 0 if there is none."""
    is_idle: bool = True
    """False while rows are read or told."""
    taken: set[str] = field(default_factory=set)
    """Ids of outcomes that the sink has, of rows that are not removed yet."""
    failures: int = 0
    retry_at_ms: float = 0.0
    rewrites: int = 0
    look_at_ms: float = 0.0
    """Monotonic time at which the log is read again although no write has ended since."""

    @property
    def first(self) -> int:
        """The lowest number of this owner."""
        return self.epoch << EPOCH_SHIFT

    def rewrite_time(self, number: int) -> int:
        """Return the write time for a change of a row that has been written: above all before."""
        self.rewrites += 1
        return max(number, self.first) + self.rewrites

    def is_late(self, number: int) -> bool:
        """True if a row came after a later owner than its own had read the log."""
        return any(above < number < below for above, below in self.unread)

    @property
    def unsettled(self) -> set[int]:
        """The numbers of writes of which it is unknown if they had their effect."""
        return self.under_way | self.failed | (self.doubts or {}).keys()

    @property
    def settled_end(self) -> int:
        """The number below which all is known."""
        return min(self.unsettled, default=max(self.last, self.first) + 1)


class OutcomeFeed:
    """Writes the outcome log, and tells what is in it; used from any thread."""

    def __init__(
        self, stores: Stores, sink: OutcomeSink, clock: Clock, telemetry: Telemetry, source: str
    ) -> None:
        self._log, self._results = stores.outcome_log, stores.results
        self._status, self._sink = stores.status, sink
        self._clock, self._telemetry, self._source = clock, telemetry, source
        self._lock = threading.RLock()
        self._partitions: dict[int, _Partition] = {}
        self._telling = 0
        self._turn = itertools.count(1)
        self._turns: defaultdict[int, int] = defaultdict(int)
        """By partition: the turn in which it was told of last; 0 if it never was."""

    def publishing(self, stores: Stores) -> Stores:
        """Return stores whose completions are told; closing them closes the feed."""

        def close() -> None:
            self.close()
            stores.close()

        status = _ToldStatus(stores.status, self)
        results = _ToldResults(stores.results, self)
        return replace(stores, close=close, status=status, results=results)

    def close(self) -> None:
        """Wait, for a bounded time, for outcomes that are under way."""
        self._sink.close()

    # Writes, on the dispatcher's thread.

    def note_results(
        self, partition: int, results: Sequence[StoredResult], write_time: int
    ) -> None:
        """Remember which tasks end with a value."""
        with self._lock:
            held = self._held(partition, write_time >> EPOCH_SHIFT)
            held.valued.update(each.key for each in results)

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Write rows of the log, then completions."""
        with self._lock:
            held = self._held(partition, write_time >> EPOCH_SHIFT)
            if held.ready.done():
                has_failed = held.ready.exception() is not None
                if has_failed or held.failed or self._writes_over(held, completions):
                    self._prepare(held)
            ready = held.ready
        return and_then(ready, lambda _none: self._write(held, completions, write_time))

    def _write(
        self, held: _Partition, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        with self._lock:
            unsettled = held.unsettled
            # Its write time was taken before its attempts were written: another may be ahead.
            number = held.last = max(write_time, held.last + 1)
            held.under_way.add(number)
            ended = {each.key for each in completions} & held.valued
            held.valued -= ended
        rows = outcome_rows(completions, number, unsettled, ended, held.unread)
        write = partial(self._status.insert_completions, held.number, completions, write_time)
        if rows:
            # A completion without its row would never be told.
            logged = self._log.insert_closed(held.number, rows, number)
            written: Future[None] = and_then(logged, lambda _none: write())
        else:
            written = write()
        written.add_done_callback(partial(self._settle, held, number))
        return written

    def _settle(self, held: _Partition, number: int, written: "Future[None]") -> None:
        with self._lock:
            held.under_way.discard(number)
            if written.exception() is not None:
                held.failed.add(number)

    # Writes that may not have become durable.

    def _held(self, partition: int, epoch: int) -> _Partition:
        """Return the state of a partition under an owner epoch; the lock is held."""
        held = self._partitions.get(partition)
        if held is None or held.epoch < epoch:
            held = _Partition(partition, epoch, Future())
            self._partitions[partition] = held
            self._prepare(held)
        return held

    @staticmethod
    def _writes_over(held: _Partition, completions: Sequence[Completion]) -> bool:
        doubts = held.doubts
        if not doubts:
            return False
        keys = {each.key for each in completions}
        return any(each.names_any(keys) for each in doubts.values())

    def _prepare(self, held: _Partition, over: Sequence[int] = ()) -> None:
        """Look at what is in doubt, before anything is written over it; the lock is held."""
        ready: Future[None] = Future()
        held.ready = ready
        begun(self._look(held, over)).add_done_callback(partial(_pass_on, ready))

    def _look(self, held: _Partition, over: Sequence[int]) -> Steps[None]:
        """Find the writes that may not have had their effect, and note those that had it.

        Those whose time is ``over`` no longer have one.
        """
        until_ms = self._clock.monotonic_ms() + DOUBT_MS
        failed, doubts = frozenset(held.failed), dict(held.doubts or {})
        unsure: Collection[int] = failed
        if held.doubts is None:
            unsure = failed.union((yield from self._left_unsure(held)))
        for number in unsure:
            doubts.setdefault(number, _Doubt(until_ms))
        for number, doubt in sorted(doubts.items()):
            doubt.rows = yield from self._noted_rows(held, number)
            if number in over:
                for row in doubt.rows:
                    yield from self._without_unsure(held, row)
            if number in over or doubt.is_over:
                del doubts[number]
        with self._lock:
            held.doubts = doubts
            held.failed -= failed

    def _left_unsure(self, held: _Partition) -> Steps[set[int]]:
        """Return the numbers of writes of earlier owners that may not have had their effect."""
        last = yield self._log.find_last_closed(held.number, held.first)
        if last is None:
            held.unread = ((0, held.first),)
            return set()
        unsure = set(unsettled_by(last))
        inherited = unread_by(last)[1 - _UNREAD_MAX :]
        for above, below in inherited:
            # The owner before this one need not have seen them, so they are not settled by it.
            late = yield self._log.load_closed(held.number, above + 1, below, _PIECES_MAX)
            unsure.update(row.number for row in late)
        held.unread = (*inherited, (last.number, held.first))
        return unsure

    def _noted_rows(self, held: _Partition, number: int) -> Steps[list[OutcomesRow]]:
        found = yield self._log.load_closed(held.number, number, number + 1, _PIECES_MAX)
        noted = []
        for row in found:
            noted.append((yield from self._noted(held, row)))
        return noted

    def _noted(self, held: _Partition, row: OutcomesRow) -> Steps[OutcomesRow]:
        """Note in a row which of its completions are durable, and return it."""
        entries = entries_of(row)
        asked = [each.key for each in entries if not each.is_sure]
        if not asked:
            return row
        stored = yield self._status.find_completions(held.number, asked)
        noted = [
            each if each.is_sure else replace(each, is_sure=each.is_of(stored.get(each.key)))
            for each in entries
        ]
        if noted == list(entries):
            return row
        changed = row_with(row, noted)
        yield self._log.insert_closed(held.number, [changed], held.rewrite_time(row.number))
        return changed

    def _without_unsure(self, held: _Partition, row: OutcomesRow) -> Steps[Sequence[ClosedTask]]:
        """Remove from the log what is not durable, and return the rest."""
        entries = entries_of(row)
        sure = [each for each in entries if each.is_sure]
        place, write_time = (row.number, row.piece), held.rewrite_time(row.number)
        if not sure:
            yield self._log.delete_closed(held.number, place, place, write_time)
        elif len(sure) < len(entries):
            yield self._log.insert_closed(held.number, [row_with(row, sure)], write_time)
        return sure

    # Telling, one window of a partition at a time.

    def step(self, owned: Mapping[int, int]) -> None:
        """Go on with the partitions that this node works on, by their owner epochs; never waits."""
        now_ms = self._clock.monotonic_ms()
        # If all partitions have more to tell, the ones served last wait for the others.
        for partition, epoch in sorted(owned.items(), key=lambda each: self._turns[each[0]]):
            with self._lock:
                held = self._held(partition, epoch)
                if held.epoch != epoch or self._telling >= TELLING_MAX:
                    continue
                steps = self._next(held, now_ms)
                if steps is None:
                    continue
                held.is_idle = False
                self._telling += 1
                self._turns[partition] = next(self._turn)
            begun(steps).add_done_callback(partial(self._end_telling, held))

    def _next(self, held: _Partition, now_ms: float) -> "Steps[int] | None":
        """Return what is to be done with a partition now, if anything; the lock is held."""
        if not (held.is_idle and held.ready.done() and now_ms >= held.retry_at_ms):
            return None
        if held.ready.exception() is not None or held.failed:
            self._postpone(held)
            self._prepare(held)
            return None
        over = [number for number, each in (held.doubts or {}).items() if now_ms >= each.until_ms]
        if over:
            self._prepare(held, over)
            return None
        end = held.settled_end
        if end <= held.told_end and now_ms < held.look_at_ms:
            return None
        return self._tell(held, end)

    def _end_telling(self, held: _Partition, telling: "Future[int]") -> None:
        error = telling.exception()
        with self._lock:
            self._telling -= 1
            held.is_idle = True
            if error is None:
                held.failures = 0
                held.told_end = telling.result()
                held.look_at_ms = self._clock.monotonic_ms() + _LOOK_MS
            else:
                self._postpone(held)
        if error is not None:
            late_ms = max(0, self._clock.now_ms() - held.oldest_ms) if held.oldest_ms else 0
            self._telemetry.emit(OutcomesHeld(held.number, message_of(error), late_ms))

    def _postpone(self, held: _Partition) -> None:
        pause_ms = min(_PAUSE_MIN_MS * 2**held.failures, _PAUSE_MAX_MS)
        held.failures = min(held.failures + 1, 16)
        held.retry_at_ms = self._clock.monotonic_ms() + pause_ms

    def _tell(self, held: _Partition, end: int) -> Steps[int]:
        """Tell the first rows below a number; return the number below which all are told."""
        partition = held.number
        rows = yield self._log.load_closed(partition, 0, end, WINDOW_ROWS)
        closed: list[ClosedTask] = []
        for row in rows:
            if held.is_late(row.number):
                # Its owner had not heard of this one yet.
                noted = yield from self._noted(held, row)
                closed += yield from self._without_unsure(held, noted)
            else:
                closed += entries_of(row)
        held.oldest_ms = min((each.finished_ms for each in closed), default=0)
        records = yield from self._records(partition, closed)
        yield from self._put(held, [each for each in records if each[1].id not in held.taken])
        write_time = held.rewrite_time(held.last)
        for _, same in groupby(rows, lambda row: row.number >> EPOCH_SHIFT):
            of_owner = list(same)
            # Not across owners: a row of an earlier one may still come, and would be lost.
            places = [(row.number, row.piece) for row in (of_owner[0], of_owner[-1])]
            yield self._log.delete_closed(partition, places[0], places[1], write_time)
        held.taken.clear()
        is_all = len(rows) < WINDOW_ROWS
        if rows:
            late_ms = 0 if is_all else max(0, self._clock.now_ms() - held.oldest_ms)
            self._telemetry.emit(OutcomesTold(partition, len(records), late_ms))
        return end if is_all else held.told_end

    def _records(self, partition: int, closed: Sequence[ClosedTask]) -> Steps[list[_Told]]:
        keys = [each.key for each in closed if each.has_value]
        values: Mapping[TaskKey, StoredResult] = {}
        if keys:
            found = yield self._results.find_results(partition, keys)
            values = {each.key: each for each in found}
        records: list[_Told] = []
        for each in closed:
            if each.result not in TOLD:
                continue
            result = values.get(each.key) if each.has_value else None
            body = result.body if result is not None and result.is_of(each.finished_ms) else b""
            left_out = "expired" if each.has_value and not body else None
            record = outcome_record(partition, each, self._source, body or None, left_out)
            records.append((each, record))
        return records

    def _put(self, held: _Partition, records: Sequence[_Told]) -> Steps[None]:
        """Hand records to the sink; of one ordering id the next one follows when the sink has the
        one before, so that a failure cannot change their order.
        """
        waiting = list(records)
        while waiting:
            together = waiting if self._sink.in_order else list(_first_of_each(waiting))
            futures = self._sink.put([record for _, record in together])
            yield gather([_ended(each) for each in futures])
            failed: BaseException | None = None
            for (closed, record), future in zip(together, futures, strict=True):
                error = future.exception()
                if isinstance(error, TaskTooLarge):
                    yield from self._put_short(held.number, closed)
                elif error is not None:
                    failed = error
                    continue
                held.taken.add(record.id)
            if failed is not None:
                raise failed
            waiting = [each for each in waiting if each[1].id not in held.taken]

    def _put_short(self, partition: int, closed: ClosedTask) -> Steps[None]:
        """Tell of a task whose record is too large without its value and its reason."""
        short = replace(closed, reason=None)
        record = outcome_record(partition, short, self._source, None, "too_large")
        (future,) = self._sink.put([record])
        yield _ended(future)
        error = future.exception()
        if error is not None and not isinstance(error, TaskTooLarge):
            raise error
        if error is not None:
            # Both ids alone are too long for the topic: nothing shorter names the task.
            self._telemetry.emit(OutcomeRefused(partition, closed.key, message_of(error)))


class _ToldStatus:
    """``StatusStore``: completions go through the feed."""

    def __init__(self, store: StatusStore, feed: OutcomeFeed) -> None:
        self.insert_completions = feed.insert_completions
        self.insert_attempts = store.insert_attempts
        self.load_completions = store.load_completions
        self.find_completions = store.find_completions
        self.load_attempts = store.load_attempts
        self.find_attempts = store.find_attempts
        self.delete_statuses = store.delete_statuses


class _ToldResults:
    """``ResultStore``: the feed knows which tasks end with a value."""

    def __init__(self, store: ResultStore, feed: OutcomeFeed) -> None:
        self._store, self._note = store, feed.note_results
        self.find_results = store.find_results

    def insert_results(
        self, partition: int, results: Sequence[StoredResult], write_time: int
    ) -> "Future[None]":
        """Write results."""
        self._note(partition, results, write_time)
        return self._store.insert_results(partition, results, write_time)


def _first_of_each(records: Sequence[_Told]) -> Iterator[_Told]:
    """Yield the first record of each ordering id."""
    seen: set[str] = set()
    for each in records:
        if each[1].ordering_id not in seen:
            seen.add(each[1].ordering_id)
            yield each


def _pass_on(ready: "Future[None]", done: "Future[None]") -> None:
    error = done.exception()
    if error is None:
        ready.set_result(None)
    else:
        ready.set_exception(error)


def _ended(future: "Future[None]") -> "Future[None]":
    """Return a future that resolves when another ends, well or not."""
    ended: Future[None] = Future()
    future.add_done_callback(lambda _done: ended.set_result(None))
    return ended
