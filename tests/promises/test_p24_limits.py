"""P24: in the whole cluster no more attempts start, and run at once, than a limit lets through."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from hourhand.actors.model.flow.flow import FlowRule, FlowRules, Limit
from tests.builders import NOW_MS, a_task
from tests.promises.faults import the_nth
from tests.promises.group import Group

MINUTE_MS = 60_000


def _group(*limits: Limit, partitions: int = 8) -> Group:
    rules = FlowRules({"mail": FlowRule(limits)})
    return Group(partitions=partitions, step_ms=50, rules=rules)


def _append(group: Group, count: int, tenant: str = "acme", due_in_ms: int = MINUTE_MS) -> None:
    for number in range(count):
        group.append(
            a_task(
                due_in_ms=due_in_ms,
                ordering_id=f"{tenant}-{number}",
                uniqueness_key=f"{tenant}-{due_in_ms}-{number}",
                data={"tenant": tenant},
                kind="mail",
            )
        )


def _most(starts_ms: Sequence[float], within_ms: float) -> int:
    """Return how many start within any such time, at most."""
    return max(
        sum(first_ms <= each <= first_ms + within_ms for each in starts_ms)
        for first_ms in starts_ms
    )


def test_p24_a_rate_is_kept_by_nodes_that_come_and_die() -> None:
    """Three of them, of which one dies and another one comes, while a backlog is due."""
    limit = Limit(rate=20, burst=6, key="tenant")
    group = _group(limit)
    first = group.join()
    _append(group, 600)
    _append(group, 100, "other")
    group.advance(seconds=50)
    group.join()
    group.join()
    group.advance(seconds=15)
    group.kill(first)
    group.advance(seconds=5)
    group.join()
    group.advance(minutes=2)

    starts_ms = [each.at_ms for each in group.journal.ran if each.ordering_id.startswith("acme")]
    assert len(starts_ms) == 600 and len(group.journal.ran) == 700
    for within_s in (0, 1, 5, 20):
        assert _most(starts_ms, 1_000 * within_s) <= 20 * within_s + 6 + 3
    # And none of it rots where each node has work: only the dead one's share, until it is gone.
    assert starts_ms[-1] - starts_ms[0] < 45_000


def test_p24_a_node_that_stood_by_does_not_start_a_burst() -> None:
    """Without partitions it gathered nothing, whatever it held before."""
    group = _group(Limit(rate=2, burst=10), partitions=1)
    first = group.join()
    heir = group.join()
    _append(group, 60)
    group.advance(minutes=1)
    began_ms = group.clock.now_ms()
    group.stop(first if first.virtual.node.partitions else heir)
    group.advance(seconds=20)

    starts_ms = [each.at_ms for each in group.journal.ran]
    later_ms = [each for each in starts_ms if each > began_ms]
    assert len(later_ms) >= 30
    assert _most(later_ms, 0) == 1 and _most(starts_ms, 5_000) <= 10 + 10


def test_p24_a_task_that_changed_while_it_waited_counts_by_its_new_data() -> None:
    """It begins with the record that came last, and takes the allowance of its new value."""
    group = _group(Limit(rate=1, per=timedelta(minutes=5), burst=1, key="tenant"), partitions=1)
    group.join()
    _append(group, 3)
    group.advance(minutes=2)
    waiting = [n for n in range(3) if f"acme-{n}" not in {e.ordering_id for e in group.journal.ran}]
    changed = a_task(
        due_in_ms=MINUTE_MS,
        ordering_id=f"acme-{waiting[0]}",
        uniqueness_key=f"acme-{MINUTE_MS}-{waiting[0]}",
        data={"tenant": "other"},
        kind="mail",
    )
    group.append(changed)
    group.advance(seconds=5)

    assert [each.data for each in group.journal.ran] == [{"tenant": "acme"}, {"tenant": "other"}]
    group.advance(minutes=5)
    assert len(group.journal.ran) == 3


@pytest.mark.parametrize("write", ["insert_attempts", "insert_completions"])
def test_p24_a_tree_that_fails_takes_no_allowance_with_it(write: str) -> None:
    """What it had begun to write down, or waited for, gives back what it held."""
    group = _group(Limit(concurrency=1), Limit(rate=1, burst=1), partitions=1)
    first = group.join()
    _append(group, 10)
    group.settle()
    group.kill(first)
    group.advance(minutes=2)
    heir = group.join()
    heir.faults.fails = the_nth(2, write)
    group.advance(seconds=30)

    assert len({each.name for each in group.journal.ran}) == 10
    assert _most([each.at_ms for each in group.journal.ran], 900) == 1
    assert group.journal.ran[0].at_ms >= NOW_MS + 2 * MINUTE_MS
