"""The stored counts: tasks due ahead, and the results of each partition's hours.

Reads counts only, so the number of tasks never matters. A count may be off by what a crash lost and
by keys that were scheduled twice; it is never below zero.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from operator import add
from typing import Self

from hourhand.actors.model.operations.tally import MINUTE_MS, SECONDS, HourTally
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.admin.answers import Answer, Instant, instant_text
from hourhand.scheduler.runtime.answers import answered

_NO_SECONDS = dict.fromkeys(range(SECONDS), 0)
_NO_TALLY = HourTally()
_SECONDS_AHEAD_MS = 72 * HOUR_MS
"""The distribution over seconds covers three days; adding up a year's seconds would take too
long."""


class Unit(StrEnum):
    """Width of a bar of the future."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def width_ms(self) -> int:
        """The bar's width, in milliseconds."""
        return {"minute": MINUTE_MS, "hour": HOUR_MS, "day": 24 * HOUR_MS}[self.value]


BARS_MAX = {Unit.MINUTE: 24 * 60, Unit.HOUR: 60 * 24, Unit.DAY: 400}
BUCKET_HOURS_MAX = 24 * 31


class DueBar(Answer, frozen=True):
    """The number of tasks that are due in one minute, hour or day."""

    time: Instant | None
    due: int


class Ahead(Answer, frozen=True):
    """The numbers of tasks that are due ahead."""

    as_of: Instant | None
    unit: Unit
    total: int
    bars: list[DueBar]
    seconds_of_minute: list[int]
    """Open tasks of the first 72 hours for each second of their minute."""


class ShownHour(Answer, frozen=True):
    """The results of the tasks of one partition and hour."""

    partition: int
    hour: Instant | None
    stored: int
    pending: int
    """Open tasks, including those that block their ordering ids."""
    blocked: int | None
    """Tasks that block their ordering ids; null if no owner answers."""
    done: int
    failed: int
    dropped: int
    cancelled: int
    moved: int

    @classmethod
    def of(cls, partition: int, hour_ms: int, tally: HourTally, blocked: int | None) -> Self:
        """Show an hour's counts."""
        closed = tally.closed
        return cls(
            partition=partition,
            hour=instant_text(hour_ms),
            stored=tally.stored,
            # A blocked task is open, even if the hour's count does not include it yet.
            pending=max(_open_tasks(tally), blocked or 0),
            blocked=blocked,
            done=closed.get("success", 0),
            failed=max(0, closed.get("failure", 0) - closed.get("reopened", 0)),
            dropped=closed.get("dropped", 0),
            cancelled=closed.get("cancelled", 0),
            moved=closed.get("moved", 0),
        )


class Hours(Answer, frozen=True):
    """The results of each partition's hours; empty hours are left out."""

    buckets: list[ShownHour]


class KeptCounts:
    """Reads ``hour_tally``."""

    def __init__(self, stores: Stores, partition_count: int) -> None:
        self._tallies = stores.tallies
        self._partition_count = partition_count

    def ahead(
        self,
        unit: Unit,
        now_ms: int,
        bars: int,
        partition: int | None = None,
        from_ms: int | None = None,
    ) -> Ahead:
        """Return the number of tasks due in each of the next bars, from now unless told otherwise.

        The first bar counts from the minute of ``from_ms`` on. The answer also has the open tasks
        of the first 72 hours by the second of their minute.
        """
        width_ms = unit.width_ms
        from_ms = now_ms if from_ms is None else from_ms
        first_ms = from_ms - from_ms % width_ms
        minute_ms = from_ms - from_ms % MINUTE_MS
        end_ms = first_ms + bars * width_ms
        near_end_ms = minute_ms + _SECONDS_AHEAD_MS
        due: dict[int, int] = defaultdict(int)
        seconds = [0] * SECONDS
        for _, hours in self._asked(hour_of(first_ms), end_ms, partition):
            near = (tally for at_ms, tally in hours.items() if at_ms < near_end_ms)
            seconds = list(map(add, seconds, _by_second(near)))
            for hour_ms, tally in hours.items():
                if width_ms >= HOUR_MS and hour_ms >= minute_ms:
                    due[hour_ms - hour_ms % width_ms] += _open_tasks(tally)
                    continue
                for minute, count in tally.open.items():
                    at_ms = hour_ms + minute * MINUTE_MS
                    if minute_ms <= at_ms < end_ms and count > 0:
                        due[at_ms - at_ms % width_ms] += count
        times = range(first_ms, end_ms, width_ms)
        return Ahead(
            as_of=instant_text(now_ms),
            unit=unit,
            total=sum(due.values()),
            bars=[DueBar(time=instant_text(each), due=due.get(each, 0)) for each in times],
            seconds_of_minute=[max(0, each) for each in seconds],
        )

    def buckets(
        self, from_ms: int, to_ms: int, blocked: Mapping[int, Mapping[int, int] | None]
    ) -> Hours:
        """Return the results of each partition's tasks, hour by hour.

        ``blocked`` has the owners' numbers of blocked tasks, by partition and hour.
        """
        found = []
        for partition, hours in self._asked(hour_of(from_ms), to_ms, None):
            told = blocked.get(partition)
            within = [each for each in told or () if hour_of(from_ms) <= each < to_ms]
            for hour_ms in sorted({*hours, *within}):
                known = None if told is None else told.get(hour_ms, 0)
                tally = hours.get(hour_ms, _NO_TALLY)
                found.append(ShownHour.of(partition, hour_ms, tally, known))
        return Hours(buckets=found)

    def _asked(
        self, first_ms: int, end_ms: int, partition: int | None
    ) -> Iterator[tuple[int, Mapping[int, HourTally]]]:
        """Yield each partition's hours; all are requested before the first is awaited."""
        numbers = range(self._partition_count) if partition is None else [partition]
        asked = deque((each, self._tallies.load(each, first_ms, end_ms)) for each in numbers)
        while asked:
            number, future = asked.popleft()
            yield number, answered(future).hours


def _by_second(tallies: Iterable[HourTally]) -> Iterable[int]:
    """Return the open tasks of each second of the minute."""
    rows = [tuple((_NO_SECONDS | tally.seconds).values()) for tally in tallies]
    return map(sum, zip(*rows, strict=True)) if rows else _NO_SECONDS.values()


def _open_tasks(tally: HourTally) -> int:
    """Return the open tasks of an hour; a minute with a count below zero adds none."""
    counts = tally.open.values()
    if min(counts, default=0) >= 0:
        return sum(counts)
    return sum(count for count in counts if count > 0)
