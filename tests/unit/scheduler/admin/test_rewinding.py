"""Reading the log again: what it refuses, and that both places an offset is kept in are set."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.values.errors import InvalidInput, LogUnavailable, OwnershipLost
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.admin.auditing import AuditLog
from hourhand.scheduler.admin.rewinding import Move, Rewinding, parse_places
from tests.builders import NOW_MS

EARLIER_MS = NOW_MS - 3_600_000


class MemoryOffsets:
    """The group's offsets, as a broker keeps them."""

    def __init__(self) -> None:
        self.member_count = 0
        self.places = {0: 90, 1: 40}
        self.ends = {0: (10, 100), 1: (0, 50), 2: (0, 7)}

    def members(self) -> int:
        """Return how many nodes the group has now."""
        return self.member_count

    def committed(self) -> Mapping[int, int]:
        """Return the group's next offsets, where it has any."""
        return dict(self.places)

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """Return each partition's first offset and the one that comes next."""
        return self.ends

    def since(self, time_ms: int) -> Mapping[int, int]:
        """Return the first offsets; nothing here was written at a time."""
        return {partition: first for partition, (first, _) in self.ends.items()}

    def set(self, next_offsets: Mapping[int, int]) -> None:
        """Have the group begin there, while it has no members."""
        if self.member_count:
            raise LogUnavailable("the group is not empty")
        self.places.update(next_offsets)


class World:
    """A group whose partition 0 is stored up to 95, further than was committed."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOW_MS)
        self.offsets = MemoryOffsets()
        self.stores = open_memory_stores(MemoryStores())
        self.owner = self.stores.ownership.claim(0, EARLIER_MS).result(0)
        self.stored = replace(self.owner.watermark, next_offset=95, watermark_ms=NOW_MS)
        self.save()
        self.rewinding = Rewinding(self.offsets, self.stores.ownership, self.clock)

    def save(self) -> None:
        """Save what the owner of partition 0 knows, as it does on its own."""
        self.stores.ownership.save_watermark(0, self.owner.epoch, self.stored).result(0)

    def kept(self, partition: int) -> Claim | None:
        """Return what lies beside a partition's rows."""
        return self.stores.ownership.read_watermark(partition).result(0)

    def refusal(self, wanted: Mapping[int, int], *, forward: bool = False) -> str:
        """Return why something may not be done."""
        with pytest.raises(InvalidInput) as refused:
            self.rewinding.plan(wanted, forward=forward)
        return str(refused.value)


def test_nothing_is_planned_while_the_group_has_members() -> None:
    """And where one joins after the plan, the broker's refusal leaves the store as it was."""
    world = World()
    moves = world.rewinding.plan({0: 20}, forward=False)
    before = world.kept(0)

    world.offsets.member_count = 3

    assert "3 members: stop every node first" in world.refusal({0: 20})
    with pytest.raises(LogUnavailable):
        world.rewinding.move(moves)
    assert (world.kept(0), world.offsets.places[0]) == (before, 90)


def test_the_place_before_is_the_higher_of_the_two_and_retention_bounds_the_one_after() -> None:
    """A node would begin at it; and a partition that stays where it is is not a move."""
    world = World()

    moves = world.rewinding.plan({1: 0, 0: 3, 2: 0}, forward=False)

    assert moves == [Move(0, 95, 10), Move(1, 40, 0)]


@pytest.mark.parametrize(("partition", "asked", "read_to"), [(0, 96, 95), (1, 41, 40), (2, 1, 0)])
def test_records_are_never_passed_unread_unless_that_is_said(
    partition: int, asked: int, read_to: int
) -> None:
    """Whichever of the two places is the higher one."""
    world = World()

    assert "--forward" in world.refusal({partition: asked})
    moves = world.rewinding.plan({partition: asked}, forward=True)

    assert moves == [Move(partition, read_to, asked)]


def test_a_place_that_the_topic_does_not_have_is_refused() -> None:
    """Also forward: a group behind the end would be reset by the broker's policy."""
    world = World()

    assert "ends at 100: 101 is behind that" in world.refusal({0: 101}, forward=True)
    assert "no partition 3" in world.refusal({3: 0}, forward=True)


def test_both_places_are_set_and_an_owner_that_nobody_knew_of_saves_nothing_more() -> None:
    """All else that is known of a partition stays; one that had no owner gets its place too."""
    world = World()

    world.rewinding.move(world.rewinding.plan({0: 20, 1: 5}, forward=False))

    first, second = world.kept(0), world.kept(1)
    assert world.offsets.places == {0: 20, 1: 5}
    assert first is not None
    assert second is not None
    assert second.watermark.next_offset == 5
    assert first.epoch == world.owner.epoch + 1
    assert replace(first.watermark, write_time=0) == replace(world.stored, next_offset=20)
    with pytest.raises(OwnershipLost):
        world.save()
    assert world.rewinding.plan({0: 20, 1: 5}, forward=False) == []


def test_what_was_moved_is_told_to_the_audit_log() -> None:
    """As is a refusal that came after the plan."""
    world = World()
    audit = AuditLog(world.stores.oversight, world.clock, kept_days=1)
    moves = world.rewinding.plan({0: 20, 1: 5}, forward=False)

    audit.audited("me", "rewind", "2 partitions", {}, lambda: world.rewinding.move(moves))
    world.offsets.member_count = 1
    with pytest.raises(LogUnavailable):
        audit.audited("me", "rewind", "2 partitions", {}, lambda: world.rewinding.move(moves))

    results = [each.result for each in audit.page(None, 10).entries]
    assert sorted(results) == ["failed: log-unavailable", "moved 2"]


@pytest.mark.parametrize(
    ("text", "places"),
    [("0:1200, 3:7", {0: 1200, 3: 7}), ("0:0", {0: 0}), ("-2h", None), ("0:1,x", None), ("", None)],
)
def test_places_are_told_from_a_time(text: str, places: dict[int, int] | None) -> None:
    """What is not a list of places is left for another reader."""
    assert parse_places(text) == places


def test_a_partition_has_one_place() -> None:
    """Two of them would leave it to the order which holds."""
    with pytest.raises(InvalidInput, match="names a partition twice"):
        parse_places("0:1,0:2")
