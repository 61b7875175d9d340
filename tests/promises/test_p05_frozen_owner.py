"""P5: what a node heard of an end behind the end of its lease closes no task of the next owner."""

import pytest

from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.status import CompletionResult
from hourhand.scheduler.adapters.memory.stores import open_memory_stores
from hourhand.scheduler.configuration.settings import GroupSettings
from tests.builders import NOW_MS, a_task
from tests.promises.group import Group, Member

LEASED = GroupSettings()
SESSION_MS = LEASED.session_timeout_ms
TASK = a_task(due_in_ms=1_000)


def _frozen_at_work(group: Group) -> Member:
    """Return a node that runs an attempt and stands still: it takes no turn any more."""
    owner = group.join(held=True)
    group.settle()
    group.append(TASK)
    group.advance(3_000)
    assert owner.runner.begin() == 1
    group.members.remove(owner)
    return owner


def _wake(group: Group, owner: Member) -> None:
    """Let its tree hear of all there is, before its next poll tells that it was replaced."""
    while owner.virtual.system.run_one():
        pass
    stores = open_memory_stores(group.data)
    after, up_to = first_key_at(NOW_MS), first_key_at(NOW_MS + 3_600_000)
    assert group.result_of(TASK) is None
    written = stores.status.load_attempts(0, after, up_to).result(0)
    assert all(each.fence != owner.runner.begun[0].epoch for each in written)
    group.members.append(owner)


@pytest.mark.parametrize("outcome", [None, ValueError("too late")])
def test_p5_an_end_that_a_replaced_owner_hears_is_not_written(outcome: object) -> None:
    """The next owner has loaded the task and runs it: nobody sees it closed before."""
    group = Group(group=LEASED)
    owner = _frozen_at_work(group)
    heir = group.join(held=True)
    group.advance(2 * SESSION_MS)
    assert heir.runner.begin() == 1

    owner.runner.end(outcome)
    _wake(group, owner)
    group.advance(5_000)

    assert group.result_of(TASK) is None
    heir.runner.end()
    group.advance(5_000)
    assert group.result_of(TASK) is CompletionResult.SUCCESS
    assert owner.runner.begin() == heir.runner.begin() == 0


def test_p5_an_end_counts_once_the_lease_is_renewed() -> None:
    """Nobody came between, so the task is done, and does not run again."""
    group = Group(group=LEASED)
    owner = _frozen_at_work(group)
    group.advance(SESSION_MS - LEASED.lease_margin_ms + 10)

    owner.runner.end()
    _wake(group, owner)
    group.advance(5_000)

    assert group.result_of(TASK) is CompletionResult.SUCCESS
    assert len(owner.runner.begun) == 1


def test_p14_an_end_behind_the_lease_is_written_while_a_node_stops() -> None:
    """A drain has a deadline of its own, within which nobody else begins."""
    group = Group(group=LEASED)
    owner = _frozen_at_work(group)
    group.advance(SESSION_MS - LEASED.lease_margin_ms + 10)
    owner.runner.end()
    _wake(group, owner)

    owner.virtual.node.request_stop()
    while owner.virtual.system.run_one():
        pass

    assert group.result_of(TASK) is CompletionResult.SUCCESS
