"""``TaskLog`` on a ``MemoryBroker``: one member, which lives by its polls.

It behaves as a Kafka consumer does, but never waits: a condition on which a consumer would block,
such as a revocation that is being drained, is checked again by the next poll.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from msgspec.structs import replace

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.model.values.log_offset import broker_offset, era_of, kept_offset
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import AssignmentListener, Polled, StartPosition
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.adapters.memory.group import Membership
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.beginning import Found, Noted, chosen_beginning

_REVOKE_MARGIN_MS = 2_000


@dataclass(frozen=True, slots=True)
class _GroupRevocation:
    partitions: Sequence[int]
    started: frozenset[int]
    offsets: "Future[Mapping[int, int]]"
    deadline_ms: float


class MemoryLog:
    """One member of the group ``settings.group.id``.

    A member that is expelled learns of it by its next poll, which joins again.
    """

    def __init__(self, broker: MemoryBroker, settings: Settings, clock: Clock) -> None:
        self._broker = broker
        self._group = settings.group
        self._revoke_ms = settings.tree.recovery.drain_deadline_ms + _REVOKE_MARGIN_MS
        self._clock = clock
        self._coordinator = broker.group(settings.group.id)
        self._listener: AssignmentListener | None = None
        self._member: Membership | None = None
        self._positions: dict[int, int] = {}
        self._held: set[int] = set()
        self._to_commit: dict[int, int] = {}
        self._commit_in_flight: tuple[Request[bool], float] | None = None
        self._commit_waiting = False
        self._revocation: _GroupRevocation | None = None
        self._turn = 0
        self._topic_id = broker.topic_id
        self._shifts: dict[int, int] = {}
        """By partition, the difference between the broker's offsets and the stored ones."""
        self._answered_sent_ms = -math.inf
        """Time at which the last accepted commit was sent; valid from the next poll on."""
        self._accepted_sent_ms = -math.inf
        self._polled_ms = -math.inf

    def subscribe(self, listener: AssignmentListener) -> None:
        self._listener = listener
        self._member = self._coordinator.join(self._group)

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        if self._member is None or partition not in self._member.assigned:
            raise ValueError(f"partition {partition} is not assigned")
        self._broker.check_leader(partition)
        if self._topic_id != self._broker.topic_id:
            raise LogUnavailable("the topic was recreated since this node joined")
        records = self._broker.partitions[partition]
        found = Found(
            self._coordinator.committed.get(partition),
            records.first_offset,
            records.end_offset,
            self._broker.topic_id,
            self._coordinator.committed_topics.get(partition, ""),
        )
        begun = chosen_beginning(Noted(stored_next_offset, stored_topic_id), found)
        self._shifts[partition] = kept_offset(era_of(begun.next_offset), 0)
        position = broker_offset(begun.next_offset)
        self._positions[partition] = self._to_commit[partition] = position
        self._held.discard(partition)
        return StartPosition(begun.next_offset, begun.end_offset, begun.topic_id)

    def seek(self, partition: int, next_offset: int | None) -> None:
        if next_offset is None:
            self._held.add(partition)
        else:
            self._held.discard(partition)
            self._positions[partition] = broker_offset(next_offset)

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Serve the group's protocol and return existing records; never waits."""
        if self._listener is None or self._member is None:
            return Polled()
        self._coordinator.expel_overdue()
        # A member that cannot reach the coordinator does not learn that it was expelled.
        reaches = self._coordinator.reaches(self._member)
        if reaches and not self._member.alive:
            self._lose(self._member, self._listener)
            self._member = self._coordinator.join(self._group)
        is_draining = self._revocation is not None
        if reaches and self._topic_id != self._broker.topic_id and not is_draining:
            self._topic_id = self._broker.topic_id
            self._coordinator.remove(self._member)
            self._lose(self._member, self._listener)
            self._member = self._coordinator.join(self._group)
        self._polled_ms = self._member.polled_ms = self._clock.monotonic_ms()
        if reaches:
            self._member.contact_ms = self._polled_ms
        self._note_commit_answer()
        self._accepted_sent_ms = self._answered_sent_ms
        if self._commit_waiting and self._commit_in_flight is None:
            self._send_commit()
        if reaches:
            self._serve_membership(self._member, self._listener)
        # The offsets of the old topic do not fit the new one.
        is_known = self._topic_id == self._broker.topic_id
        return self._fetch(records_max) if records_max > 0 and is_known else Polled()

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Request a commit of next offsets; those of other started partitions go along."""
        for partition, next_offset in next_offsets.items():
            if partition in self._to_commit:
                self._to_commit[partition] = broker_offset(next_offset)
        self._note_commit_answer()
        if self._commit_in_flight is not None:
            _, sent_ms = self._commit_in_flight
            if self._clock.monotonic_ms() < sent_ms + self._group.session_timeout_ms:
                self._commit_waiting = True
                return
        self._send_commit()

    def lease_ends_ms(self) -> float:
        """Return when the lease ends, by the clock's monotonic time."""
        group = self._group
        return min(
            self._accepted_sent_ms + group.session_timeout_ms - group.lease_margin_ms,
            self._polled_ms + group.max_poll_interval_ms - group.lease_margin_ms,
        )

    def close(self) -> None:
        """Revoke what is assigned and leave, as soon as that is drained.

        Until then the partitions stay this member's, as long as the session lasts.
        """
        member, listener = self._member, self._listener
        if member is None or listener is None:
            return
        self._coordinator.expel_overdue()
        if not member.alive:
            self._lose(member, listener)
        self._member = None
        self._end_lease()
        if not member.alive:
            return
        if self._revocation is not None:
            self._revocation.offsets.add_done_callback(lambda _: self._part(member, listener))
        else:
            self._part(member, listener)

    def vanish(self) -> None:
        """Die silently: nothing is revoked or committed, and the group knows at once."""
        if self._member is not None:
            self._coordinator.remove(self._member)
        self._member = None
        self._end_lease()

    def _part(self, member: Membership, listener: AssignmentListener) -> None:
        if self._revocation is not None:
            self._let_go(member, self._revocation)
        if member.alive and member.assigned:
            revocation = self._revoke(sorted(member.assigned), listener)
            revocation.offsets.add_done_callback(lambda _: self._leave(member, revocation))
        elif self._coordinator.reaches(member):
            self._coordinator.remove(member)

    def _leave(self, member: Membership, revocation: _GroupRevocation) -> None:
        self._let_go(member, revocation)
        if self._coordinator.reaches(member):
            self._coordinator.remove(member)

    def _lose(self, member: Membership, listener: AssignmentListener) -> None:
        # Partitions that were being revoked are not lost as well: the listener has already given
        # them up, and the offsets of that are not committed.
        draining = self._revocation.partitions if self._revocation is not None else ()
        lost = sorted(member.assigned.difference(draining))
        self._revocation = None
        self._end_lease()
        self._forget(member.assigned)
        if lost:
            listener.lost(lost)

    def _serve_membership(self, member: Membership, listener: AssignmentListener) -> None:
        if self._revocation is None:
            leaving = self._coordinator.partitions_to_revoke(member)
            if leaving:
                self._revocation = self._revoke(leaving, listener)
        if self._revocation is not None:
            late = self._clock.monotonic_ms() >= self._revocation.deadline_ms
            if not self._revocation.offsets.done() and not late:
                return
            self._let_go(member, self._revocation)
        gained = self._coordinator.partitions_to_assign(member)
        if gained:
            self._coordinator.give(member, gained)
            listener.assigned(gained)

    def _revoke(self, partitions: Sequence[int], listener: AssignmentListener) -> _GroupRevocation:
        started = frozenset(each for each in partitions if each in self._positions)
        # Nothing more of them is delivered, even if the listener is slow.
        self._forget(partitions)
        offsets = listener.revoking(partitions)
        deadline_ms = self._clock.monotonic_ms() + self._revoke_ms
        return _GroupRevocation(partitions, started, offsets, deadline_ms)

    def _let_go(self, member: Membership, revocation: _GroupRevocation) -> None:
        self._revocation = None
        if not member.alive or not self._coordinator.reaches(member):
            return
        if revocation.offsets.done() and revocation.offsets.exception() is None:
            for partition, next_offset in revocation.offsets.result().items():
                if partition in revocation.started:
                    self._coordinator.committed_topics[partition] = self._topic_id
                    self._coordinator.committed[partition] = broker_offset(next_offset)
        self._coordinator.release(member, revocation.partitions)

    def _forget(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
            self._to_commit.pop(partition, None)
            self._held.discard(partition)

    def _end_lease(self) -> None:
        """End the lease; only a commit that is sent from now on renews it."""
        self._accepted_sent_ms = self._answered_sent_ms = -math.inf
        self._commit_in_flight = None
        self._commit_waiting = False

    def _send_commit(self) -> None:
        self._commit_waiting = False
        member, offsets, topic_id = self._member, dict(self._to_commit), self._topic_id
        if member is None or not offsets:
            return

        def accept() -> bool:
            if not self._coordinator.reaches(member):
                raise LogUnavailable("the group's coordinator does not answer; try again")
            self._coordinator.expel_overdue()
            if not member.alive:
                return False
            self._coordinator.committed_topics.update(dict.fromkeys(offsets, topic_id))
            self._coordinator.committed.update(offsets)
            member.contact_ms = self._clock.monotonic_ms()
            return True

        request = Request("commit", -1, accept)
        self._commit_in_flight = (request, self._clock.monotonic_ms())
        self._broker.deliver(request)

    def _note_commit_answer(self) -> None:
        if self._commit_in_flight is None:
            return
        request, sent_ms = self._commit_in_flight
        if not request.future.done():
            return
        self._commit_in_flight = None
        if request.future.exception() is None and request.future.result():
            self._answered_sent_ms = max(self._answered_sent_ms, sent_ms)

    def _fetch(self, records_max: int) -> Polled:
        partitions = self._broker.partitions
        behind = [
            p
            for p, at in self._positions.items()
            if partitions[p].end_offset > at
            and p not in self._held
            and p not in self._broker.refused
        ]
        if not behind:
            return Polled()
        self._turn += 1
        first = self._turn % len(behind)
        records: list[LogRecord] = []
        reached: dict[int, int] = {}
        for number, partition in enumerate(behind[first:] + behind[:first]):
            share = -(-(records_max - len(records)) // (len(behind) - number))
            if share == 0:
                break
            found, position = partitions[partition].read(self._positions[partition], share)
            if shift := self._shifts[partition]:
                found = [replace(each, offset=shift + each.offset) for each in found]
            records += found
            self._positions[partition] = position
            reached[partition] = shift + position
        return Polled(records, reached)
