"""Owners of a group's partitions: the coordinator's side.

It decides; members learn of it during their own polls. A partition goes to its next owner only
after the previous one released it or was expelled. Cooperative members give up only partitions that
move to another; with an eager assignor all give up everything first.
"""

import math
from collections.abc import Collection, Sequence

from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.settings import GroupSettings

COOPERATIVE = "cooperative-sticky"


class Membership:
    """One member, from joining to leaving or being expelled; never revived."""

    def __init__(self, number: int, settings: GroupSettings, now_ms: float) -> None:
        self.number = number
        self.settings = settings
        self.assigned: set[int] = set()
        self.alive = True
        self.contact_ms = now_ms
        """Time at which the coordinator last heard of it."""
        self.polled_ms = now_ms
        self.reachable = True
        """True if its heartbeats and commits reach the coordinator; a simulation may cut it off."""

    def expiry_ms(self) -> float:
        """Return the time at which the group gives it up, unless it hears of it before."""
        return min(
            self.contact_ms + self.settings.session_timeout_ms,
            self.polled_ms + self.settings.max_poll_interval_ms,
        )


class Coordinator:
    """One group."""

    def __init__(self, partition_count: int, clock: Clock) -> None:
        self.committed: dict[int, int] = {}
        """Next offsets, by partition."""
        self.committed_topics: dict[int, str] = {}
        """The topics that they were committed for."""
        self._partition_count = partition_count
        self._clock = clock
        self._members: dict[int, Membership] = {}
        self._joined = 0
        self._owners: dict[int, Membership] = {}
        self._target: dict[int, int] = {}
        self._planned: dict[int, list[int]] = {}
        """The same by member, so that a poll looks at no other member's partitions."""
        self._eager = False
        self._expiry_ms = math.inf
        """Earliest time at which a member can be overdue; a member's contact only makes that
        later."""
        self._releasing: set[int] = set()
        """Members that an eager rebalance waits for."""
        self._away = False

    def reaches(self, member: Membership) -> bool:
        """True if a member and the coordinator can communicate."""
        return member.reachable and not self._away

    def go_away(self) -> None:
        """Stop answering: the coordinator's broker is gone, and decides nothing meanwhile."""
        self._away = True

    def come_back(self, *, sessions_renewed: bool) -> None:
        """Answer again; a new coordinator gives every member a new session."""
        self._away = False
        if sessions_renewed:
            for member in self._members.values():
                member.contact_ms = self._clock.monotonic_ms()

    def move(self, partition: int, member: Membership) -> None:
        """Plan another owner for a partition; a later rebalance may change it again."""
        if member.number not in self._members:
            return
        self._target[partition] = member.number
        self._note_planned()
        if self._eager:
            self._releasing = {each.number for each in self._members.values() if each.assigned}

    def join(self, settings: GroupSettings) -> Membership:
        """Add a member; all assignments are planned again."""
        self._joined += 1
        member = Membership(self._joined, settings, self._clock.monotonic_ms())
        self._members[member.number] = member
        self._expiry_ms = min(self._expiry_ms, member.expiry_ms())
        self._plan()
        return member

    def expel_overdue(self) -> None:
        """Remove members that were silent for too long."""
        now_ms = self._clock.monotonic_ms()
        if self._away or now_ms < self._expiry_ms:
            return
        for member in [each for each in self._members.values() if each.expiry_ms() <= now_ms]:
            self.remove(member)
        times = (each.expiry_ms() for each in self._members.values())
        self._expiry_ms = min(times, default=math.inf)

    def remove(self, member: Membership) -> None:
        """Remove a member, and release all its partitions.

        ``member.assigned`` stays unchanged: it is reported to the member as lost.
        """
        if not member.alive:
            return
        member.alive = False
        del self._members[member.number]
        self._releasing.discard(member.number)
        for partition in member.assigned:
            del self._owners[partition]
        self._plan()

    def partitions_to_revoke(self, member: Membership) -> Sequence[int]:
        """Return the partitions that a member must give up before others go on."""
        if member.number in self._releasing:
            return sorted(member.assigned)
        if self._eager:
            return ()
        return sorted(p for p in member.assigned if self._target[p] != member.number)

    def partitions_to_assign(self, member: Membership) -> Sequence[int]:
        """Return the partitions that a member gets now: planned for it, and released by all
        others.
        """
        if self._releasing:
            return ()
        planned = self._planned.get(member.number, ())
        return [partition for partition in planned if partition not in self._owners]

    def give(self, member: Membership, partitions: Collection[int]) -> None:
        """Make a member the owner."""
        for partition in partitions:
            assert partition not in self._owners, "a partition has one owner at a time"
            self._owners[partition] = member
        member.assigned.update(partitions)

    def release(self, member: Membership, partitions: Collection[int]) -> None:
        """Note that a member released partitions."""
        for partition in partitions:
            del self._owners[partition]
        member.assigned.difference_update(partitions)
        self._releasing.discard(member.number)

    def _plan(self) -> None:
        numbers = sorted(self._members)
        self._eager = any(e.settings.assignor != COOPERATIVE for e in self._members.values())
        if not numbers:
            self._target = {}
        elif self._eager:
            self._target = self._dealt(numbers)
            self._releasing = {each.number for each in self._members.values() if each.assigned}
        else:
            self._target = self._balanced(numbers)
        self._note_planned()

    def _note_planned(self) -> None:
        self._planned = {}
        for partition, number in self._target.items():
            self._planned.setdefault(number, []).append(partition)

    def _dealt(self, numbers: Sequence[int]) -> dict[int, int]:
        """Assign from the start: in ranges (range) or one by one (roundrobin)."""
        count = self._partition_count
        if all(each.settings.assignor == "roundrobin" for each in self._members.values()):
            return {p: numbers[p % len(numbers)] for p in range(count)}
        quota, rest = divmod(count, len(numbers))
        long = rest * (quota + 1)
        return {
            p: numbers[p // (quota + 1) if p < long else rest + (p - long) // quota]
            for p in range(count)
        }

    def _balanced(self, numbers: Sequence[int]) -> dict[int, int]:
        """Assign so that counts differ by at most one and as few partitions as possible move."""
        held = {number: sorted(self._members[number].assigned) for number in numbers}
        # Members with the most partitions keep the odd one, so that it need not move.
        order = sorted(numbers, key=lambda number: (-len(held[number]), number))
        quota, rest = divmod(self._partition_count, len(numbers))
        room = {number: quota + (rank < rest) for rank, number in enumerate(order)}
        target: dict[int, int] = {}
        for number in order:
            for partition in held[number][: room[number]]:
                target[partition] = number
                room[number] -= 1
        spare = (number for number in order for _ in range(room[number]))
        for partition in range(self._partition_count):
            if partition not in target:
                target[partition] = next(spare)
        return target
