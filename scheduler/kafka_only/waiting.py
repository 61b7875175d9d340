"""The messages that wait in one partition of the pending topic, and the steps of its owner.

Decides which messages are passed on, which are moved to a nearer bucket and which are put aside,
and the marker for it; a planned step counts only once it is settled. It never produces anything and
reads no clock.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from enum import Enum, auto

import msgspec

from hourhand.actors.model.task.codec import LogRecord, record_bytes
from hourhand.actors.model.window.budget import PartitionBudget
from hourhand.scheduler.kafka_only.bucket_layout import Layout, ripe_ms
from hourhand.scheduler.kafka_only.dead_letters import Letters
from hourhand.scheduler.kafka_only.envelope import Envelope, NoEnvelope, pending, read_envelope
from hourhand.scheduler.kafka_only.marker import Marker
from hourhand.scheduler.kafka_only.ports import Outgoing
from hourhand.scheduler.kafka_only.step_timing import MOVE_GATHER_MS
from hourhand.scheduler.services.relay.message import Message


class BucketRules(msgspec.Struct, frozen=True):
    """Rules that all partitions share."""

    pending_topic: str
    dead_letter_topic: str
    allows: Callable[[str], str | None]
    """Returns the reason why a topic may not be a target; None if it may."""
    batch_records_max: int
    batch_bytes_max: int
    held_records_max: int
    held_bytes_max: int
    """Limit for one partition, if the node's budget allows it."""
    away_until_ms: Callable[[str, bytes | None], int | None] = lambda _topic, _key: None
    """Returns the time until which a topic takes no message of a key; None if it takes them now."""

    def fullness(self, records: int, budget: PartitionBudget) -> float:
        """Return the records of a partition as a share of its limits, by number and by bytes."""
        bytes_max = min(self.held_bytes_max, budget.share_bytes)
        return max(records / self.held_records_max, budget.used_bytes / bytes_max)

    def step_bytes(self, budget: PartitionBudget) -> int:
        """Return the size at which a step ends, without its last record: a driver copies the
        records.
        """
        return max(1, min(self.batch_bytes_max, budget.share_bytes // 2))


class StepPlan(msgspec.Struct, frozen=True):
    """One step: the records to produce, and the progress of the partition."""

    outgoing: tuple[Outgoing, ...]
    offsets: tuple[int, ...]
    """For each produced record, the offset of the record that it replaces."""
    marker: Marker
    due_ms: tuple[int, ...] = ()
    """Due times of the messages that are passed on."""
    moved: int = 0
    """Number of messages that go to a nearer bucket."""
    put_aside: int = 0
    """Number of records that go to the dead-letter topic."""


class _StepOutcome(Enum):
    """The results of a step for a message."""

    PASSED_ON = auto()
    MOVED = auto()
    PUT_ASIDE = auto()


class _WaitingRecord(msgspec.Struct, frozen=True):
    """A record in memory."""

    record: LogRecord
    envelope: Envelope | None
    message: Message | None
    size_bytes: int
    unread: str = ""
    """The reason why envelope and message cannot be read."""


class Waiting:
    """The records of one partition that its owner keeps in memory."""

    gather_ms = MOVE_GATHER_MS

    def __init__(self, rules: BucketRules, budget: PartitionBudget) -> None:
        self._rules = rules
        self.budget = budget
        self._marker = Marker(0)
        self._reached = 0
        self._records: dict[int, _WaitingRecord] = {}
        self._in_order: deque[int] = deque()
        self._ripening: list[tuple[int, int, str, int]] = []
        """(time at which it needs its owner, due time, origin, offset), as a heap."""
        self._letters = Letters(rules.dead_letter_topic)

    @property
    def marker(self) -> Marker:
        """The partition's progress."""
        return self._marker

    @property
    def fullness(self) -> float:
        """Records in memory as a share of the limit; from 1 on no more should be read."""
        return self._rules.fullness(len(self._records), self.budget)

    @property
    def count(self) -> int:
        """Number of records in memory."""
        return len(self._records)

    def begin(self, marker: Marker) -> None:
        """Continue from a marker; records that it marks as done are forgotten."""
        self._marker = marker
        self._reached = max(self._reached, marker.next_offset)
        for offset in [each for each in self._records if marker.is_done(each)]:
            self._forget(offset)
        self._ripening = [self._entry(waiting) for waiting in self._records.values()]
        heapq.heapify(self._ripening)

    def take(self, records: Sequence[LogRecord], reached: int | None = None) -> None:
        """Keep records that were read; ``reached`` is the offset up to which there are no
        others.
        """
        for record in records:
            self._reached = max(self._reached, record.offset + 1)
            if record.offset in self._records or self._marker.is_done(record.offset):
                continue
            waiting = _read(record)
            self._records[record.offset] = waiting
            self._in_order.append(record.offset)
            self.budget.keep_waiting(waiting.size_bytes)
            heapq.heappush(self._ripening, self._entry(waiting))
        self._reached = max(self._reached, reached or 0)

    def next_ms(self) -> int | None:
        """Return the time of the next step; None if no message waits."""
        return self._ripening[0][0] if self._ripening else None

    def first_due_ms(self) -> int | None:
        """Return the due time of the message that needs its owner first; None if no message waits.

        In the first bucket that is the message which is due first; elsewhere nothing is due for
        long.
        """
        return self._ripening[0][1] if self._ripening else None

    def passes_on(self, now_ms: int) -> bool:
        """Return True if the next step passes messages on."""
        return bool(self._ripening) and self._ripening[0][1] <= now_ms

    def plan(self, now_ms: int, layout: Layout) -> StepPlan | None:
        """Return a bounded step for now; None if there is nothing to do."""
        ripe = self._ripe(now_ms)
        if not ripe:
            return None
        outgoing: list[Outgoing] = []
        due_ms: list[int] = []
        fates: Counter[_StepOutcome] = Counter()
        for waiting in ripe:
            step, fate = self._step(waiting, now_ms, layout)
            outgoing.append(step)
            fates[fate] += 1
            if fate is _StepOutcome.PASSED_ON and waiting.envelope is not None:
                due_ms.append(waiting.envelope.due_ms)
        offsets = tuple(waiting.record.offset for waiting in ripe)
        marker = self._marker.doing(offsets, self._first_left(frozenset(offsets)))
        moved, put_aside = fates[_StepOutcome.MOVED], fates[_StepOutcome.PUT_ASIDE]
        return StepPlan(tuple(outgoing), offsets, marker, tuple(due_ms), moved, put_aside)

    def settle(self, plan: StepPlan) -> None:
        """Apply a plan that took effect."""
        self._marker = plan.marker
        for offset in plan.offsets:
            self._forget(offset)

    def put_back(self, plan: StepPlan) -> None:
        """Put the records of a plan without effect back."""
        for offset in plan.offsets:
            heapq.heappush(self._ripening, self._entry(self._records[offset]))

    def refuse(self, offset: int, refused: Outgoing, reason: str) -> None:
        """Put a record aside with the next plan; LogUnavailable if its letter was refused too."""
        self._letters.refuse(offset, refused, reason)

    def _ripe(self, now_ms: int) -> list[_WaitingRecord]:
        rules = self._rules
        ripe: list[_WaitingRecord] = []
        size_bytes, bytes_max = 0, rules.step_bytes(self.budget)
        while self._ripening and self._ripening[0][0] <= now_ms:
            if len(ripe) >= rules.batch_records_max or size_bytes >= bytes_max:
                break
            waiting = self._records[heapq.heappop(self._ripening)[3]]
            ripe.append(waiting)
            size_bytes += waiting.size_bytes
        return ripe

    def _step(
        self, waiting: _WaitingRecord, now_ms: int, layout: Layout
    ) -> tuple[Outgoing, _StepOutcome]:
        """Return the record to produce for a message, and the result for it."""
        envelope, message = waiting.envelope, waiting.message
        if envelope is None or message is None:
            return self._letters.letter(
                self._rules.pending_topic, waiting.record, waiting.record.headers, waiting.unread
            ), _StepOutcome.PUT_ASIDE
        reason = self._letters.reason(waiting.record.offset) or self._rules.allows(envelope.topic)
        if reason is not None:
            told = f"message for topic {envelope.topic!r} not passed on: {reason}"
            return self._letters.letter(
                self._rules.pending_topic, waiting.record, message.headers, told
            ), _StepOutcome.PUT_ASIDE
        if envelope.due_ms <= now_ms:
            away_ms = self._rules.away_until_ms(envelope.topic, message.key)
            if away_ms is None or away_ms <= now_ms:
                return (
                    Outgoing(envelope.topic, None, message.key, message.value, message.headers),
                    _StepOutcome.PASSED_ON,
                )
            # Kept here, messages for an unavailable target would fill the memory and stop the
            # messages for others.
            envelope = msgspec.structs.replace(envelope, due_ms=away_ms)
        return pending(
            self._rules.pending_topic, layout, envelope, message, now_ms
        ), _StepOutcome.MOVED

    def _first_left(self, planned: frozenset[int]) -> int:
        """Return the first offset that still waits after a plan."""
        while self._in_order and self._in_order[0] not in self._records:
            self._in_order.popleft()
        for offset in self._in_order:
            if offset in self._records and offset not in planned:
                return offset
        return self._reached

    def _entry(self, waiting: _WaitingRecord) -> tuple[int, int, str, int]:
        record = waiting.record
        if waiting.envelope is None:
            return 0, 0, "", record.offset
        due_ms = waiting.envelope.due_ms
        ripe = ripe_ms(record.timestamp_ms, waiting.envelope.lower_ms, due_ms)
        return ripe, due_ms, waiting.envelope.origin, record.offset

    def _forget(self, offset: int) -> None:
        self.budget.keep_waiting(-self._records.pop(offset).size_bytes)
        self._letters.forget(offset)


def _read(record: LogRecord) -> _WaitingRecord:
    size_bytes = record_bytes(record)
    try:
        envelope, message = read_envelope(record)
    except NoEnvelope as error:
        return _WaitingRecord(record, None, None, size_bytes, str(error))
    return _WaitingRecord(record, envelope, message, size_bytes)
