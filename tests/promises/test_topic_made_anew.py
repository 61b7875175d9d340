"""A topic recreated: what it accepts runs, what was stored runs once, commands reach both."""

import pytest

from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.values.log_offset import era_of
from tests.builders import NOW_MS, a_task
from tests.promises.group import Group

OLD = [a_task(due_in_ms=1_000 * number, uniqueness_key=f"old-{number}") for number in range(1, 9)]
WAITING = a_task(due_in_ms=600_000, uniqueness_key="waiting")
KEPT = a_task(due_in_ms=600_000, uniqueness_key="kept")


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("made_anew", [1, 2])
@pytest.mark.parametrize("count", [2, 20])
def test_p1_p6_p12_every_topic_of_a_name_is_read_from_its_beginning(
    running: bool, made_anew: int, count: int
) -> None:
    """Under a node or while none is there, shorter or longer than the one before, once or twice."""
    group = Group(partitions=2)
    member = group.join()
    group.settle()
    for task in (*OLD, WAITING, KEPT):
        group.append(task)
    group.advance(seconds=30)
    ran: set[str] = set()

    for turn in range(made_anew):
        if not running:
            group.stop(member)
        group.broker.make_anew()
        names = {f"new-{turn}-{number}" for number in range(count)}
        for name in sorted(names):
            due_in_ms = group.clock.now_ms() - NOW_MS + 5_000
            group.append(a_task(due_in_ms=due_in_ms, uniqueness_key=name))
        ran |= names
        if not running:
            member = group.join()
        group.advance(seconds=30)
    cancelled = group.client.cancel_task(WAITING.key).result(0)
    group.advance(seconds=5)
    outcome = group.client.outcome(cancelled)
    group.advance(seconds=700)

    assert outcome is not None and outcome.outcome is CommandOutcome.APPLIED
    assert group.result_of(WAITING) is CompletionResult.CANCELLED
    assert sorted(group.journal.names) == sorted(
        {*(each.uniqueness_key for each in OLD), KEPT.uniqueness_key, *ran}
    )
    eras = {era_of(claim.watermark.next_offset) for claim in group.data.claims.values()}
    assert eras == {made_anew}
