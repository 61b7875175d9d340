"""The records that were read from one partition of the relay's in-topic, and their next steps.

Decides whether a message waits or is put aside with a reason: malformed headers, delays beyond the
pending topic's retention, and acts that this storage cannot do. Records are handled in the order of
the partition; none is held back.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from hourhand.actors.model.operations.events import RelayRecordRefused
from hourhand.actors.model.task.codec import LogRecord, record_bytes
from hourhand.actors.model.window.budget import PartitionBudget
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.configuration.door_settings import RelaySettings
from hourhand.scheduler.kafka_only.bucket_layout import Layout
from hourhand.scheduler.kafka_only.dead_letters import Letters
from hourhand.scheduler.kafka_only.envelope import Envelope, pending
from hourhand.scheduler.kafka_only.marker import Marker
from hourhand.scheduler.kafka_only.ports import Outgoing
from hourhand.scheduler.kafka_only.step_timing import INTAKE_GATHER_MS
from hourhand.scheduler.kafka_only.waiting import BucketRules, StepPlan
from hourhand.scheduler.services.relay.claim_state import place_of
from hourhand.scheduler.services.relay.headers import (
    Malformed,
    RelayAction,
    RelayRequest,
    request_of,
)

logger = logging.getLogger("hourhand.relay")


class IntakeRules(msgspec.Struct, frozen=True):
    """Rules that all partitions of the in-topic share."""

    rules: BucketRules
    relay: RelaySettings
    delay_ms_max: int
    """The longest delay that the pending topic's retention covers."""
    allows: Callable[[str], bool]
    """Returns True if a message may name a topic."""
    telemetry: Telemetry


class _Read(msgspec.Struct, frozen=True):
    """A record in memory."""

    record: LogRecord
    request: RelayRequest | Malformed
    """Malformed: the reason why it can never be relayed."""
    size_bytes: int


class Arrivals:
    """The records of one partition of the in-topic that were read and are not done."""

    gather_ms = INTAKE_GATHER_MS

    def __init__(self, intake: IntakeRules, budget: PartitionBudget) -> None:
        self._intake = intake
        self.budget = budget
        self._marker = Marker(0)
        self._reached = 0
        self._read: deque[_Read] = deque()
        self._letters = Letters(intake.rules.dead_letter_topic)
        self._told: set[int] = set()
        """Offsets of records that are not relayed and were already reported."""
        self._first_due_ms = math.inf
        """The first due time among the records in memory; cached, because it is read more often
        than records come or go."""

    @property
    def marker(self) -> Marker:
        """The partition's progress."""
        return self._marker

    @property
    def fullness(self) -> float:
        """Records in memory as a share of the limit; from 1 on no more should be read."""
        return self._intake.rules.fullness(len(self._read), self.budget)

    @property
    def count(self) -> int:
        """Number of records in memory."""
        return len(self._read)

    def begin(self, marker: Marker) -> None:
        """Continue from a marker; records that it marks as done are forgotten."""
        self._marker = marker
        self._reached = max(self._reached, marker.next_offset)
        while self._read and self._read[0].record.offset < marker.next_offset:
            self._forget_first()
        self._first_due_ms = min(map(self._due_ms, self._read), default=math.inf)

    def take(self, records: Sequence[LogRecord], reached: int | None = None) -> None:
        """Hold records that were read; ``reached`` is the offset up to which there are no
        others.
        """
        for record in records:
            if record.offset >= self._reached:
                read = self._read_of(record)
                self._read.append(read)
                self._first_due_ms = min(self._first_due_ms, self._due_ms(read))
                self.budget.keep_waiting(read.size_bytes)
                self._reached = record.offset + 1
        self._reached = max(self._reached, reached or 0)

    def next_ms(self) -> int | None:
        """Return the time of the next step: now if any record was read, else None."""
        return 0 if self._read else None

    def first_due_ms(self) -> int | None:
        """Return the first deadline among the records; None if there are none."""
        return None if self._first_due_ms == math.inf else int(self._first_due_ms)

    def passes_on(self, now_ms: int) -> bool:
        """Return False: a late message also goes to the first bucket, whose owner passes it on."""
        del now_ms
        return False

    def plan(self, now_ms: int, layout: Layout) -> StepPlan | None:
        """Return a bounded step for the records that were read; None if there are none."""
        rules = self._intake.rules
        outgoing: list[Outgoing] = []
        offsets: list[int] = []
        size_bytes, bytes_max = 0, rules.step_bytes(self.budget)
        next_offset = self._marker.next_offset
        for read in self._read:
            if len(offsets) >= rules.batch_records_max or size_bytes >= bytes_max:
                break
            size_bytes += read.size_bytes
            next_offset = read.record.offset + 1
            step = self._step(read, now_ms, layout)
            if step is not None:
                outgoing.append(step)
                offsets.append(read.record.offset)
        if next_offset == self._marker.next_offset:
            return None
        return StepPlan(tuple(outgoing), tuple(offsets), Marker(next_offset))

    def settle(self, plan: StepPlan) -> None:
        """Drop the records of a plan that took effect."""
        self.begin(plan.marker)

    def put_back(self, plan: StepPlan) -> None:
        """Do nothing: the records of a plan without effect are still in memory."""

    def refuse(self, offset: int, refused: Outgoing, reason: str) -> None:
        """Put a record aside with the next plan; LogUnavailable if its letter was refused too."""
        self._letters.refuse(offset, refused, reason)

    def _read_of(self, record: LogRecord) -> _Read:
        request: RelayRequest | Malformed
        try:
            request = request_of(record, self._intake.relay, self._intake.allows)
            if request.action is not RelayAction.SCHEDULE:
                raise Malformed(
                    f"action {request.action}: Kafka alone keeps no index of ids, so what waits"
                    " cannot be found; cancel and reschedule need --storage engine"
                )
        except Malformed as error:
            request = error
        return _Read(record, request, record_bytes(record))

    def _due_ms(self, read: _Read) -> float:
        """Return the due time of a message; infinity for a record that no message waits for."""
        return math.inf if isinstance(read.request, Malformed) else self._when(read.request)

    def _when(self, request: RelayRequest) -> int:
        return request.deadline_ms - self._intake.relay.timing_advance_ms

    def _step(self, read: _Read, now_ms: int, layout: Layout) -> Outgoing | None:
        """Return the record to produce for a read record; None to drop it."""
        record, request = read.record, read.request
        if isinstance(request, Malformed):
            return self._put_aside(record, str(request))
        due_ms = self._when(request)
        reason = self._letters.reason(record.offset) or self._too_far(due_ms - now_ms)
        if reason is not None:
            return self._put_aside(record, reason)
        message = request.message
        # A late message takes the same way as one in time, so that it cannot overtake an earlier
        # message.
        origin = place_of(record.partition, record.offset)
        envelope = Envelope(max(due_ms, now_ms), 0, message.topic, origin, request.id)
        return pending(self._intake.rules.pending_topic, layout, envelope, message, now_ms)

    def _too_far(self, delay_ms: int) -> str | None:
        if delay_ms <= self._intake.delay_ms_max:
            return None
        return (
            f"its deadline is {delay_ms} ms ahead, buckets.longest_delay_ms and the pending"
            f" topic's retention cover {self._intake.delay_ms_max} ms"
        )

    def _put_aside(self, record: LogRecord, reason: str) -> Outgoing | None:
        relay = self._intake.relay
        if record.offset not in self._told:
            self._told.add(record.offset)
            where = f"{relay.in_topic}[{record.partition}] offset {record.offset}"
            logger.error("%s is not relayed: %s", where, reason)
            told = RelayRecordRefused(record.partition, record.offset, reason)
            self._intake.telemetry.emit(told)
        if relay.malformed == "drop":
            return None
        return self._letters.letter(relay.in_topic, record, record.headers, reason)

    def _forget_first(self) -> None:
        read = self._read.popleft()
        self.budget.keep_waiting(-read.size_bytes)
        self._letters.forget(read.record.offset)
        self._told.discard(read.record.offset)
