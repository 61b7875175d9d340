"""The memory log under a clock that stands still: who owns what, and until when."""

import pytest

from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from tests.unit.scheduler.adapters.memory.world import GROUP, World


@pytest.fixture
def world() -> World:
    """A world without members."""
    return World()


def test_partitions_arrive_with_the_first_poll(world: World) -> None:
    """Joining alone assigns nothing."""
    member = world.join()
    assert member.heard() == []
    world.poll(member, rounds=1)
    assert member.heard() == ["assigned [0, 1, 2, 3]"]


def test_a_cooperative_member_gives_up_only_what_moves(world: World) -> None:
    """And the newcomer gets it only after that."""
    first = world.join()
    world.poll(first)
    second = world.join()
    world.poll(second)
    assert second.heard() == []
    world.poll(first, second)

    assert first.heard() == ["assigned [0, 1, 2, 3]", "revoking [2, 3]"]
    assert second.heard() == ["assigned [2, 3]"]
    assert world.broker.group(GROUP.id).committed == {2: 1, 3: 1}


def test_three_members_share_and_take_over_again(world: World) -> None:
    """Counts differ by one at most; what a leaver had is spread over the rest."""
    members = [world.join() for _ in range(3)]
    world.poll(*members)
    assert sorted(len(each.owned) for each in members) == [1, 1, 2]
    members[1].log.close()
    world.poll(members[0], members[2])

    assert [len(members[each].owned) for each in (0, 2)] == [2, 2]
    assert members[0].owned | members[2].owned == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("assignor", "shares"), [("range", ({0, 1}, {2, 3})), ("roundrobin", ({0, 2}, {1, 3}))]
)
def test_an_eager_rebalance_stops_the_world(
    world: World, assignor: str, shares: tuple[set[int], set[int]]
) -> None:
    """All is given up by everybody before anybody gets anything."""
    first = world.join(assignor)
    world.poll(first)
    first.heard()
    first.holds = True
    second = world.join(assignor)
    world.poll(first, second)
    assert (first.heard(), second.heard()) == (["revoking [0, 1, 2, 3]"], [])
    first.revocations[0].set_result({})
    world.poll(first, second)

    assert (first.owned, second.owned) == shares


def test_a_revocation_that_is_not_drained_ends_without_a_commit(world: World) -> None:
    """The wait is bounded, and what it resolves to later changes nothing."""
    first = world.join()
    world.poll(first)
    first.holds = True
    second = world.join()
    world.poll(first, second)
    assert second.owned == set()
    for _ in range(3):
        world.clock.ms += 5_000
        world.poll(first, second)
    first.revocations[0].set_result({2: 99, 3: 99})
    world.poll(first, second)

    assert second.owned == {2, 3}
    assert world.broker.group(GROUP.id).committed == {}


def test_a_silent_member_is_expelled_and_told_by_its_next_poll(world: World) -> None:
    """Its commits are refused, it never hears ``revoking``, and it joins again."""
    silent = world.join()
    other = world.join()
    world.poll(silent, other)
    silent.heard()
    other.heard()
    for _ in range(3):
        world.clock.ms += 4_000
        world.poll(other)
    assert other.owned == {0, 1, 2, 3}
    silent.log.commit(dict.fromkeys(sorted(silent.owned), 7))
    assert 7 not in world.broker.group(GROUP.id).committed.values()
    world.poll(silent, other)

    assert silent.heard() == ["lost [0, 1]", "assigned [2, 3]"]
    assert not silent.owned & other.owned


def test_a_commit_alone_keeps_membership_for_the_poll_interval(world: World) -> None:
    """A member busy with a long poll's work is not expelled before that is over."""
    member = world.join()
    other = world.join()
    world.poll(member, other)
    mine = set(member.owned)
    for _ in range(7):
        world.clock.ms += 4_000
        member.log.commit({})
        world.poll(other)
        assert not other.owned & mine
    world.clock.ms += 4_000
    world.poll(other)

    assert other.owned == {0, 1, 2, 3}


def test_a_lease_counts_from_the_sending_of_an_accepted_commit(world: World) -> None:
    """Not from its answer; and a refused or unanswered one gives none."""
    member = world.join()
    world.poll(member)
    assert member.log.lease_ends_ms() < 0
    world.network.held_kinds.add("commit")
    member.log.commit({})
    world.clock.ms += 3_000
    world.poll(member)
    assert member.log.lease_ends_ms() < 0
    world.network.requests[0]()
    assert member.log.lease_ends_ms() < 0
    world.poll(member)
    assert member.log.lease_ends_ms() == 1_000 + 10_000 - 1_000

    member.log.commit({})
    world.network.requests[1].fail(ConnectionError("cut"))
    world.poll(member)
    assert member.log.lease_ends_ms() == 10_000


def test_a_lease_ends_before_anybody_else_can_own(world: World) -> None:
    """However the member falls silent."""
    member = world.join()
    other = world.join()
    world.poll(member, other)
    mine = set(member.owned)
    member.log.commit({})
    world.poll(member)
    while not other.owned & mine:
        leased = member.log.lease_ends_ms() > world.clock.ms
        world.clock.ms += 100
        world.poll(other, rounds=1)
        assert world.clock.ms < 60_000

    assert not leased
    assert member.log.lease_ends_ms() < world.clock.ms - 900


def test_one_commit_is_in_flight_and_the_last_offsets_follow(world: World) -> None:
    """What is asked meanwhile waits, and is sent as one."""
    member = world.join()
    world.poll(member)
    world.network.held_kinds.add("commit")
    for offset in (1, 2, 3):
        member.log.commit({0: offset})
    assert len(world.network.requests) == 1
    world.network.requests[0]()
    world.poll(member, rounds=1)
    assert len(world.network.requests) == 2
    world.network.requests[1]()

    assert world.broker.group(GROUP.id).committed[0] == 3


def test_closing_leaves_when_it_is_drained(world: World) -> None:
    """Until then the partitions have no other owner, and their offsets are committed."""
    leaver = world.join()
    world.poll(leaver)
    leaver.holds = True
    leaver.log.close()
    heir = world.join()
    world.poll(heir)
    assert heir.owned == set()
    leaver.revocations[0].set_result({0: 5})
    world.poll(heir)

    assert heir.owned == {0, 1, 2, 3}
    assert heir.log._positions[0] == 0
    assert world.broker.group(GROUP.id).committed == {0: 5}


def test_a_leaver_that_never_drains_is_expelled(world: World) -> None:
    """What it resolves to afterwards is not committed."""
    leaver = world.join()
    world.poll(leaver)
    leaver.holds = True
    leaver.log.close()
    heir = world.join()
    for _ in range(3):
        world.clock.ms += 4_000
        world.poll(heir)
    leaver.revocations[0].set_result({0: 5})

    assert heir.owned == {0, 1, 2, 3}
    assert world.broker.group(GROUP.id).committed == {}


def test_gaps_and_retention_show_in_offsets(world: World) -> None:
    """Reading passes what is not there, and ``reached`` tells so."""
    writer = MemoryWriter(world.broker)
    for value in (b"a", b"b", b"c"):
        writer.append(0, b"k", value)
    stored = world.broker.partitions[0]
    stored.skip(2)
    writer.append(0, b"k", b"d")
    stored.skip(1)
    stored.trim(1)
    member = world.join()
    world.poll(member)
    polled = member.log.poll(2, 0)
    assert [each.offset for each in polled.records] == [1, 2]
    assert polled.reached == {0: 3}
    polled = member.log.poll(2, 0)
    assert [each.offset for each in polled.records] == [5]
    assert polled.reached == {0: 7}
