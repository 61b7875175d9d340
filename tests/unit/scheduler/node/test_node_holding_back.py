"""Partitions whose tree wants no more for now, and a node that reads the others."""

from hourhand.actors.messages import (
    PartitionsHeld,
    PersistRecords,
    RecordsPersisted,
    TasksPersisted,
)
from hourhand.actors.model.values.errors import LogUnavailable
from tests.unit.scheduler.node.node_bench import PAUSE_MS, PERSIST_MS, Bench


def _hold(bench: Bench, *partitions: int) -> None:
    bench.node.tell(PartitionsHeld(frozenset(partitions), bench.node._root))


def test_p7_nothing_is_read_of_a_held_partition_until_it_is_released() -> None:
    """It is told once, and read again from where delivery was interrupted."""
    bench = Bench()
    bench.assign(0, 1)
    batch = bench.poll(0, 0, 1)

    _hold(bench, 0)
    bench.step(3)
    held = list(bench.log.sought)
    bench.node.tell(RecordsPersisted(batch, frozenset({0})))
    other = bench.poll(1, 0)
    bench.persisted(other)
    committed = bench.committed()
    bench.node.tell(TasksPersisted(batch, 0))
    _hold(bench)
    bench.step(3)

    assert held == [(0, None)]
    assert committed == {0: 0, 1: 1}
    assert bench.log.sought == [(0, None), (0, 2)]
    assert bench.committed() == {0: 2, 1: 1}


def test_p7_a_batch_answered_without_its_held_share_gives_its_room_back() -> None:
    """And no deadline runs for it."""
    bench = Bench()
    bench.assign(0, 1)
    batch = bench.poll(0, 0)
    polled_bytes = bench.node.memory.polled_bytes
    _hold(bench, 0)
    bench.node.tell(RecordsPersisted(batch, frozenset({0})))
    assert (polled_bytes > 0, bench.node.memory.polled_bytes) == (True, 0)
    bench.persisted(*(each.batch for each in bench.told(PersistRecords) if each.batch != batch))

    bench.clock.advance(PERSIST_MS + 1)
    bench.step()
    later = bench.poll(1, 0)
    bench.persisted(later)

    assert len(bench.system.roots) == 1
    assert bench.committed() == {0: 0, 1: 1}


def test_p9_what_comes_behind_a_held_share_is_not_committed_before_it() -> None:
    """It was polled before the partition was held."""
    bench = Bench()
    bench.assign(0)
    first, second = bench.poll(0, 0), bench.poll(0, 1)
    _hold(bench, 0)
    bench.node.tell(RecordsPersisted(first, frozenset({0})))
    bench.persisted(second)
    early = bench.committed()

    bench.node.tell(TasksPersisted(first, 0))

    assert early == {0: 0} and bench.committed() == {0: 2}


def test_p16_a_new_tree_holds_nothing() -> None:
    """The old one's word counts no more, and the partition is sought where it is durable."""
    bench = Bench()
    bench.assign(0)
    bench.poll(0, 0)
    old = bench.node._root
    _hold(bench, 0)
    bench.step()
    bench.fail(OSError("a bug"))
    bench.clock.advance(PAUSE_MS)
    bench.step(3)
    bench.node.tell(PartitionsHeld(frozenset({0}), old))
    bench.step(3)

    assert bench.log.sought == [(0, None), (0, 0)]
    bench.poll(0, 0)
    assert bench.told(PersistRecords)


def test_a_log_that_refuses_is_told_again_in_the_next_round() -> None:
    """Its refusal ends nothing."""
    bench = Bench()
    bench.assign(0)
    bench.log.seek_error = LogUnavailable("not now")
    _hold(bench, 0)
    bench.step(2)
    early = list(bench.log.sought)
    bench.log.seek_error = None
    bench.step(2)

    assert not early and bench.log.sought == [(0, None)]


def test_p9_a_hold_skips_nothing_that_a_new_tree_is_to_be_given_again() -> None:
    """The old tree had been given two records; the new one none of them yet."""
    bench = Bench()
    bench.assign(0)
    bench.poll(0, 0, 1)
    bench.fail(OSError("a bug"))
    bench.clock.advance(PAUSE_MS)
    bench.step(3)

    _hold(bench, 0)
    bench.step()
    _hold(bench)
    bench.step()

    assert bench.log.sought == [(0, 0), (0, None), (0, 0)]
