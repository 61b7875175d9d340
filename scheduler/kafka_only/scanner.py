"""The owner of one partition: it takes each planned step in one transaction.

Decides the reaction to a failed transaction: a refused record is put aside with the next one; after
an unknown outcome, or a record that cannot be put aside, the owner begins again. The planner
decides the steps.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from hourhand.actors.model.operations.events import LogCalled, MessageRelayed, TransactionCommitted
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.errors import HourhandError, LogUnavailable
from hourhand.actors.model.window.budget import PartitionBudget
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import StartPosition
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.kafka_only.bucket_layout import Layout
from hourhand.scheduler.kafka_only.marker import Marker, decode_marker, encode_marker
from hourhand.scheduler.kafka_only.ports import Fenced, Outgoing, PartitionTransactions, Refused
from hourhand.scheduler.kafka_only.waiting import StepPlan


class Planner(Protocol):
    """Plans the steps of a partition: ``Waiting`` or ``Arrivals``."""

    gather_ms: float
    """Milliseconds between two steps while nothing is due soon."""
    budget: PartitionBudget
    """The partition's use of the node's budget, and its limit."""

    @property
    def marker(self) -> Marker:
        """The partition's progress."""

    @property
    def fullness(self) -> float:
        """Records in memory as a share of the limit; from 1 on no more should be read."""

    @property
    def count(self) -> int:
        """Number of records in memory."""

    def begin(self, marker: Marker) -> None:
        """Continue from a marker."""

    def take(self, records: Sequence[LogRecord], reached: int | None = None) -> None:
        """Hold records that were read."""

    def next_ms(self) -> int | None:
        """Return the time of the next step; None if there is nothing to do."""

    def first_due_ms(self) -> int | None:
        """Return the due time of the first message of the next step; None if no message waits for
        it.
        """

    def passes_on(self, now_ms: int) -> bool:
        """Return True if the next step passes messages on, and so takes no turn."""

    def plan(self, now_ms: int, layout: Layout) -> StepPlan | None:
        """Return one step."""

    def settle(self, plan: StepPlan) -> None:
        """Apply a plan that took effect."""

    def put_back(self, plan: StepPlan) -> None:
        """Put the records of a plan without effect back."""

    def refuse(self, offset: int, refused: Outgoing, reason: str) -> None:
        """Put a record aside; LogUnavailable if its shorter letter was refused too."""


class Scanner:
    """One partition's steps; used from one thread."""

    def __init__(
        self,
        planner: Planner,
        transactions: PartitionTransactions,
        clock: Clock,
        telemetry: Telemetry,
        *,
        marks: bool = True,
    ) -> None:
        """``marks``: False if the group's offset alone holds the progress."""
        self.planner = planner
        self._transactions = transactions
        self._clock = clock
        self._telemetry = telemetry
        self._marks = marks

    def begin(self, start: Callable[[Marker | None], StartPosition]) -> None:
        """Fence earlier owners, read the last marker, and continue from there.

        ``start`` gets the marker, if any, and returns the position of reading. A marker of a topic
        that was deleted and made again is ignored. Raises LogUnavailable.
        """
        with self._told("begin"):
            stored = self._transactions.begin()
        marker = None if stored is None else decode_marker(stored)
        begun = start(marker)
        next_offset, topic_id = begun.next_offset, begun.topic_id
        is_foreign = marker is not None and marker.topic_id not in ("", topic_id)
        if marker is None or is_foreign or marker.next_offset > next_offset:
            marker = Marker(next_offset)
        known = msgspec.structs.replace(marker, topic_id=topic_id)
        self.planner.begin(known.doing((), next_offset))

    def step(self, layout: Layout) -> bool:
        """Do one transaction of ripe records; return False if there were none.

        Raises Fenced, and LogUnavailable if only ``begin`` can find out the outcome.
        """
        plan = self.planner.plan(self._clock.now_ms(), layout)
        if plan is None:
            return False
        encoded = encode_marker(plan.marker) if self._marks else None
        try:
            with self._told("transaction"):
                self._transactions.commit(plan.outgoing, plan.marker.next_offset, encoded)
        except Refused as error:
            if error.number >= len(plan.offsets):
                raise LogUnavailable(f"the marker was refused: {error.reason}") from error
            self.planner.put_back(plan)
            number = error.number
            self.planner.refuse(plan.offsets[number], plan.outgoing[number], error.reason)
            return True
        self.planner.settle(plan)
        told = TransactionCommitted(len(plan.outgoing), plan.moved, plan.put_aside)
        self._telemetry.emit(told)
        now_ms = self._clock.now_ms()
        for due_ms in plan.due_ms:
            self._telemetry.emit(MessageRelayed(now_ms - due_ms))
        return True

    def announce(self, record: Outgoing) -> None:
        """Produce one record in a transaction of its own, as the partition's owner.

        Raises Fenced, LogUnavailable.
        """
        marker = self.planner.marker
        encoded = encode_marker(marker) if self._marks else None
        try:
            self._transactions.commit((record,), marker.next_offset, encoded)
        except Refused as error:
            raise LogUnavailable(f"an announcement was refused: {error.reason}") from error

    def close(self) -> None:
        """Close the partition's transactions."""
        self._transactions.close()

    @contextmanager
    def _told(self, call: str) -> Iterator[None]:
        """Report the duration and the success of a request to the log.

        A refused record is not a failure of the request: it is reported when it is put aside.
        """
        began_ms, failure = self._clock.monotonic_ms(), None
        try:
            yield
        except Fenced:
            failure = "fenced"
            raise
        except HourhandError as error:
            failure = error.code
            raise
        finally:
            took_ms = self._clock.monotonic_ms() - began_ms
            self._telemetry.emit(LogCalled(call, took_ms, failure))
