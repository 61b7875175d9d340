"""The partitions a node holds: how far each is delivered to the tree, and how far durable.

Decides what the store is asked for a partition and what the log is told to deliver, and when;
never which partitions are held.  What of a partition is durable is counted as by every other
reader of a log.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from msgspec.structs import replace

from actors.model.errors import HourhandError, OwnershipLost
from actors.model.events import PartitionAssigned
from actors.model.log_offset import broker_offset
from actors.model.ownership import Assignment, Claim, Ownership, Watermark
from actors.ports.clock import Clock
from actors.ports.log import TaskLog
from actors.ports.store import OwnershipStore
from scheduler.consumer.reading import Reading

logger = logging.getLogger("hourhand.node")

CLAIM_PAUSE_MAX_MS = 2_000
"""Longest pause before a store that failed is asked again, unless the shortest is longer: each
partition asks, and says so; one that is back should be noticed soon all the same."""
_ASKED_POLL_MS = 10
"""Longest poll while an answer is awaited, which wakes nobody: a partition waits for it."""


class Stage(Enum):
    """How far a partition has come on this node."""

    CLAIMING = auto()
    """The store is asked for a new owner epoch."""
    RESUMING = auto()
    """The epoch is ours; the watermark is read again for a rebuilt tree."""
    RUNNING = auto()
    """A subtree works on it."""
    WAITING = auto()
    """Nothing is under way: a tree or a lease is waited for."""


class Held(NamedTuple):
    """What others may know of a partition of this node."""

    partition: int
    stage: str
    epoch: int | None
    next_offset: int | None
    """Every record below this is durable; the broker's own offset."""


@dataclass(slots=True)
class Holding(Reading[int]):
    """One partition of this node; what is delivered of it are shares of numbered batches."""

    owned: dict[int, Ownership] = field(default_factory=dict)
    """What this process held last of each partition, whether or not it still does."""
    stage: Stage = Stage.WAITING
    ownership: Ownership | None = None
    claiming: "Future[Claim] | None" = None
    """The store's answer that ``CLAIMING`` waits for."""
    reading: "Future[Claim | None] | None" = None
    """The store's answer that ``RESUMING`` waits for."""
    delivered_offset: int = 0
    """Every record below this went to a tree, which may be an earlier one: a new tree is given
    again what the one before had."""
    catch_up_offset: int = 0
    topic_id: str = ""
    """The topic that is read."""
    retry_at_ms: float = 0.0
    failures: int = 0
    """How often in a row the durable state could not be had."""
    claim_after_ms: float | None = None
    """After a newer owner was seen: claim again once membership is proved later than this."""
    held_back: bool = False
    """The log was told to deliver nothing of it for now."""

    def durable_state(self) -> Claim:
        """Return the store's answer; OwnershipLost where another owner came in between."""
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
        """Have the log deliver it, from where it is durable; raises what the log raises."""
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
        """Return what others may know of it."""
        epoch = self.ownership.epoch if self.ownership is not None else None
        next_offset = None if self.next_offset is None else broker_offset(self.next_offset)
        return Held(self.partition, self.stage.name.lower(), epoch, next_offset)

    @property
    def is_asked(self) -> bool:
        """Whether an answer of the store is awaited."""
        return self.stage in (Stage.CLAIMING, Stage.RESUMING)

    def postpone(self, now_ms: float, pause_ms: int) -> None:
        """Ask again after a pause, which doubles with every failure in a row."""
        doubled_ms = min(CLAIM_PAUSE_MAX_MS, pause_ms << min(self.failures, 30))
        self.retry_at_ms = now_ms + max(pause_ms, doubled_ms)
        self.failures += 1
        self.stage = Stage.WAITING

    def take(self, claim: Claim) -> Assignment:
        """Note that the partition is owned; return what a tree needs to work on it."""
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
    """Partitions that are given up together, until all that ran of them has ended."""

    partitions: tuple[int, ...]
    holdings: tuple[Holding, ...]
    """As they were then: a partition may be assigned anew before its drain has ended."""
    ends_ms: float
    """Monotonic time until which running attempts may end."""
    future: "Future[Mapping[int, int]]" = field(default_factory=Future)
    told: bool = False
    """The tree that lives now is draining them."""

    @property
    def has_tree(self) -> bool:
        """Whether a subtree works on any of them."""
        return any(holding.stage is Stage.RUNNING for holding in self.holdings)

    @property
    def treeless(self) -> tuple[int, ...]:
        """Those that no subtree works on."""
        return tuple(h.partition for h in self.holdings if h.stage is not Stage.RUNNING)

    def lose_tree(self) -> None:
        """The tree failed: whoever comes after it is to be told anew."""
        self.told = False
        for holding in self.holdings:
            if holding.stage is Stage.RUNNING:
                holding.stage = Stage.WAITING


def assigned_event(assignment: Assignment) -> PartitionAssigned:
    """Return what tells that a partition is worked on now."""
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
        """``lease_ends_ms`` says when the lease ends, by monotonic time; it lasts ``lease_ms``."""
        self._ownership = ownership
        self._clock = clock
        self._lease_ends_ms = lease_ends_ms
        self._lease_ms = lease_ms

    def advance(self, holding: Holding) -> bool:
        """Ask the store what is needed next; return whether its answer has come."""
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
        """Whether a commit sent after a newer owner was seen has been accepted since."""
        if holding.claim_after_ms is None:
            return True
        return self._lease_ends_ms() > holding.claim_after_ms + self._lease_ms


def poll_ms(holdings: Iterable[Holding], timeout_ms: int) -> int:
    """Return how long the next poll may wait."""
    asked = any(each.is_asked for each in holdings)
    return min(timeout_ms, _ASKED_POLL_MS) if asked else timeout_ms


def hold_back(
    log: TaskLog,
    holdings: Mapping[int, Holding],
    held: Collection[int],
    lock: "threading.RLock",
) -> None:
    """Have the log deliver nothing of the partitions whose tree wants no more for now.

    Used on the polling thread, without the lock.  What the log refuses is told again in the next
    round.
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
