"""PartitionSupervisor: one for each assigned partition.

Decides whether a record is a task or command of its partition, poison, or one of another partition;
when its share of a batch is durable; and whether the partition is held meanwhile (P7).  Decides
when tasks may start: when the log is read to the end found at the assignment, or when the catch-up
deadline has passed (P4).  Starts the five actors below it and fails together with them.  Never
keeps a task itself.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import assert_never

import msgspec

from hourhand.actors.completion_tracker import CompletionTracker
from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.ref import Recipient
from hourhand.actors.kernel.request_retry import Pause, retry_request
from hourhand.actors.messages import (
    DrainTasks,
    LogCaughtUp,
    MeetSiblings,
    PartitionHoldUpdated,
    PauseTasks,
    PersistRecords,
    PersistTasks,
    RevokePartitions,
    Siblings,
    StartTasks,
    TasksDrained,
    TasksPersisted,
    WatermarkMeasured,
)
from hourhand.actors.model.execution.backoff import request_pause
from hourhand.actors.model.operations.events import CatchUpEnded, RecordMisplaced, RecordPoisoned
from hourhand.actors.model.operations.ownership import Assignment
from hourhand.actors.model.task.codec import Command, LogRecord, decode_record
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.actors.model.window.holds import Forward, Forwards, Hold
from hourhand.actors.partition_executor import PartitionExecutor
from hourhand.actors.partition_scheduler import PartitionScheduler
from hourhand.actors.ports.effects import Effects, with_retried_letters, with_retried_reads
from hourhand.actors.ports.log import Position
from hourhand.actors.task_persistence import TaskPersistence
from hourhand.actors.throughput_controller import ThroughputController

WATERMARK_WAIT_MS = 200
"""Longest wait of a drained partition for the save of its last watermark to begin: about the time
by which the next owner's first load is longer without it."""


Append = Callable[[], Future[Position]]

SLOW_APPEND_MS = 1_000
"""A record whose forward takes longer than this holds the partition."""


class _RecordForwarded(msgspec.Struct, frozen=True):
    forward: Forward
    refusal: str | None = None
    """The reason why the record must become a dead letter instead; None if it was forwarded."""


class _RequestDelayed(msgspec.Struct, frozen=True):
    what: object
    """Identifies the request."""
    reason: str | None
    """The error of the request; None once it has succeeded."""


class _AppendsOverdue(msgspec.Struct, frozen=True):
    batch: int


class _CatchUpDeadlinePassed(msgspec.Struct, frozen=True):
    pass


class _WatermarkWaitOver(msgspec.Struct, frozen=True):
    pass


Message = (
    PersistRecords
    | TasksPersisted
    | _RecordForwarded
    | _AppendsOverdue
    | _RequestDelayed
    | LogCaughtUp
    | _CatchUpDeadlinePassed
    | RevokePartitions
    | TasksDrained
    | WatermarkMeasured
    | _WatermarkWaitOver
    | PauseTasks
)
"""All that this role is told."""


class PartitionSupervisor(Actor):
    """Owner of one partition's subtree."""

    def __init__(
        self, effects: Effects, assignment: Assignment, topic_supervisor: Recipient
    ) -> None:
        self._effects = effects
        self._assignment = assignment
        self._topic_supervisor = topic_supervisor
        self._partition = assignment.ownership.partition
        self._shares: dict[int, int] = {}
        """Number of the batch to the answers that this partition's share still waits for."""
        self._forwards = Forwards()
        self._hold = Hold(self._partition)
        self._caught_up = False
        self._tasks_drained = self._watermark_measured = False

    def on_start(self) -> None:
        effects, assignment = self._effects, self._assignment
        executing = with_retried_letters(effects, self._put_aside, self._send_on)
        reading = with_retried_reads(executing, self._read)
        ownership = assignment.ownership
        known = effects.known_since(assignment.watermark.known_from_ms)
        self._siblings = Siblings(
            supervisor=self.actor_ref,
            task_persistence=self.spawn(TaskPersistence(reading, assignment)),
            throughput_controller=self.spawn(ThroughputController(effects.settings)),
            partition_scheduler=self.spawn(PartitionScheduler(effects, self._partition)),
            partition_executor=self.spawn(PartitionExecutor(executing, ownership)),
            completion_tracker=self.spawn(CompletionTracker(reading, ownership, known)),
            known_completions=known,
            budget=effects.memory.begin(self._partition, has_flows=bool(effects.flow_rules)),
        )
        for sibling in (
            self._siblings.completion_tracker,
            self._siblings.partition_executor,
            self._siblings.partition_scheduler,
            self._siblings.task_persistence,
            self._siblings.throughput_controller,
        ):
            sibling.tell(MeetSiblings(self._siblings))
        self._assigned_ms = self._context.clock.monotonic_ms()
        deadline_ms = effects.settings.recovery.catch_up_deadline_ms
        self._context.after(deadline_ms, _CatchUpDeadlinePassed())

    def on_receive(self, message: Message) -> None:
        match message:
            case PersistRecords():
                self._persist(message)
            case TasksPersisted(batch=batch):
                self._finish_one(batch)
            case _RecordForwarded(forward=forward, refusal=refusal):
                self._finish_forward(forward, refusal)
            case _AppendsOverdue(batch=batch):
                self._note_overdue(batch)
            case _RequestDelayed(what=what, reason=reason):
                self._note_delay(what, reason)
            case LogCaughtUp():
                self._end_catch_up(complete=True)
            case _CatchUpDeadlinePassed():
                self._end_catch_up(complete=False)
            case PauseTasks():
                self._siblings.partition_scheduler.tell(message)
            case RevokePartitions():
                self._drain()
            case TasksDrained():
                self._tasks_drained = True
                self._report_drained()
            case WatermarkMeasured() | _WatermarkWaitOver():
                self._watermark_measured = True
                self._report_drained()
            case _:
                assert_never(message)

    # A share becomes durable.

    def _persist(self, share: PersistRecords) -> None:
        self._check_share(share)
        entries = tuple(self._decode(share))
        forwarding = len(self._forwards.of_batch(share.batch))
        self._shares[share.batch] = 1 + forwarding
        if forwarding:
            self._context.after(SLOW_APPEND_MS, _AppendsOverdue(share.batch))
        reached, pending = share.reached[self._partition], self._forwards.first_offset
        tasks = PersistTasks(share.batch, entries, reached, pending)
        self._siblings.task_persistence.tell(tasks)

    def _check_share(self, share: PersistRecords) -> None:
        """Check the order and partition of records that the node and the root have split."""
        assert share.batch not in self._shares, "a batch is told once"
        assert set(share.reached) == {self._partition}, "another partition's share"
        if records := share.records:
            first, last = records[0], records[-1]
            assert first.partition == last.partition == self._partition, "another's record"
            assert first.offset <= last.offset < share.reached[self._partition], "not in log order"

    def _decode(self, share: PersistRecords) -> Iterator[StoredTask | Command]:
        """Yield the partition's entries, and forward all other records."""
        row_bytes_max = self._effects.settings.execution.row_bytes_max
        partition_count = self._effects.partition_count
        for record in share.records:
            try:
                entry = decode_record(record, row_bytes_max)
            except PoisonRecord as error:
                forward = Forward(record, share.batch)
                self._forwards.begin(forward)
                self._dead_letter(forward, str(error))
                continue
            own = partition_of(entry.key.ordering_id, partition_count)
            if own == record.partition:
                yield entry
            else:
                self._misplace(record, share.batch, entry.key.ordering_id, own)

    def _misplace(self, record: LogRecord, batch: int, ordering_id: str, own: int) -> None:
        self._effects.telemetry.emit(RecordMisplaced(record.partition, record.offset, own))
        forward = Forward(record, batch, ordering_id, own)
        if self._forwards.begin(forward):
            self._send_home(forward)

    def _send_home(self, forward: Forward) -> None:
        """Append a record to the partition of its ordering id; it is never stored here (P3)."""
        record, key = forward.record, forward.ordering_id.encode()
        assert forward.own not in (-1, self._partition), "it is at home already"
        append = partial(self._effects.writer.append, forward.own, key)
        self._forward(forward, lambda: append(record.value or b"", record.headers), endless=False)

    def _dead_letter(self, forward: Forward, reason: str) -> None:
        """Write a record as a dead letter, and retry for ever: there is no other place (P10)."""
        record = forward.record
        letter = partial(self._effects.writer.dead_letter, record, reason)
        self._forward(forward, letter, endless=True)
        self._effects.telemetry.emit(RecordPoisoned(record.partition, record.offset, reason))

    def _forward(self, forward: Forward, append: Append, *, endless: bool) -> None:
        reason = f"the record at offset {forward.record.offset} cannot be put elsewhere"

        def listener(error: BaseException | None) -> None:
            # Only the end of the forward ends the delay.
            if error is not None:
                self.actor_ref.tell(_RequestDelayed(forward, f"{reason}: {error}"))

        self._context.pipe(
            retry_request(self._context, append, self._pause(endless=endless), listener),
            lambda _position: _RecordForwarded(forward),
            lambda error: _RecordForwarded(forward, str(error)),
        )

    def _finish_forward(self, forward: Forward, refusal: str | None) -> None:
        following = self._forwards.let_pass(forward)
        if following is not None:
            self._send_home(following)
        if refusal is not None:
            self._dead_letter(forward, f"misplaced, and its own partition refuses it: {refusal}")
            return
        self._forwards.end(forward)
        self._note_delay(forward, None)
        self._finish_one(forward.batch)

    def _finish_one(self, batch: int) -> None:
        assert self._shares[batch] > 0, "a share is answered once"
        self._shares[batch] -= 1
        if not self._shares[batch]:
            del self._shares[batch]
            self._topic_supervisor.tell(TasksPersisted(batch, self._partition))

    # Delayed requests hold the partition.

    def _read(self, request: Callable[[], Future[object]]) -> Future[object]:
        """Retry a read until the store answers: a new tree would need the same read."""
        what, tell = object(), self._context.tell

        def listener(error: BaseException | None) -> None:
            tell(
                _RequestDelayed(
                    what, None if error is None else f"the store cannot be read: {error}"
                )
            )

        return retry_request(self._context, request, self._pause(endless=False), listener)

    def _put_aside(self, request: Callable[[], Future[object]]) -> Future[object]:
        """Write the dead letter of a task; only its ordering id waits for it."""
        return retry_request(self._context, request, self._pause(endless=True), lambda _error: None)

    def _send_on(self, request: Callable[[], Future[object]]) -> Future[object]:
        """Append the follower of a task that ends; only its ordering id waits for it."""
        return retry_request(
            self._context, request, self._pause(endless=False), lambda _error: None
        )

    def _pause(self, *, endless: bool) -> Pause:
        recovery, rng = self._effects.settings.recovery, self._context.rng
        return request_pause(recovery, rng, endless=endless)

    def _note_overdue(self, batch: int) -> None:
        for forward in self._forwards.of_batch(batch):
            reason = f"the record at offset {forward.record.offset} is put elsewhere slowly"
            self._note_delay(forward, reason)

    def _note_delay(self, what: object, reason: str | None) -> None:
        before, now_ms = bool(self._hold), self._context.clock.monotonic_ms()
        event = self._hold.note(what, reason, now_ms)
        if event is not None:
            self._effects.telemetry.emit(event)
        if before != bool(self._hold):
            delayed = PartitionHoldUpdated(self._partition, not before, self.actor_ref)
            self._topic_supervisor.tell(delayed)

    # Tasks start, and end.

    def _end_catch_up(self, *, complete: bool) -> None:
        if self._caught_up:
            return
        self._caught_up = True
        waited_ms = round(self._context.clock.monotonic_ms() - self._assigned_ms)
        self._effects.telemetry.emit(CatchUpEnded(self._partition, waited_ms, complete))
        self._siblings.partition_scheduler.tell(StartTasks())

    def _drain(self) -> None:
        self._siblings.partition_scheduler.tell(DrainTasks())
        self._siblings.task_persistence.tell(DrainTasks())
        self._context.after(WATERMARK_WAIT_MS, _WatermarkWaitOver())

    def _report_drained(self) -> None:
        if self._tasks_drained and self._watermark_measured:
            self._topic_supervisor.tell(TasksDrained(self._partition))
