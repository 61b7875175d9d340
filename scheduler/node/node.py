"""One node: polls the log, gives records to its tree, commits offsets, and handles rebalances.

Decides when a tree is built, when a partition is claimed, and which offsets are committed.  Each
call of ``step`` is one round, so the same code runs on a thread and under a virtual clock.  Never
waits for the tree: batches overlap, and answers arrive through ``tell`` on the dispatcher's thread,
so a rebalance callback can wait without a deadlock.
"""

import logging
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future

from hourhand.actors.kernel.actor import System
from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.supervision import FailureListener
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
from hourhand.actors.model.operations.events import PartitionLost, PartitionRevoked, TreeRebuilt
from hourhand.actors.model.operations.ownership import Claim, Ownership
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.partition import partitions_text
from hourhand.actors.model.values.errors import HourhandError, OwnershipLost
from hourhand.actors.model.window.holds import Hold
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.log import TaskLog
from hourhand.actors.topic_supervisor import TopicSupervisor
from hourhand.scheduler.node.commits import PeriodicCommits, durable_offsets
from hourhand.scheduler.node.holdings import (
    Claiming,
    Held,
    Holding,
    Revocation,
    Stage,
    assigned_event,
    hold_back,
    poll_ms,
)
from hourhand.scheduler.node.lease import ConfigWatch, Lease
from hourhand.scheduler.node.tree_state import BatchesInFlight, Rebuilds

logger = logging.getLogger("hourhand.node")

LOST = "lost to another member"
_SOON_MS = 100
"""Pause before a commit that leaves nothing to deliver again, or of a node that stops."""


class Node:
    """Implements ``AssignmentListener`` of the log's port, and ``Recipient`` of the messages."""

    tell_outcomes: Callable[[Mapping[int, int]], object] | None = None
    """Called in each round, with the owner epochs of the partitions that the tree works on."""

    def __init__(
        self,
        *,
        log: TaskLog,
        lease: Lease,
        clock: Clock,
        effects: Effects,
        make_system: Callable[[FailureListener], System],
        commit_interval_ms: int,
        lease_ms: int,
        rng: random.Random | None = None,
    ) -> None:
        self._log = log
        self._lease = lease
        self._clock = clock
        self._effects, self.memory = effects, effects.memory
        self._recovery = effects.settings.recovery
        self._commits = PeriodicCommits(log.commit, clock, commit_interval_ms)
        self._claiming = Claiming(effects.stores.ownership, clock, log.lease_ends_ms, lease_ms)
        self._rebuilds = Rebuilds(self._recovery, rng)
        self.config_watch = ConfigWatch(effects.stores.oversight, clock)
        # Guards all attributes below: the polling thread and the dispatcher use them.
        self._lock = threading.RLock()
        self._holdings: dict[int, Holding] = {}
        self._owned: dict[int, Ownership] = {}
        self._final_offsets: dict[int, int] = {}
        """Offsets of partitions that this node gave up because it stops."""
        self._revocations: list[Revocation] = []
        self._handed_over: list[int] = []
        """Partitions handed to the tree since the last log line about them."""
        self._root: Ref | None = None
        self._batch = 0
        self._in_flight = BatchesInFlight(effects.memory)
        self._held: frozenset[int] = frozenset()
        self._log_holds: dict[int, Hold] = {}
        """Partitions whose records the log cannot deliver; used by the polling thread only."""
        self._system = make_system(self._tree_failed)
        self._stop_requested = False
        self._stopping: Future[Mapping[int, int]] | None = None
        log.subscribe(self)

    @property
    def is_ready(self) -> bool:
        """True if a tree works on every partition assigned so far."""
        with self._lock:
            return {holding.stage for holding in self._holdings.values()} == {Stage.RUNNING}

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that this node owns, in order."""
        with self._lock:
            return tuple(sorted(self._holdings))

    def describe(self) -> list[Held]:
        """Return the public state of this node's partitions."""
        with self._lock:
            return [self._holdings[partition].described() for partition in self.partitions]

    def step(self, timeout_ms: int) -> None:
        """Do one round: build, claim, poll, deliver, commit."""
        self._build_tree()
        self._advance_holdings()
        hold_back(self._log, self._holdings, self._held, self._lock)
        self._watch_deadline()
        if not self._room():
            # The poll would return at once, and such rounds would take the tree's time.
            self._in_flight.wait_for_answer(timeout_ms)
            timeout_ms = 0
        with self._lock:
            timeout_ms = poll_ms(self._holdings.values(), timeout_ms)
        polled = self._log.poll(self._room(), timeout_ms)
        with self._lock:
            self._deliver(tuple(polled.records), dict(polled.reached))
        if polled.waiting or self._log_holds:
            self._say_what_waits(polled.waiting)
        self._commit()
        if self.tell_outcomes is not None:
            self._tell_outcomes(self.tell_outcomes)

    def _tell_outcomes(self, tell: Callable[[Mapping[int, int]], object]) -> None:
        if self._clock.monotonic_ms() >= self._lease.alone_until_ms:
            # A later owner's writes may have made those of this node void.
            return
        with self._lock:
            running = [h for h in self._holdings.values() if h.stage is Stage.RUNNING]
            epochs = {h.partition: h.ownership.epoch for h in running if h.ownership}
        tell(epochs)

    def request_stop(self) -> "Future[Mapping[int, int]]":
        """Begin to drain everything; call ``step`` until the future resolves, then ``close``."""
        with self._lock:
            if self._stopping is None:
                self._stop_requested = True
                self._stopping = self._revoke(tuple(self._holdings))
            return self._stopping

    def close(self) -> None:
        """Leave the group and stop the tree; the offsets of drained partitions are committed."""
        self._log.close()
        with self._lock:
            if self._root is not None:
                self._system.stop_tree(self._root)
                self._root = None

    # Answers of the tree, on the dispatcher's thread.

    def tell(self, message: object) -> None:
        """Take an answer of the tree."""
        with self._lock:
            match message:
                case RecordsPersisted(batch=batch, unpersisted=unpersisted):
                    self._settle(batch, unpersisted)
                case TasksPersisted(batch=batch, partition=partition):
                    if partition in self._holdings:
                        self._holdings[partition].settle(batch)
                case PartitionsHeld(partitions=partitions, supervisor=supervisor):
                    self._held = partitions if supervisor is self._root else self._held
                case PartitionsRevoked(partitions=partitions, drained=drained):
                    self._finish_revocation(partitions, drained=drained)
                case _:
                    raise AssertionError(f"no tree says {message!r} to its node")
        self._in_flight.note_answer()

    def _settle(self, batch: int, unpersisted: Collection[int]) -> None:
        if not self._in_flight.settle(batch):
            return
        for partition, holding in self._holdings.items():
            if partition not in unpersisted:
                holding.settle(batch)

    def _finish_revocation(self, partitions: tuple[int, ...], *, drained: bool) -> None:
        for revocation in [r for r in self._revocations if r.partitions == partitions]:
            self._revocations.remove(revocation)
            self._end_revocation(revocation, drained=drained)

    def _end_revocation(self, revocation: Revocation, *, drained: bool) -> None:
        offsets = {}
        for holding in revocation.holdings:
            if self._holdings.get(holding.partition) is holding:
                del self._holdings[holding.partition]
                if holding.next_offset is not None:
                    offsets[holding.partition] = holding.next_offset
            self._effects.telemetry.emit(PartitionRevoked(holding.partition, drained))
        if revocation.holdings:
            logger.log(
                logging.INFO if drained else logging.WARNING,
                "let go of %s%s",
                partitions_text(holding.partition for holding in revocation.holdings),
                "" if drained else f"; some attempts {self._recovery.drain_deadline_passed}",
            )
        if self._stop_requested:
            self._final_offsets.update(offsets)
        revocation.future.set_result(offsets)

    def _tree_failed(self, cause: BaseException) -> None:
        """Plan a rebuild after a growing, jittered pause; records in flight are delivered again."""
        with self._lock:
            if self._root is None:
                return
            self._root = None
            now_ms = self._clock.monotonic_ms()
            pause_ms = round(self._rebuilds.note_failed(now_ms))
            failures = self._rebuilds.failures
            self._effects.telemetry.emit(TreeRebuilt(repr(cause), failures, pause_ms))
            self._in_flight.clear()
            self._held = frozenset()
            self._effects.runner.drain(None)
            for holding in self._holdings.values():
                if holding.stage is Stage.RUNNING:
                    holding.stage = Stage.WAITING
            if isinstance(cause, OwnershipLost):
                self._give_up(cause.partition, now_ms)
            for revocation in tuple(self._revocations):
                revocation.lose_tree()
                self._drain(revocation)

    def _give_up(self, partition: int, now_ms: float) -> None:
        """Give up a partition that has a newer owner; claim it again only after a new proof of
        membership.

        The newer owner may be a zombie that claimed late.  Then the group still names this node,
        and accepts an offset commit sent from now on.
        """
        holding = self._holdings.get(partition)
        if holding is not None:
            self._lease.withdraw((partition,))
            holding.ownership = None
            holding.claim_after_ms = now_ms
            self._effects.telemetry.emit(PartitionLost(partition, "a newer owner exists"))

    # Calls of the log, on the polling thread.

    def assigned(self, partitions: Sequence[int]) -> None:
        """Add these partitions; they are claimed in the next round."""
        with self._lock:
            self._holdings.update({each: Holding(each, owned=self._owned) for each in partitions})

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """Start no more tasks of these, drain them, and resolve to their durable offsets."""
        with self._lock:
            if self._stopping is None:
                return self._revoke(tuple(sorted(partitions)))
            if not self._stopping.done():
                # All partitions are being drained already.
                return self._stopping
            drained: Future[Mapping[int, int]] = Future()
            drained.set_result({p: o for p, o in self._final_offsets.items() if p in partitions})
            return drained

    def _revoke(self, partitions: tuple[int, ...]) -> "Future[Mapping[int, int]]":
        held = tuple(self._holdings[p] for p in partitions if p in self._holdings)
        ends_ms = self._clock.monotonic_ms() + self._recovery.drain_deadline_ms
        revocation = Revocation(partitions, held, ends_ms)
        self._lease.withdraw(partitions)
        self._effects.runner.drain(partitions)
        self._revocations.append(revocation)
        self._drain(revocation)
        return revocation.future

    def _drain(self, revocation: Revocation) -> None:
        """Let the tree drain it.  If the tree failed while attempts run, its successor drains it,
        as long as there is time: until then no other node may start their ordering ids (P3).
        """
        if revocation.told:
            return
        runner, now_ms = self._effects.runner, self._clock.monotonic_ms()
        orphaned = any(runner.unsettled(each, given_up=False) for each in revocation.treeless)
        late = now_ms >= revocation.ends_ms
        if late or not (orphaned or revocation.has_tree):
            self._revocations.remove(revocation)
            current = tuple(
                h.partition for h in revocation.holdings if self._holdings.get(h.partition) is h
            )
            runner.drain(current, give_up=self._recovery.drain_deadline_passed)
            if self._root is not None and revocation.has_tree:
                # The tree was not asked to drain them, and may receive them again.
                self._root.tell(ForgetPartitions(current))
            self._end_revocation(revocation, drained=not orphaned and not revocation.has_tree)
        elif self._root is not None and not orphaned:
            revocation.told = True
            left_ms = round(revocation.ends_ms - now_ms)
            self._root.tell(RevokePartitions(revocation.partitions, left_ms))

    def lost(self, partitions: Sequence[int]) -> None:
        """Remove these at once: another node works on them already."""
        with self._lock:
            self._lease.withdraw(partitions)
            for partition in partitions:
                self._holdings.pop(partition, None)
                self._effects.telemetry.emit(PartitionLost(partition, LOST))
            self._effects.runner.drain(partitions, give_up=LOST)
            logger.warning("lost to another member: %s", partitions_text(partitions))
            if self._root is not None:
                self._root.tell(ForgetPartitions(tuple(partitions)))

    # One round, on the polling thread.

    def _build_tree(self) -> None:
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._root is not None or not self._rebuilds.is_due(now_ms):
                return
            self._rebuilds.note_built(now_ms)
            self._root = self._system.spawn_root(TopicSupervisor(self._effects, self))
            self._root.tell(PauseTasks(self.config_watch.config))

    def _advance_holdings(self) -> None:
        with self._lock:
            for revocation in tuple(self._revocations):
                self._drain(revocation)
            if self.config_watch.look(self._lease) and self._root is not None:
                self._root.tell(PauseTasks(self.config_watch.config))
            if self._root is None or self._stop_requested or not self.config_watch.is_known:
                return
            ready = [h for h in self._holdings.values() if self._claiming.advance(h)]
        # A refusal of the log may take long, and this thread must renew the lease of the others, so
        # the first failure ends the round.
        all(self._take_claim(holding) for holding in ready)
        self._say_what_was_handed_over()

    def _take_claim(self, holding: Holding) -> bool:
        """Begin to read a partition whose durable state is known; without the lock."""
        try:
            claim = holding.durable_state()
            holding.begin_reading(self._log, claim.watermark)
        except Exception as error:
            # No error may end the polling; the next round may succeed.
            trace = None if isinstance(error, HourhandError) else error
            logger.warning(
                "partition %d: %s; tried again", holding.partition, error, exc_info=trace
            )
            with self._lock:
                now_ms = self._clock.monotonic_ms()
                holding.postpone(now_ms, self._recovery.rebuild_pause_min_ms)
                if isinstance(error, OwnershipLost):
                    self._give_up(holding.partition, now_ms)
            return False
        with self._lock:
            if self._holdings.get(holding.partition) is not holding:
                return True
            if self._root is not None:
                self._hand_over(holding, claim)
                return True
            # The tree failed meanwhile; its successor resumes with the same epoch.
            holding.stage = Stage.WAITING
            holding.take(claim)
            return True

    def _hand_over(self, holding: Holding, claim: Claim) -> None:
        """Let the tree work on a partition."""
        assert self._root is not None, "a partition is handed to a tree"
        assignment = holding.take(claim)
        holding.stage = Stage.RUNNING
        if not any(holding in revocation.holdings for revocation in self._revocations):
            # A partition that is being given up is handed over only to be drained.
            self._lease.grant(holding.partition, claim.epoch)
        self._root.tell(AssignPartitions((assignment,)))
        # The next accepted commit proves membership, and the lease begins with it.
        self._commits.hurry()
        self._handed_over.append(holding.partition)
        self._effects.telemetry.emit(assigned_event(assignment))

    def _say_what_was_handed_over(self) -> None:
        """Log the new partitions in one line, once no further one is being claimed."""
        with self._lock:
            if self._handed_over and not any(each.is_asked for each in self._holdings.values()):
                still_held = self._holdings.keys() & self._handed_over
                logger.info("works on %s", partitions_text(still_held))
                self._handed_over.clear()

    def _say_what_waits(self, waiting: Mapping[int, str]) -> None:
        """Report partitions that wait in the log, at growing intervals, and the end of a wait."""
        now_ms = self._clock.monotonic_ms()
        for partition in waiting.keys() | self._log_holds.keys():
            hold = self._log_holds.setdefault(partition, Hold(partition))
            told = hold.note("log", waiting.get(partition), now_ms)
            if told is not None:
                self._effects.telemetry.emit(told)
            if not hold:
                del self._log_holds[partition]

    def _watch_deadline(self) -> None:
        """Treat a tree that does not answer as failed; empty batches need an answer too."""
        with self._lock:
            oldest_ms = self._in_flight.oldest_ms()
            now_ms = self._clock.monotonic_ms()
            if oldest_ms is None or self._root is None:
                return
            if now_ms - oldest_ms > self._recovery.persist_deadline_ms:
                self._system.stop_tree(self._root)
                self._tree_failed(TimeoutError("the tree did not answer a batch in time"))

    def _room(self) -> int:
        """Return the number of records that may be polled; a poll of 0 only renews membership."""
        with self._lock:
            served = self._root is not None and not self._stop_requested
            return self._in_flight.room() if served else 0

    def _deliver(self, records: tuple[LogRecord, ...], reached: dict[int, int]) -> None:
        if self._root is None:
            # The tree has failed meanwhile; these records are read again for the next one.
            return
        if not reached and self._in_flight:
            return
        self._batch += 1
        held = self._holdings
        known = {p: o for p, o in reached.items() if p in held and held[p].stage is Stage.RUNNING}
        for partition, offset in known.items():
            self._holdings[partition].deliver_batch(self._batch, offset)
        self._in_flight.send(self._batch, self._clock.monotonic_ms(), records)
        self._root.tell(PersistRecords(self._batch, records, known))

    def _commit(self) -> None:
        if not self._commits.are_due(_SOON_MS):
            return
        with self._lock:
            holdings = self._holdings.values()
            offsets = durable_offsets(holdings)
            # A stopping node commits often, so that its last commit has little left to do.
            soon = self._stop_requested or not any(holding.under_way for holding in holdings)
        if self._commits.are_due() or (soon and self._commits.would_change(offsets)):
            self._commits.commit(offsets)
