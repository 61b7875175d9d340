"""Membership: who owns what, how it changes hands, and how long a node may rely on it."""

import math
import threading
from collections.abc import Callable

import pytest

from tests.conformance.log_bench import (
    QUICK,
    WAIT_S,
    Bench,
    LogWorld,
    Member,
    append_all,
    poll_for,
    poll_until,
)

ASSIGNORS = ("cooperative-sticky", "range", "roundrobin")
EVICTED = QUICK.model_copy(update={"max_poll_interval_ms": 3_000})
"""A group that gives up soon on a member that stops polling."""


def split(first: Member, second: Member) -> bool:
    """True if both own something, started, and nothing twice."""
    return bool(
        first.starts
        and second.starts
        and not first.owned & second.owned
        and first.owned == first.starts.keys()
        and second.owned == second.starts.keys()
    )


class MembershipContract:
    """One or two members of one group."""

    @pytest.fixture
    def two_members(self, log_world: LogWorld) -> None:
        """Skip the test where the adapter has room for one member only."""
        if log_world.members_max < 2:
            pytest.skip("one member only")

    @pytest.mark.usefixtures("two_members")
    @pytest.mark.parametrize("assignor", ASSIGNORS)
    def test_partitions_are_shared_and_go_back(
        self, bench: Callable[..., Bench], assignor: str
    ) -> None:
        """A second member takes its share, and gives it back when it leaves."""
        made = bench(4)
        group = QUICK.model_copy(update={"assignor": assignor})
        writer = made.writer()
        first = made.join("a", group)
        poll_until(lambda: len(first.starts) == 4, first, committing=True)
        second = made.join("b", group)
        poll_until(
            lambda: split(first, second) and len(first.owned | second.owned) == 4,
            first,
            second,
            committing=True,
        )
        for partition in range(4):
            append_all(writer, partition, [b"%d" % partition])
        poll_until(lambda: len(first.records) + len(second.records) == 4, first, second)
        assert {each.partition for each in first.records} == first.owned
        made.leave(second)
        poll_until(lambda: len(first.starts) == 4, first, committing=True)
        append_all(writer, 3, [b"more"])
        poll_until(lambda: b"more" in first.values(3), first)

    @pytest.mark.usefixtures("two_members")
    def test_cooperative_members_keep_what_does_not_move(self, bench: Callable[..., Bench]) -> None:
        """Only the partitions that move are revoked and started again."""
        made = bench(4)
        first = made.join("a")
        poll_until(lambda: len(first.starts) == 4, first, committing=True)
        kept_starts = dict(first.starts)
        second = made.join("b")
        poll_until(lambda: split(first, second), first, second, committing=True)
        assert first.starts == {each: kept_starts[each] for each in first.owned}
        assert sum("a revoking" in each for each in first.history) == 1

    @pytest.mark.usefixtures("two_members")
    @pytest.mark.parametrize("assignor", ASSIGNORS)
    def test_a_revocation_waits_for_its_future_and_commits_its_offsets(
        self, bench: Callable[..., Bench], assignor: str
    ) -> None:
        """The successor begins where the drained owner said, and not before it said so."""
        made = bench(2)
        group = QUICK.model_copy(update={"assignor": assignor})
        writer = made.writer()
        offsets = {p: append_all(writer, p, [b"%d" % n for n in range(5)]) for p in range(2)}
        first = made.join("a", group)
        poll_until(lambda: len(first.records) == 10, first)
        first.holds_revocations = True
        second = made.join("b", group)

        def resolve() -> None:
            assert not never.wait(0.5)
            made.history.append("resolved")
            first.holds_revocations = False
            first.revocations[0].set_result({p: offsets[p][3] for p in range(2)})

        def resolve_later() -> bool:
            if first.revocations and not resolvers:
                resolvers.append(threading.Thread(target=resolve))
                resolvers[0].start()
            return bool(second.starts)

        never = threading.Event()
        resolvers: list[threading.Thread] = []
        # The member to be revoked is polled on a thread of its own: its poll may not return
        # before the future resolves.
        stopping = threading.Event()
        thread = threading.Thread(target=_poll_on, args=(first, stopping))
        thread.start()
        try:
            poll_until(resolve_later, second)
        finally:
            stopping.set()
            thread.join(WAIT_S)
        taken = f"b assigned {sorted(second.starts)}"
        assert made.history.index("resolved") < made.history.index(taken)
        for partition, start in second.starts.items():
            assert start.next_offset == offsets[partition][3]

    def test_closing_revokes_and_commits(self, bench: Callable[..., Bench]) -> None:
        """A member that leaves hands over like one that is revoked."""
        made = bench(1)
        offsets = append_all(made.writer(), 0, [b"a", b"b", b"c"])
        first = made.join("a")
        poll_until(lambda: len(first.records) == 3, first)
        made.leave(first)
        assert first.history[-1] == "a revoking [0]"
        assert first.log.lease_ends_ms() == -math.inf
        second = made.join("b")
        poll_until(lambda: 0 in second.starts, second)
        assert second.starts[0].next_offset == offsets[-1] + 1

    def test_a_lock_guards_ownership_where_nothing_expires(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """The lease never ends while the log is open."""
        if log_world.has_lease_expiry:
            pytest.skip("ownership expires here")
        member = bench(1).join("a")
        poll_until(lambda: 0 in member.starts, member)
        assert member.log.lease_ends_ms() == math.inf

    def test_only_an_accepted_commit_gives_a_lease(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """Neither joining nor polling counts, and an unchanged commit does."""
        self._needs_expiry(log_world)
        made = bench(1)
        member = made.join("a")
        assert member.log.lease_ends_ms() == -math.inf
        poll_until(lambda: 0 in member.starts, member)
        poll_for(0.3, member)
        assert member.log.lease_ends_ms() == -math.inf

        reach_ms = QUICK.session_timeout_ms - QUICK.lease_margin_ms
        before_ms = log_world.clock.monotonic_ms()
        member.commit()
        assert member.log.lease_ends_ms() == -math.inf
        sent_ms = log_world.clock.monotonic_ms()
        poll_until(lambda: member.log.lease_ends_ms() > -math.inf, member)
        first_end_ms = member.log.lease_ends_ms()
        assert before_ms + reach_ms <= first_end_ms <= sent_ms + reach_ms

        poll_for(0.3, member)
        assert member.log.lease_ends_ms() == first_end_ms
        member.log.commit({})
        poll_until(lambda: member.log.lease_ends_ms() > first_end_ms, member)

    def test_a_lease_ends_where_polls_end(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """A member that polls no more is given up after the poll interval."""
        self._needs_expiry(log_world)
        group = EVICTED.model_copy(update={"session_timeout_ms": 3_000, "lease_margin_ms": 900})
        member = bench(1).join("a", group)
        poll_until(lambda: member.log.lease_ends_ms() > -math.inf, member, committing=True)
        member.log.poll(0, 0)
        polled_ms = log_world.clock.monotonic_ms()
        assert member.log.lease_ends_ms() <= polled_ms + 3_000 - 900

    @pytest.mark.usefixtures("two_members")
    def test_a_silent_member_has_no_lease_when_its_partitions_move(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """Its lease is over first, its late commit changes nothing, and it is told of the loss."""
        self._needs_expiry(log_world)
        made = bench(1)
        offsets = append_all(made.writer(), 0, [b"a", b"b"])
        silent = made.join("a", EVICTED)
        poll_until(lambda: len(silent.records) == 2, silent)
        silent.log.commit({0: offsets[0]})
        poll_until(lambda: silent.log.lease_ends_ms() > -math.inf, silent)
        successor = made.join("b", EVICTED)
        poll_until(lambda: successor.owned == {0}, successor)
        assert silent.log.lease_ends_ms() < log_world.clock.monotonic_ms()
        poll_until(lambda: 0 in successor.starts, successor)
        assert successor.starts[0].next_offset == offsets[0]

        # What the silent member asks for now is refused: its commit changes nothing, gives
        # no lease, and it learns that the partition is gone.
        silent.log.commit({0: offsets[1] + 1})
        poll_until(lambda: "a lost [0]" in made.history, silent, successor, committing=False)
        assert silent.log.lease_ends_ms() < log_world.clock.monotonic_ms()
        assert not silent.revocations

    def _needs_expiry(self, world: LogWorld) -> None:
        if not world.has_lease_expiry:
            pytest.skip("ownership does not expire here")


def _poll_on(member: Member, stopping: threading.Event) -> None:
    while not stopping.is_set():
        member.poll()
