"""The node around the subtree, as far as a partition feels it.

It claims the partition, gives records to the tree and hears its answers, drains it and gives it
up, and builds a tree that failed again.  It decides nothing about tasks.
"""

from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum, auto

from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.simulated import SimulatedSystem
from hourhand.actors.messages import (
    AssignPartitions,
    ForgetPartitions,
    PartitionsHeld,
    PartitionsRevoked,
    PauseTasks,
    PersistRecords,
    RecordsPersisted,
    RevokePartitions,
    TasksPersisted,
)
from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.operations.events import PartitionAssigned, PartitionRevoked
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import Assignment, Claim, Ownership
from hourhand.actors.model.values.errors import HourhandError, OwnershipLost
from hourhand.actors.ports.effects import Effects
from hourhand.actors.topic_supervisor import TopicSupervisor
from hourhand.scheduler.adapters.memory.broker import MemoryBroker

PARTITION = 0
REBUILD_PAUSE_MS = 100.0


class Stand(Enum):
    """The state of the partition at its owner."""

    AWAY = auto()
    """It is another member's, or nobody's."""
    ASKING = auto()
    """The store is asked for it, or a tree is waited for."""
    WORKING = auto()
    """A subtree works on it."""


class PartitionOwner:
    """The member of the group that has the partition, or had it last."""

    def __init__(
        self,
        system: SimulatedSystem,
        effects: Effects,
        broker: MemoryBroker,
        committed: dict[int, int],
        *,
        told: Callable[[PartitionAssigned | PartitionRevoked], None],
    ) -> None:
        self.stand = Stand.AWAY
        self.config = OperatorConfig()
        self.next_offset = 0
        """Every record below it is durable."""
        self.revoked_at_ms: float | None = None
        """Since when the partition is being given up."""
        self.is_held = False
        self.is_silent = True
        """True if the tree knows that it does not have the partition."""
        self.root: Ref | None = None
        self._system, self._effects, self._told = system, effects, told
        self._log = broker.partitions[PARTITION]
        self._committed = committed
        self._owned: Ownership | None = None
        """Its ownership of the partition, or the last one."""
        self._ownership: Ownership | None = None
        self._lease_epoch: int | None = None
        self._asked: Future[Claim] | Future[Claim | None] | None = None
        self._rebuild_ms = 0.0
        self._position = self._delivered = self._catch_up = 0
        self._is_read = False
        self._is_told = False
        self._deadline_ms = 0.0
        self._batch = 0
        self._batches: dict[int, int] = {}
        """Batches that are not durable, each with the offset behind it."""
        self._settled: dict[int, bool] = {}

    # Asked by the box.

    @property
    def epoch(self) -> int | None:
        """Under which attempts may begin; None where none may."""
        return self._lease_epoch

    @property
    def owned_epoch(self) -> int | None:
        """Return the epoch of its claim; None without one."""
        return self._ownership.epoch if self._ownership is not None else None

    @property
    def position(self) -> int:
        """Return the offset that is given to the tree next."""
        return self._position

    def continues(self, epoch: int) -> bool:
        """True if nobody but this member had the partition since that epoch of its own."""
        return self._ownership is not None and self._ownership.continues(epoch)

    @property
    def is_answered(self) -> bool:
        """True if all that the log holds is durable."""
        return self.stand is Stand.WORKING and self.next_offset == self._log.end_offset

    def allows(self, attempt: Attempt) -> bool:
        """True if user code may be called: the gate of the real lease."""
        return (
            attempt.epoch == self._lease_epoch
            and self._system.clock.now_ms() >= attempt.task.key.scheduled_ms
            and not self.is_paused(attempt.task.key.ordering_id)
        )

    def is_paused(self, ordering_id: str) -> bool:
        """True if an operator has paused an ordering id, as the node knows."""
        pause = self.config.of_partition(PARTITION)
        return pause.whole or ordering_id in pause.ordering_ids

    def gain(self) -> None:
        """The group gives the partition to this member."""
        assert self.stand is Stand.AWAY, "it has it already"
        self.stand, self._ownership, self._is_read = Stand.ASKING, None, False
        self.is_silent = False

    def pause(self, config: OperatorConfig) -> None:
        """Take over what operators have paused."""
        self.config = config
        if self.root is not None:
            self.root.tell(PauseTasks(config))

    def commit(self) -> None:
        """Let the group know what is durable."""
        if self.stand is not Stand.AWAY and self._is_read:
            self._committed[PARTITION] = self.next_offset

    def advance(self) -> None:
        """Do what is due: build a tree, ask for the partition, take the answer."""
        now_ms = self._system.clock.monotonic_ms()
        if self.revoked_at_ms is not None:
            self._go_on_draining()
        if self.root is None and now_ms >= self._rebuild_ms:
            self.root = self._system.spawn_root(TopicSupervisor(self._effects, self))
            self.root.tell(PauseTasks(self.config))
        if self.stand is Stand.ASKING and self.root is not None:
            self._ask(now_ms)

    def poll(self, records_max: int) -> None:
        """Give the tree what comes next of the log."""
        if self.stand is not Stand.WORKING or self.is_held or self.revoked_at_ms is not None:
            return
        assert self.root is not None, "a subtree works on it"
        records, reached = self._log.read(self._position, records_max)
        self._position, self._delivered = reached, max(self._delivered, reached)
        self._batch += 1
        if reached > self.next_offset:
            self._batches[self._batch] = reached
        told = {PARTITION: reached} if records else {}
        self.root.tell(PersistRecords(self._batch, tuple(records), told))

    def revoke(self, deadline_ms: int) -> None:
        """Give the partition up when all that runs has ended."""
        assert self.stand is not Stand.AWAY, "it has nothing to give up"
        self._lease_epoch = None
        self._effects.runner.drain([PARTITION])
        now_ms = self._system.clock.monotonic_ms()
        self.revoked_at_ms, self._deadline_ms, self._is_told = now_ms, now_ms + deadline_ms, False
        self._go_on_draining()

    def lose(self) -> None:
        """Another member has the partition already."""
        self._lease_epoch = None
        self._effects.runner.drain([PARTITION], give_up="lost")
        if self.root is not None:
            self.root.tell(ForgetPartitions((PARTITION,)))
        self._let_go()

    def die(self) -> None:
        """The process is gone, and comes back knowing nothing."""
        if self.root is not None:
            self._system.stop_tree(self.root)
        self.root, self._owned, self._rebuild_ms = None, None, 0.0
        self._let_go()

    @property
    def knows_drain(self) -> bool:
        """True if the tree was told that the partition is given up."""
        return self.revoked_at_ms is not None and self._is_told

    # Told by the tree.

    def tell(self, message: object) -> None:
        """Take an answer of the tree."""
        match message:
            case RecordsPersisted(batch=batch, unpersisted=unpersisted):
                if PARTITION not in unpersisted:
                    self._settle(batch)
            case TasksPersisted(batch=batch):
                self._settle(batch)
            case PartitionsHeld(partitions=partitions, supervisor=supervisor):
                if supervisor is self.root:
                    self.is_held = PARTITION in partitions
            case PartitionsRevoked(drained=drained):
                if self.revoked_at_ms is not None:
                    self.is_silent = True
                    self._finish_revocation(drained=drained)
            case _:
                raise AssertionError(f"no tree says {message!r} to its node")

    def take_failure(self, error: BaseException) -> None:
        """The tree failed: another one is built after a pause."""
        self.root, self.is_held = None, False
        self._rebuild_ms = self._system.clock.monotonic_ms() + REBUILD_PAUSE_MS
        self._batches.clear()
        self._settled.clear()
        self._effects.runner.drain(None)
        if self.stand is Stand.WORKING:
            self.stand, self._asked = Stand.ASKING, None
        if isinstance(error, OwnershipLost):
            self._ownership, self._lease_epoch = None, None
        self._is_told = False
        if self.revoked_at_ms is not None:
            self._go_on_draining()

    def _settle(self, batch: int) -> None:
        if batch not in self._batches:
            return
        self._settled[batch] = True
        for number in sorted(self._batches):
            if number not in self._settled:
                break
            self.next_offset = max(self.next_offset, self._batches.pop(number))
            del self._settled[number]

    def _ask(self, now_ms: float) -> None:
        stores = self._effects.stores.ownership
        if self._asked is None:
            if self._ownership is not None:
                self._asked = stores.read_watermark(PARTITION)
            else:
                self._asked = stores.claim(PARTITION, self._system.clock.now_ms())
        if not self._asked.done():
            return
        asked, self._asked = self._asked, None
        try:
            claim = asked.result()
        except HourhandError:
            return
        if claim is None or (self._ownership and claim.epoch != self._ownership.epoch):
            self._ownership, self._lease_epoch = None, None
            return
        self._begin(claim)

    def _begin(self, claim: Claim) -> None:
        assert self.root is not None, "a tree is there"
        resumed = self._ownership is not None
        if self._ownership is None:
            self._ownership = Ownership(PARTITION, claim.epoch, self._owned)
            self._owned = self._ownership
        if not self._is_read:
            known = (self._committed.get(PARTITION), claim.watermark.next_offset)
            self.next_offset = max((each for each in known if each is not None), default=0)
            self._delivered, self._is_read = self.next_offset, True
            self._catch_up = self._log.end_offset
        self._position = self.next_offset
        assignment = Assignment(
            ownership=self._ownership,
            watermark=claim.watermark,
            catch_up_offset=max(self._catch_up, self._delivered),
            next_offset=self.next_offset,
            resumed=resumed,
        )
        self.stand = Stand.WORKING
        if self.revoked_at_ms is None:
            self._lease_epoch = claim.epoch
        self._told(
            PartitionAssigned(
                PARTITION, claim.epoch, assignment.next_offset, assignment.catch_up_offset
            )
        )
        self.root.tell(AssignPartitions((assignment,)))

    def _go_on_draining(self) -> None:
        """Have the tree drain the partition, one that was built again as well."""
        assert self.revoked_at_ms is not None, "it is being given up"
        left_ms = self._deadline_ms - self._system.clock.monotonic_ms()
        works = self.stand is Stand.WORKING
        orphaned = not works and self._effects.runner.unsettled(PARTITION, given_up=False)
        if self._is_told:
            return
        if left_ms <= 0 or not (works or orphaned):
            self._effects.runner.drain([PARTITION], give_up="too late")
            if works and self.root is not None:
                self.root.tell(ForgetPartitions((PARTITION,)))
            self._finish_revocation(drained=not works and not orphaned)
        elif works and self.root is not None:
            self._is_told = True
            self.root.tell(RevokePartitions((PARTITION,), round(left_ms)))

    def _finish_revocation(self, *, drained: bool) -> None:
        if self._is_read:
            self._committed[PARTITION] = self.next_offset
        self._let_go()
        self._told(PartitionRevoked(PARTITION, drained))

    def _let_go(self) -> None:
        self.stand, self._ownership, self._lease_epoch = Stand.AWAY, None, None
        self.revoked_at_ms, self._asked, self.is_held = None, None, False
        self._batches.clear()
        self._settled.clear()
