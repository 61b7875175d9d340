"""TopicSupervisor: the root of a node's tree.

Decides when a polled batch is answered: when the share of every partition is durable, except of
partitions that are held, because others must continue (P7).  Never looks into a record.
"""

from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.context import Timer
from hourhand.actors.kernel.ref import Recipient, Ref
from hourhand.actors.messages import (
    AssignPartitions,
    ForgetPartitions,
    PartitionHoldUpdated,
    PartitionsHeld,
    PartitionsRevoked,
    PauseTasks,
    PersistRecords,
    RecordsPersisted,
    RevokePartitions,
    TasksDrained,
    TasksPersisted,
)
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import Assignment
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.partition_supervisor import PartitionSupervisor
from hourhand.actors.ports.effects import Effects


@dataclass(slots=True)
class _AwaitedBatch:
    """A batch, and the partitions that it still waits for."""

    partitions: set[int] = field(default_factory=set)
    unpersisted: set[int] = field(default_factory=set)
    """Partitions whose subtree ended before it answered."""
    answered: bool = False
    """The node has the answer; each later share is reported by itself."""


@dataclass(slots=True, eq=False)
class _AwaitedRevocation:
    """Partitions that are revoked together; answered when the last of them has ended."""

    partitions: tuple[int, ...]
    draining: set[int]
    timer: Timer | None = None
    drained: bool = True


class _DrainDeadlinePassed(msgspec.Struct, frozen=True):
    revocation: _AwaitedRevocation


Message = (
    PersistRecords
    | TasksPersisted
    | PartitionHoldUpdated
    | AssignPartitions
    | RevokePartitions
    | TasksDrained
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
        self._batches: dict[int, _AwaitedBatch] = {}
        self._held: frozenset[int] = frozenset()
        self._revocations: list[_AwaitedRevocation] = []
        self._config = OperatorConfig()

    def on_receive(self, message: Message) -> None:
        match message:
            case PersistRecords():
                self._persist(message)
            case TasksPersisted(batch=batch, partition=partition):
                self._finish_share(batch, partition)
            case PartitionHoldUpdated():
                self._note_delay(message)
            case AssignPartitions(assignments=assignments):
                for assignment in assignments:
                    self._assign(assignment)
            case RevokePartitions(partitions=partitions, deadline_ms=deadline_ms):
                self._revoke(partitions, deadline_ms)
            case TasksDrained(partition=partition):
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
        """Split a batch; records of a partition that this node lost are left to its new owner."""
        assert message.batch not in self._batches, "a batch has a number of its own"
        batch = self._batches[message.batch] = _AwaitedBatch()
        shares: dict[int, list[LogRecord]] = {p: [] for p in message.reached}
        for record in message.records:
            share = shares.get(record.partition)
            if share is not None:
                share.append(record)
        for partition, records in shares.items():
            if supervisor := self._supervisors.get(partition):
                batch.partitions.add(partition)
                reached = {partition: message.reached[partition]}
                supervisor.tell(PersistRecords(message.batch, tuple(records), reached))
            else:
                batch.unpersisted.add(partition)
        self._answer(message.batch)

    def _finish_share(self, number: int, partition: int) -> None:
        batch = self._batches.get(number)
        if batch is None or partition not in batch.partitions:
            return
        batch.partitions.remove(partition)
        if batch.answered:
            self._node.tell(TasksPersisted(number, partition))
        self._answer(number)

    def _answer(self, number: int) -> None:
        """Answer the node once, as soon as the batch waits only for held partitions."""
        batch = self._batches[number]
        if not batch.answered and batch.partitions <= self._held:
            batch.answered = True
            unpersisted = frozenset(batch.unpersisted | batch.partitions)
            self._node.tell(RecordsPersisted(number, unpersisted))
        if not batch.partitions:
            del self._batches[number]

    def _note_delay(self, message: PartitionHoldUpdated) -> None:
        if self._supervisors.get(message.partition) is message.supervisor:
            held = self._held - {message.partition}
            self._hold(held | {message.partition} if message.held else held)

    def _hold(self, held: frozenset[int]) -> None:
        assert held <= self._supervisors.keys(), "what is not ours is not held"
        if held != self._held:
            self._held = held
            self._node.tell(PartitionsHeld(held, self.actor_ref))
            for number in tuple(self._batches):
                self._answer(number)

    def _assign(self, assignment: Assignment) -> None:
        partition = assignment.ownership.partition
        assert partition not in self._supervisors, f"partition {partition} is assigned twice"
        supervisor = PartitionSupervisor(self._effects, assignment, self.actor_ref)
        # Its first message: no task starts before the pauses are known.
        self._supervisors[partition] = self.spawn(supervisor, PauseTasks(self._config))

    def _pause(self, message: PauseTasks) -> None:
        self._config = message.config
        for supervisor in self._supervisors.values():
            supervisor.tell(message)

    def _revoke(self, partitions: tuple[int, ...], deadline_ms: int) -> None:
        owned = tuple(p for p in partitions if p in self._supervisors)
        if not owned:
            self._node.tell(PartitionsRevoked(partitions, drained=True))
            return
        revocation = _AwaitedRevocation(partitions, set(owned))
        self._revocations.append(revocation)
        for partition in owned:
            self._supervisors[partition].tell(RevokePartitions((partition,), deadline_ms))
        revocation.timer = self._context.after(deadline_ms, _DrainDeadlinePassed(revocation))

    def _finish_drain(self, partition: int) -> None:
        if any(partition in revocation.draining for revocation in self._revocations):
            self._end_subtree(partition, drained=True)

    def _end_drain_late(self, revocation: _AwaitedRevocation) -> None:
        late = sorted(revocation.draining)
        assert late, "what has ended has no deadline"
        reason = self._effects.settings.recovery.drain_deadline_passed
        self._effects.runner.drain(late, give_up=reason)
        for partition in late:
            self._end_subtree(partition, drained=False)

    def _forget(self, partitions: tuple[int, ...]) -> None:
        self._effects.runner.drain(partitions, give_up="the partition was lost")
        for partition in partitions:
            self._end_subtree(partition, drained=False)

    def _end_subtree(self, partition: int, *, drained: bool) -> None:
        """Stop a subtree; no batch and no revocation waits for it any more."""
        supervisor = self._supervisors.pop(partition, None)
        if supervisor is not None:
            self.stop_child(supervisor)
        for number, batch in tuple(self._batches.items()):
            if partition in batch.partitions:
                batch.partitions.remove(partition)
                batch.unpersisted.add(partition)
                self._answer(number)
        self._hold(self._held - {partition})
        for revocation in tuple(self._revocations):
            if partition in revocation.draining:
                revocation.draining.remove(partition)
                revocation.drained = revocation.drained and drained
                self._answer_if_ended(revocation)

    def _answer_if_ended(self, revocation: _AwaitedRevocation) -> None:
        if not revocation.draining:
            self._revocations.remove(revocation)
            assert revocation.timer is not None, "a revocation has a deadline"
            revocation.timer.cancel()
            answer = PartitionsRevoked(revocation.partitions, revocation.drained)
            self._node.tell(answer)
