"""An operator's change of a limit holds on every node, over restarts, and loses nothing."""

from datetime import timedelta

from hourhand.actors.model.flow.flow import FlowRule, FlowRules, Limit
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.events import LimitChanged
from hourhand.actors.model.operations.operator_config import OperatorConfig
from tests.builders import a_task
from tests.promises.faults import every
from tests.promises.group import Group

HOURLY = FlowRules({None: FlowRule((Limit(rate=1, per=timedelta(hours=1), burst=1),))})


def put(group: Group, *changes: LimitChange) -> None:
    """Have just these changes."""
    group.data.config = OperatorConfig(group.data.config.version + 1, (), changes)


def append(group: Group, count: int) -> None:
    """Append tasks that are due at once, each of an id of its own."""
    for number in range(count):
        group.append(a_task(due_in_ms=1_000, ordering_id=f"id-{number}"))


def ran(group: Group) -> int:
    """Return how many tasks ran."""
    return len(group.journal.ran)


def test_a_change_holds_on_every_node_within_a_second_and_is_told() -> None:
    """Each lets its share through, and a reset is as good as a change."""
    group = Group(partitions=4, rules=HOURLY)
    members = [group.join(), group.join()]
    group.advance(5_000)
    append(group, 400)
    group.advance(5_000)
    before = ran(group)

    put(group, LimitChange("#1", rate=100, per_ms=1_000, burst=100))
    group.advance(1_000)
    told = [e for m in members for e in m.telemetry.events if isinstance(e, LimitChanged)]
    group.advance(10_000)
    assert before <= 4 and ran(group) == 400
    assert [each.after for each in told] == ["100 per 1 s, burst 100"] * 2

    put(group)
    group.advance(1_000)
    assert sum(member.count(LimitChanged) for member in members) == 4
    append(group, 50)
    group.advance(60_000)
    assert ran(group) <= 400 + 4


def test_a_change_outlives_a_restart() -> None:
    """A node takes no partition before it knows the operator config, however late that is."""
    group = Group(rules=FlowRules({None: FlowRule((Limit(rate=1_000, burst=1_000),))}))
    first = group.join()
    put(group, LimitChange("#1", rate=1, per_ms=3_600_000, burst=1))
    group.advance(1_000)
    group.stop(first)
    append(group, 20)
    heir = group.join()
    heir.faults.keeps = every("read_config")
    group.advance(60_000)
    assert ran(group) == 0
    heir.faults.release()
    group.advance(60_000)

    assert ran(group) == 1


def test_a_change_stays_while_the_store_is_silent() -> None:
    """And over a failed tree, as a pause does."""
    group = Group(rules=HOURLY)
    member = group.join()
    put(group, LimitChange("#1", rate=10, per_ms=1_000))
    group.advance(1_000)
    member.faults.keeps = every("read_config")
    put(group)
    append(group, 20)
    group.advance(10_000)

    assert ran(group) == 20
