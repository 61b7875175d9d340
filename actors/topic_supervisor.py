"""TopicSupervisor: the root of a node's tree.

Decides which partition a record belongs to, and when a polled batch is durable: when every
partition answered, every poison record is in the dead-letter topic, and every record that
stood in a wrong partition is in its own.  Never keeps tasks.
"""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from actors.kernel.actor import Actor
from actors.kernel.context import Timer
from actors.kernel.ref import Recipient, Ref
from actors.messages import (
    AssignPartitions,
    ForgetPartitions,
    PartitionDrained,
    PartitionsRevoked,
    PauseTasks,
    PersistRecords,
    PersistTasks,
    RecordsPersisted,
    RevokePartitions,
    TasksPersisted,
)
from actors.model.codec import Command, LogRecord, decode_record
from actors.model.errors import PoisonRecord
from actors.model.events import RecordMisplaced, RecordPoisoned
from actors.model.ownership import Assignment
from actors.model.partition import partition_of
from actors.model.pauses import PauseSheet
from actors.model.task import StoredTask
from actors.partition_supervisor import PartitionSupervisor
from actors.ports.effects import Effects
from actors.ports.log import Position


@dataclass(slots=True)
class _Batch:
    """What a batch still waits for."""

    partitions: set[int] = field(default_factory=set)
    appends: int = 0
    unpersisted: set[int] = field(default_factory=set)
    """Partitions whose subtree ended before it answered."""

    @property
    def is_durable(self) -> bool:
        return not self.partitions and not self.appends


class _AppendAcknowledged(msgspec.Struct, frozen=True):
    batch: int
    place: Position
    """Where the record stood that is now elsewhere."""


@dataclass(slots=True, eq=False)
class _Revocation:
    """Partitions that go together; answered when the last of them has ended."""

    partitions: tuple[int, ...]
    draining: set[int]
    timer: Timer | None = None
    drained: bool = True


class _DrainDeadlinePassed(msgspec.Struct, frozen=True):
    revocation: _Revocation


Message = (
    PersistRecords
    | TasksPersisted
    | _AppendAcknowledged
    | AssignPartitions
    | RevokePartitions
    | PartitionDrained
    | _DrainDeadlinePassed
    | ForgetPartitions
    | PauseTasks
)
"""All that this role is told."""


class TopicSupervisor(Actor):
    """Root of a node's tree; one child for each assigned partition."""

    def __init__(self, effects: Effects, node: Recipient) -> None:
        self._effects = effects
        self._node = node
        self._supervisors: dict[int, Ref] = {}
        self._batches: dict[int, _Batch] = {}
        self._appending: set[Position] = set()
        """Where poison and misplaced records stand that are not durable elsewhere yet."""
        self._revocations: list[_Revocation] = []
        self._sheet = PauseSheet()

    def on_receive(self, message: Message) -> None:
        match message:
            case PersistRecords():
                self._persist(message)
            case TasksPersisted(batch=batch, partition=partition):
                self._finish_share(batch, partition)
            case _AppendAcknowledged(batch=batch, place=place):
                self._appending.discard(place)
                self._batches[batch].appends -= 1
                self._answer_if_durable(batch)
            case AssignPartitions(assignments=assignments):
                for assignment in assignments:
                    self._assign(assignment)
            case RevokePartitions(partitions=partitions, deadline_ms=deadline_ms):
                self._revoke(partitions, deadline_ms)
            case PartitionDrained(partition=partition):
                self._finish_drain(partition)
            case _DrainDeadlinePassed(revocation=revocation):
                self._end_drain_late(revocation)
            case ForgetPartitions(partitions=partitions):
                self._forget(partitions)
            case PauseTasks():
                self._pause(message)
            case _:
                assert_never(message)

    def _persist(self, message: PersistRecords) -> None:
        """Split a batch; a partition that is no longer ours is left to its new owner."""
        batch = self._batches[message.batch] = _Batch()
        shares: dict[int, list[StoredTask | Command]] = {p: [] for p in message.reached}
        for record in message.records:
            share = shares.get(record.partition)
            if share is None or record.partition not in self._supervisors:
                continue
            entry = self._decode(record, message.batch)
            if entry is not None:
                share.append(entry)
        for partition, entries in shares.items():
            if supervisor := self._supervisors.get(partition):
                batch.partitions.add(partition)
                next_offset = message.reached[partition]
                pending = [o for p, o in self._appending if p == partition]
                first_pending = min(pending, default=None)
                supervisor.tell(
                    PersistTasks(message.batch, tuple(entries), next_offset, first_pending)
                )
            else:
                batch.unpersisted.add(partition)
        self._answer_if_durable(message.batch)

    def _decode(self, record: LogRecord, batch: int) -> StoredTask | Command | None:
        """Return the entry, or send the record where it belongs and return None."""
        try:
            size_bytes = len(record.value or b"")
            limit_bytes = self._effects.settings.execution.row_bytes_max
            if size_bytes > limit_bytes:
                raise PoisonRecord(f"{size_bytes} bytes, a row holds at most {limit_bytes}")
            entry = decode_record(record)
        except PoisonRecord as error:
            self._dead_letter(record, str(error), batch)
            return None
        own = partition_of(entry.key.ordering_id, self._effects.partition_count)
        if own != record.partition:
            self._send_home(record, entry.key.ordering_id, own, batch)
            return None
        return entry

    def _dead_letter(self, record: LogRecord, reason: str, batch: int) -> None:
        self._await_append(self._effects.writer.dead_letter(record, reason), record, batch)
        event = RecordPoisoned(record.partition, record.offset, reason)
        self._effects.telemetry.emit(event)

    def _send_home(self, record: LogRecord, ordering_id: str, own: int, batch: int) -> None:
        """Produce a record again where its ordering id lives; it is never stored here (P3)."""
        future = self._effects.writer.append(
            own, ordering_id.encode(), record.value or b"", record.headers
        )
        self._await_append(future, record, batch)
        self._effects.telemetry.emit(RecordMisplaced(record.partition, record.offset, own))

    def _await_append(self, future: Future[Position], record: LogRecord, batch: int) -> None:
        place = Position(record.partition, record.offset)
        self._batches[batch].appends += 1
        self._appending.add(place)
        self._context.pipe(future, lambda _position: _AppendAcknowledged(batch, place))

    def _finish_share(self, batch: int, partition: int) -> None:
        if waiting := self._batches.get(batch):
            waiting.partitions.discard(partition)
            self._answer_if_durable(batch)

    def _answer_if_durable(self, batch: int) -> None:
        waiting = self._batches.get(batch)
        if waiting is not None and waiting.is_durable:
            del self._batches[batch]
            self._node.tell(RecordsPersisted(batch, frozenset(waiting.unpersisted)))

    def _assign(self, assignment: Assignment) -> None:
        partition = assignment.ownership.partition
        assert partition not in self._supervisors, f"partition {partition} is assigned twice"
        supervisor = PartitionSupervisor(self._effects, assignment, self.actor_ref)
        # The first it hears: nothing starts before what is paused is known.
        self._supervisors[partition] = self.spawn(supervisor, PauseTasks(self._sheet))

    def _pause(self, message: PauseTasks) -> None:
        self._sheet = message.sheet
        for supervisor in self._supervisors.values():
            supervisor.tell(message)

    def _revoke(self, partitions: tuple[int, ...], deadline_ms: int) -> None:
        owned = tuple(p for p in partitions if p in self._supervisors)
        if not owned:
            self._node.tell(PartitionsRevoked(partitions, drained=True))
            return
        revocation = _Revocation(partitions, set(owned))
        self._revocations.append(revocation)
        for partition in owned:
            self._supervisors[partition].tell(RevokePartitions((partition,), deadline_ms))
        revocation.timer = self._context.after(deadline_ms, _DrainDeadlinePassed(revocation))

    def _finish_drain(self, partition: int) -> None:
        if any(partition in revocation.draining for revocation in self._revocations):
            self._end_subtree(partition, drained=True)

    def _end_drain_late(self, revocation: _Revocation) -> None:
        late = sorted(revocation.draining)
        self._effects.runner.abandon(late)
        for partition in late:
            self._end_subtree(partition, drained=False)

    def _forget(self, partitions: tuple[int, ...]) -> None:
        self._effects.runner.abandon(partitions)
        for partition in partitions:
            self._end_subtree(partition, drained=False)

    def _end_subtree(self, partition: int, *, drained: bool) -> None:
        """Stop a subtree; neither batches nor revocations wait for it any more."""
        supervisor = self._supervisors.pop(partition, None)
        if supervisor is not None:
            self.stop_child(supervisor)
        for number, batch in tuple(self._batches.items()):
            if partition in batch.partitions:
                batch.unpersisted.add(partition)
                self._finish_share(number, partition)
        for revocation in tuple(self._revocations):
            if partition in revocation.draining:
                revocation.draining.remove(partition)
                revocation.drained = revocation.drained and drained
                self._answer_if_ended(revocation)

    def _answer_if_ended(self, revocation: _Revocation) -> None:
        if not revocation.draining:
            self._revocations.remove(revocation)
            assert revocation.timer is not None, "a revocation has a deadline"
            revocation.timer.cancel()
            answer = PartitionsRevoked(revocation.partitions, revocation.drained)
            self._node.tell(answer)
