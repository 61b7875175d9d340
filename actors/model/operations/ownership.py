"""The owner of a partition, the progress of its work, and the stamps of its writes."""

import itertools
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.model.values.errors import OwnershipLost

EPOCH_SHIFT = 40
"""A write time is ``epoch << 40 | counter``, so a new owner's writes beat an old one's.
64 signed bits leave 2^23 epochs of 2^40 writes each."""

CLOCKS_APART_MS = 5_000
"""The clock of an earlier owner may have been ahead of this node's by up to this."""
_ADVANCES_SPREAD = 16


class Straggler(msgspec.Struct, frozen=True):
    """An ordering id whose incomplete tasks the watermark has passed."""

    ordering_id: str
    first_ms: int
    """Scheduled time of its first incomplete task."""


def stragglers_of(found: Iterable[Straggler]) -> tuple[Straggler, ...]:
    """Return one straggler for each ordering id, with its earliest time; in order."""
    first_ms: dict[str, int] = {}
    for each in found:
        known_ms = first_ms.get(each.ordering_id, each.first_ms)
        first_ms[each.ordering_id] = min(known_ms, each.first_ms)
    return tuple(sorted(itertools.starmap(Straggler, first_ms.items()), key=attrgetter("first_ms")))


class Watermark(msgspec.Struct, frozen=True):
    """The durable state of one partition."""

    watermark_ms: int
    """Every task scheduled before this is closed, or belongs to a straggler."""
    loaded_until_ms: int
    """The owner may hold in memory tasks scheduled before this; it only ever grows."""
    next_offset: int | None = None
    """Every record below this offset has had its durable effect."""
    stragglers: tuple[Straggler, ...] = ()
    tasks_swept_until_ms: int = 0
    """Schedule rows of hours before this one are deleted."""
    statuses_swept_until_ms: int = 0
    """Completions and attempts of hours before this one are deleted."""
    statuses_due_until_ms: int = 0
    """Those of hours before this one may be deleted next, once their retention is over."""
    statuses_due_at_ms: int = 0
    """Wall time of the end of that retention, counted from the deletion of the schedule rows,
    because a task may be closed long after it was scheduled."""
    write_time: int = 0
    """Orders saves of one owner: one that a failed tree left in flight must not undo its
    successor's."""
    topic_id: str = ""
    """The broker's id of the topic of ``next_offset``; empty if the broker has none, or an earlier
    version stored the offset."""
    thinned_until_ms: int = 0
    """Only the schedule rows of failed tasks are kept of hours before this one. Earlier versions do
    not know it, so it may be less than ``tasks_swept_until_ms``."""

    def __post_init__(self) -> None:
        if self.statuses_swept_until_ms > self.tasks_swept_until_ms:
            raise ValueError("completions may not be deleted before their schedule rows")

    @property
    def thinned_ms(self) -> int:
        """The end of the hours whose rows are deleted, except perhaps those of failed tasks."""
        return max(self.thinned_until_ms, self.tasks_swept_until_ms)

    @property
    def known_from_ms(self) -> int:
        """The time from which all completions are read, with rows or without.

        Completions of earlier hours are as many, but have hardly any rows, and are looked up by
        key.
        """
        return max(self.watermark_ms, self.thinned_ms)

    def lowered_to(self, time_ms: int) -> "Watermark":
        """Return the watermark for a partition with an open task at ``time_ms``, before this
        one.
        """
        assert time_ms < self.watermark_ms, "lowering a mark does not raise it"
        hour_ms = hour_of(time_ms)
        return replace(
            self,
            watermark_ms=time_ms,
            tasks_swept_until_ms=min(self.tasks_swept_until_ms, hour_ms),
            statuses_swept_until_ms=min(self.statuses_swept_until_ms, hour_ms),
            statuses_due_until_ms=min(self.statuses_due_until_ms, hour_ms),
        )

    def with_retention_begun(self, now_ms: int, retention_ms: int) -> "Watermark":
        """Return the watermark with the deleted schedule rows' completions due after a retention.

        One range waits at a time, so a completion is kept for one to two retentions.
        """
        waiting = self.statuses_due_until_ms > self.statuses_swept_until_ms
        # If a task was opened again, the retention of its completion begins at its new end.
        deleted_ms = min(self.thinned_ms, self.tasks_sweep_end_ms())
        if waiting or deleted_ms <= self.statuses_swept_until_ms:
            return self
        return replace(
            self,
            statuses_due_until_ms=deleted_ms,
            statuses_due_at_ms=now_ms + retention_ms,
        )

    def advanced_to(
        self, floor_ms: int, held: Sequence[Straggler], stragglers_max: int
    ) -> "Watermark":
        """Return the watermark moved to ``floor_ms``, or to the point after which it would pass
        more than ``stragglers_max`` of the held ordering ids, earliest first.
        """
        passed = [straggler for straggler in held if straggler.first_ms < floor_ms]
        if len(passed) > stragglers_max:
            floor_ms = passed[stragglers_max].first_ms
        stragglers = tuple(s for s in passed[:stragglers_max] if s.first_ms < floor_ms)
        assert not passed or passed[0].first_ms <= passed[-1].first_ms, "earliest first"
        return replace(self, watermark_ms=floor_ms, stragglers=stragglers)

    def floor_ms(self, now_ms: int, lag_ms: int, loaded_ms: int, earliest_ms: int | None) -> int:
        """Return the latest time for the watermark: everything before it is closed and was
        loaded.
        """
        assert lag_ms >= 0, "a mark is not ahead of the clock"
        floor_ms = min(max(self.watermark_ms, now_ms - lag_ms), loaded_ms)
        return floor_ms if earliest_ms is None else min(floor_ms, earliest_ms)

    @property
    def first_open_ms(self) -> int:
        """The time before which everything is closed, stragglers included."""
        return min([self.watermark_ms, *(each.first_ms for each in self.stragglers)])

    def tasks_sweep_end_ms(self) -> int:
        """Return the time up to which schedule rows may be deleted: whole hours that are closed.

        Those of failed tasks stay for a while.
        """
        return hour_of(self.first_open_ms)

    def statuses_sweep_end_ms(self, now_ms: int) -> int:
        """Return the time up to which completions and attempts may be deleted: whole hours after
        their retention.
        """
        if now_ms < self.statuses_due_at_ms:
            return self.statuses_swept_until_ms
        # A completion outlives its row, even a failed task's that is kept for longer (P5).
        return min(self.statuses_due_until_ms, self.tasks_swept_until_ms)

    def is_worth_saving(self, saved: "Watermark", step_ms: int) -> bool:
        """True if it should be saved: if nothing else has changed, the watermark is saved only
        after a step of the clock.
        """
        return (
            self.watermark_ms < saved.watermark_ms
            or self.watermark_ms >= saved.watermark_ms + max(1, step_ms)
            or self.stragglers != saved.stragglers
            or self.next_offset != saved.next_offset
            or self.statuses_due_at_ms != saved.statuses_due_at_ms
        )


class Claim(msgspec.Struct, frozen=True):
    """The state for a new owner: its epoch, and the partition's durable state."""

    epoch: int
    watermark: Watermark


class Ownership:
    """One node's hold on one partition: its epoch and the counter of its writes.

    It belongs to the node, not to the tree, so the counter outlives every rebuild and a
    rebuilt tree's writes still beat those its predecessor left in flight.
    """

    __slots__ = ("_counter", "epoch", "first_epoch", "partition")

    def __init__(self, partition: int, epoch: int, before: "Ownership | None" = None) -> None:
        """``before`` is this process's previous hold on the partition, if any."""
        assert epoch >= 0, "a claim raises the epoch"
        self.partition: int = partition
        self.epoch = epoch
        assert before is None or before.partition == partition, "another partition's owner"
        self._counter = itertools.count(1)
        # A claim raises the epoch by one, so without a gap there was no other owner in between.
        unbroken = before is not None and before.epoch + 1 == epoch
        self.first_epoch: int = before.first_epoch if before is not None and unbroken else epoch
        """The first own epoch since which this process has owned the partition without a break."""

    def continues(self, epoch: int) -> bool:
        """True if only this process owned the partition since that epoch of its own."""
        return self.first_epoch <= epoch <= self.epoch

    def next_write_time(self) -> int:
        """Return a write time above all those that this and every older owner ever used."""
        counter = next(self._counter)
        assert counter < 1 << EPOCH_SHIFT, "the counter would run into the epoch"
        return self.epoch << EPOCH_SHIFT | counter

    def confirm(self, claim: Claim | None) -> None:
        """Raise OwnershipLost if the partition's claim is a newer owner's."""
        if claim is not None and claim.epoch > self.epoch:
            raise OwnershipLost(self.partition, self.epoch)


def initial_watermark(time_ms: int) -> Watermark:
    """Return the state of a partition that never had an owner: nothing before ``time_ms``."""
    hour_ms = hour_of(time_ms)
    return Watermark(
        watermark_ms=time_ms,
        loaded_until_ms=time_ms,
        tasks_swept_until_ms=hour_ms,
        statuses_swept_until_ms=hour_ms,
    )


class Assignment(msgspec.Struct, frozen=True):
    """A partition that this node owns, and the end of its log at the assignment."""

    ownership: Ownership
    watermark: Watermark
    catch_up_offset: int
    """Nothing starts before the records below this offset are durable (P4)."""
    next_offset: int
    """The offset at which reading begins."""
    resumed: bool = False
    """An earlier tree of this node worked on the partition under the same epoch."""
    topic_changed: bool = False
    """True if the store knows another topic, or none: this one must be stored before any record has
    its effect."""


def first_advance_ms(partition: int, interval_ms: int) -> float:
    """Return the time until a partition's watermark first advances.

    The partitions of a node begin together; if they also saved together, every task that is due
    just then would wait for the store each time.
    """
    return interval_ms * (1 + partition % _ADVANCES_SPREAD) / _ADVANCES_SPREAD
