"""The partitions that a node owns: up to which offset each is delivered to the tree and durable.

Decides when the store is asked for a partition's state, and which records the log delivers.  Never
decides which partitions the node owns.  Durable offsets are counted as by every reader of a log.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from msgspec.structs import replace

from hourhand.actors.model.operations.events import PartitionAssigned
from hourhand.actors.model.operations.ownership import Assignment, Claim, Ownership, Watermark
from hourhand.actors.model.values.errors import HourhandError, OwnershipLost
from hourhand.actors.model.values.log_offset import broker_offset
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import TaskLog
from hourhand.actors.ports.store import OwnershipStore
from hourhand.scheduler.node.commits import Reading

logger = logging.getLogger("hourhand.node")

CLAIM_PAUSE_MAX_MS = 2_000
"""Longest pause before a store that failed is asked again, unless the shortest is longer.  Each
partition asks and logs a failure, so it is not short; a store that works again is noticed soon."""
_ASKED_POLL_MS = 10
"""Longest poll while the store's answer is awaited: an answer does not end a poll."""


class Stage(Enum):
    """The stages of a partition on this node."""

    CLAIMING = auto()
    """The node waits for a new owner epoch from the store."""
    RESUMING = auto()
    """The node has the epoch, and waits for the watermark, for a rebuilt tree."""
    RUNNING = auto()
    """A subtree works on it."""
    WAITING = auto()
    """No request is under way: the node waits for a tree, a lease or the end of a pause."""


class Held(NamedTuple):
    """The public state of a partition of this node."""

    partition: int
    stage: str
    epoch: int | None
    next_offset: int | None
    """Every record below this offset of the broker is durable."""


@dataclass(slots=True)
class Holding(Reading[int]):
    """One partition of this node; the tree receives its records in numbered batches."""

    owned: dict[int, Ownership] = field(default_factory=dict)
    """The last ownership of each partition in this process, current or past."""
    stage: Stage = Stage.WAITING
    ownership: Ownership | None = None
    claiming: "Future[Claim] | None" = None
    """The store's answer that ``CLAIMING`` waits for."""
    reading: "Future[Claim | None] | None" = None
    """The store's answer that ``RESUMING`` waits for."""
    delivered_offset: int = 0
    """Every record below this offset went to this tree or an earlier one."""
    catch_up_offset: int = 0
    topic_id: str = ""
    """The id of the topic that is read."""
    retry_at_ms: float = 0.0
    failures: int = 0
    """Failures in a row to get the durable state."""
    claim_after_ms: float | None = None
    """Monotonic time at which a newer owner was seen; a later proof of membership allows a claim.
    """
    held_back: bool = False
    """The log delivers nothing of it for now, as this node asked."""

    def durable_state(self) -> Claim:
        """Return the store's answer; OwnershipLost if another owner has come between."""
        if self.stage is Stage.CLAIMING:
            assert self.claiming is not None, "a claim is under way"
            return self.claiming.result()
        assert self.reading is not None, "the watermark is read again"
        assert self.ownership is not None, "only an owner resumes"
        claim = self.reading.result()
        if claim is None or claim.epoch != self.ownership.epoch:
            raise OwnershipLost(self.partition, self.ownership.epoch)
        return claim

    def begin_reading(self, log: TaskLog, stored: Watermark) -> None:
        """Let the log deliver it from its durable offset on; raises errors of the log."""
        if self.next_offset is None:
            start = log.start(self.partition, stored.next_offset, stored.topic_id)
            self.topic_id = start.topic_id
            self.next_offset = self.delivered_offset = start.next_offset
            self.catch_up_offset = start.end_offset
        else:
            log.seek(self.partition, self.next_offset)
        self.reached_offset = self.next_offset
        self.held_back = False

    def described(self) -> Held:
        """Return its public state."""
        epoch = self.ownership.epoch if self.ownership is not None else None
        next_offset = None if self.next_offset is None else broker_offset(self.next_offset)
        return Held(self.partition, self.stage.name.lower(), epoch, next_offset)

    @property
    def is_asked(self) -> bool:
        """True while an answer of the store is awaited."""
        return self.stage in (Stage.CLAIMING, Stage.RESUMING)

    def postpone(self, now_ms: float, pause_ms: int) -> None:
        """Ask again after a pause, which doubles with every failure in a row."""
        doubled_ms = min(CLAIM_PAUSE_MAX_MS, pause_ms << min(self.failures, 30))
        self.retry_at_ms = now_ms + max(pause_ms, doubled_ms)
        self.failures += 1
        self.stage = Stage.WAITING

    def take(self, claim: Claim) -> Assignment:
        """Note that the partition is owned; return the assignment for a tree."""
        self.failures = 0
        resumed = self.ownership is not None
        if self.ownership is None:
            self.ownership = Ownership(self.partition, claim.epoch, self.owned.get(self.partition))
            self.owned[self.partition] = self.ownership
            self.claim_after_ms = None
        assert self.next_offset is not None, "reading has begun"
        self.begin(self.next_offset)
        watermark, changed = claim.watermark, claim.watermark.topic_id != self.topic_id
        if changed:
            watermark = replace(watermark, next_offset=self.next_offset, topic_id=self.topic_id)
        return Assignment(
            ownership=self.ownership,
            watermark=watermark,
            catch_up_offset=max(self.catch_up_offset, self.delivered_offset),
            next_offset=self.next_offset,
            resumed=resumed,
            topic_changed=changed,
        )

    def deliver_batch(self, batch: int, reached: int) -> None:
        """Note that records up to ``reached`` went to the tree with this batch."""
        self.delivered_offset = max(self.delivered_offset, reached)
        self.deliver(batch, reached)


@dataclass(slots=True, eq=False)
class Revocation:
    """Partitions that are given up together, until all their attempts have ended."""

    partitions: tuple[int, ...]
    holdings: tuple[Holding, ...]
    """The holdings of that time: a partition may be assigned again before its drain has ended."""
    ends_ms: float
    """Monotonic time until which running attempts may end."""
    future: "Future[Mapping[int, int]]" = field(default_factory=Future)
    told: bool = False
    """The present tree drains them."""

    @property
    def has_tree(self) -> bool:
        """True if a subtree works on any of them."""
        return any(holding.stage is Stage.RUNNING for holding in self.holdings)

    @property
    def treeless(self) -> tuple[int, ...]:
        """The partitions without a subtree."""
        return tuple(h.partition for h in self.holdings if h.stage is not Stage.RUNNING)

    def lose_tree(self) -> None:
        """Note that the tree failed: the next tree must be asked to drain them again."""
        self.told = False
        for holding in self.holdings:
            if holding.stage is Stage.RUNNING:
                holding.stage = Stage.WAITING


def assigned_event(assignment: Assignment) -> PartitionAssigned:
    """Return the event that the tree works on a partition."""
    owned = assignment.ownership
    end_offset = assignment.catch_up_offset
    return PartitionAssigned(owned.partition, owned.epoch, assignment.next_offset, end_offset)


class Claiming:
    """Asks the store to claim a partition, or, for a tree that was rebuilt, for its watermark.

    Used under the node's lock.
    """

    def __init__(
        self,
        ownership: OwnershipStore,
        clock: Clock,
        lease_ends_ms: Callable[[], float],
        lease_ms: int,
    ) -> None:
        """``lease_ends_ms`` returns the monotonic end of the lease, which lasts ``lease_ms``."""
        self._ownership = ownership
        self._clock = clock
        self._lease_ends_ms = lease_ends_ms
        self._lease_ms = lease_ms

    def advance(self, holding: Holding) -> bool:
        """Send the store the next request when it is time; return True once it has answered."""
        match holding.stage:
            case Stage.WAITING if self._clock.monotonic_ms() < holding.retry_at_ms:
                pass
            case Stage.WAITING if holding.ownership is not None:
                holding.reading = self._ownership.read_watermark(holding.partition)
                holding.stage = Stage.RESUMING
            case Stage.WAITING if self._may_claim(holding):
                holding.claiming = self._ownership.claim(holding.partition, self._clock.now_ms())
                holding.stage = Stage.CLAIMING
            case Stage.CLAIMING:
                return holding.claiming is not None and holding.claiming.done()
            case Stage.RESUMING:
                return holding.reading is not None and holding.reading.done()
            case Stage.WAITING | Stage.RUNNING:
                pass
        return False

    def _may_claim(self, holding: Holding) -> bool:
        """True if no newer owner was seen, or a later commit was accepted."""
        if holding.claim_after_ms is None:
            return True
        return self._lease_ends_ms() > holding.claim_after_ms + self._lease_ms


def poll_ms(holdings: Iterable[Holding], timeout_ms: int) -> int:
    """Return the longest wait of the next poll, in milliseconds."""
    asked = any(each.is_asked for each in holdings)
    return min(timeout_ms, _ASKED_POLL_MS) if asked else timeout_ms


def hold_back(
    log: TaskLog,
    holdings: Mapping[int, Holding],
    held: Collection[int],
    lock: "threading.RLock",
) -> None:
    """Stop the log's delivery of held partitions, and resume that of the others.

    Used on the polling thread, without the lock.  A partition for which the log refuses that is
    tried again in the next round.
    """
    with lock:
        running = [each for each in holdings.values() if each.stage is Stage.RUNNING]
        changed = [each for each in running if each.held_back != (each.partition in held)]
    for holding in changed:
        begins = not holding.held_back
        try:
            log.seek(holding.partition, None if begins else holding.reached_offset)
        except HourhandError as error:
            logger.warning("partition %d: %s; tried again", holding.partition, error)
        else:
            holding.held_back = begins
