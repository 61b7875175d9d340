"""The memory log and store while parts of them are out of reach, as a simulation asks for."""

import pytest

from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from tests.unit.scheduler.adapters.memory.world import GROUP, Member, World


@pytest.fixture
def world() -> World:
    """A world without members."""
    return World()


def _cut_off(member: Member) -> None:
    membership = member.log._member
    assert membership is not None
    membership.reachable = False


def test_a_member_that_is_cut_off_loses_its_partitions_and_does_not_hear_of_it(
    world: World,
) -> None:
    """Its polls bring records, its commits no lease."""
    zombie, other = world.join(), world.join()
    world.poll(zombie, other)
    owned = set(zombie.owned)
    MemoryWriter(world.broker).append(min(owned), b"k", b"v").result(timeout=0)
    zombie.heard()
    _cut_off(zombie)
    world.clock.ms += GROUP.session_timeout_ms - 1
    world.poll(other)
    world.clock.ms += 2
    world.poll(other)
    zombie.log.commit(dict.fromkeys(owned, 1))
    polled = zombie.log.poll(10, 0)

    assert other.owned == {0, 1, 2, 3} and zombie.owned == owned and not zombie.heard()
    assert [record.value for record in polled.records] == [b"v"]
    assert zombie.log.lease_ends_ms() < world.clock.monotonic_ms()


def test_a_coordinator_that_is_away_expels_nobody_until_it_is_back(world: World) -> None:
    """A new one gives every member a new session; the old one counts on."""
    member = world.join()
    world.poll(member)
    coordinator = world.broker.group(GROUP.id)
    for renewed, told in ((True, []), (False, ["lost [0, 1, 2, 3]", "assigned [0, 1, 2, 3]"])):
        member.heard()
        coordinator.go_away()
        world.clock.ms += GROUP.session_timeout_ms + 1
        world.poll(member)
        coordinator.come_back(sessions_renewed=renewed)
        world.poll(member)

        assert member.heard() == told


def test_a_planned_move_is_a_rebalance_of_one_partition(world: World) -> None:
    """The others stay where they are."""
    first, second = world.join(), world.join()
    world.poll(first, second)
    partition, membership = min(first.owned), second.log._member
    assert membership is not None
    world.broker.group(GROUP.id).move(partition, membership)
    world.poll(first, second)

    assert partition in second.owned and len(first.owned) == 1


def test_a_partition_without_a_leader_takes_and_gives_nothing(world: World) -> None:
    """The others do."""
    member = world.join()
    world.poll(member)
    writer = MemoryWriter(world.broker)
    for partition in (0, 1):
        writer.append(partition, b"k", b"v").result(timeout=0)
    world.broker.refused.add(0)

    with pytest.raises(LogUnavailable):
        writer.append(0, b"k", b"v").result(timeout=0)
    with pytest.raises(LogUnavailable):
        member.log.start(0, None)
    assert [record.partition for record in member.log.poll(10, 0).records] == [1]
    world.broker.refused.clear()
    assert [record.partition for record in member.log.poll(10, 0).records] == [0]


def test_a_store_may_answer_fewer_rows_than_it_was_asked_for() -> None:
    """The page says that there are more."""
    data = MemoryStores()
    stores = open_memory_stores(data)
    rows = tuple(StoredTask(TaskKey(ms, "o", "u"), b"{}", 1) for ms in (1, 2, 3))
    stores.schedule.insert_tasks(0, rows, 1).result(timeout=0)
    data.page_limit = lambda asked: asked - 2

    first = stores.schedule.load_tasks(0, first_key_at(0), 10, 3).result(timeout=0)
    rest = stores.schedule.load_tasks(0, first.tasks[-1].key, 10, 4).result(timeout=0)

    assert (len(first.tasks), first.complete) == (1, False)
    assert (len(rest.tasks), rest.complete) == (2, True)
