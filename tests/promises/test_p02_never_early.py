"""P2: no attempt starts before its time by the wall clock of the node that starts it."""

from datetime import timedelta

import pytest

from hourhand.actors.model.execution.outcome import Retry
from hourhand.actors.model.operations.events import AttemptRefused
from hourhand.actors.model.task.task import Task
from tests.builders import NOW_MS, a_task
from tests.promises.group import Group


def _fail(_task: Task, _attempt: int) -> None:
    raise ValueError("not this time")


@pytest.mark.parametrize("due_in_ms", [0, 1, 999, 1_000, 60_000, 3_600_000])
def test_p2_a_task_runs_at_its_time_and_not_a_millisecond_before(due_in_ms: int) -> None:
    """Whatever the distance, the moment is exact under a clock that stands still."""
    group = Group(step_ms=3_600_000)
    group.join()
    group.client.schedule_task(a_task(due_in_ms=due_in_ms)).result(0)

    if due_in_ms:
        group.advance(due_in_ms - 1)
        assert group.journal.ran == []
    group.advance(due_in_ms and 1)

    assert [ran.at_ms for ran in group.journal.ran] == [NOW_MS + due_in_ms]


def test_p2_a_clock_set_back_between_dispatch_and_start_is_noticed() -> None:
    """The gate asks the wall clock again as the last thing before user code."""
    group = Group()
    member = group.join(held=True)
    group.client.schedule_task(a_task(due_in_ms=10_000)).result(0)
    group.advance(10_000)
    assert len(member.runner.queued) == 1

    group.clock.step_wall(-5_000)
    begun_early = member.runner.begin()
    group.advance(4_999)
    begun_early += member.runner.begin()
    group.advance(1_001)

    assert begun_early == 0
    assert member.count(AttemptRefused) > 0
    assert member.runner.begin() == 1


def test_p2_a_clock_set_back_while_it_waits_puts_it_off() -> None:
    """Sleeping until a wall time is bounded, and looked at again on waking."""
    group = Group()
    group.join()
    group.client.schedule_task(a_task(due_in_ms=10_000)).result(0)
    group.advance(9_000)
    group.clock.step_wall(-60_000)

    group.advance(60_999)
    early = list(group.journal.ran)
    group.advance(2)

    assert early == []
    assert group.journal.names == ["invoice-42"]
    assert group.journal.ran[0].at_ms >= NOW_MS + 10_000


def test_p2_a_clock_set_forward_is_noticed_within_its_check() -> None:
    """Not early, and not an hour late either."""
    group = Group()
    group.join()
    group.client.schedule_task(a_task(due_in_ms=240_000)).result(0)
    group.advance(1_000)

    group.clock.step_wall(240_000)
    group.advance(1_001)

    assert group.journal.names == ["invoice-42"]


@pytest.mark.parametrize("days", [0.01, 1 / 24, 1, 366])
def test_p2_a_clock_set_forward_over_the_window_delays_nothing(days: float) -> None:
    """Neither what was stored for the time that was passed over, nor what comes afterwards."""
    group = Group()
    group.join()
    step_ms = round(days * 86_400_000)
    stored = a_task(due_in_ms=step_ms, uniqueness_key="stored")
    group.client.schedule_task(stored).result(0)
    group.advance(5_000)

    group.clock.step_wall(step_ms)
    new = a_task(due_in_ms=step_ms + 7_500, ordering_id="other", uniqueness_key="new")
    group.client.schedule_task(new).result(0)
    group.advance(1_001)
    first = list(group.journal.names)
    group.advance(2_000)

    assert (first, group.journal.names) == (["stored"], ["stored", "new"])


@pytest.mark.parametrize("days", [1 / 24, 1, 366])
def test_p2_a_clock_set_forward_and_back_delays_nothing(days: float) -> None:
    """What was loaded for the far future is still there, and what comes is due by the new clock."""
    group = Group()
    group.join()
    step_ms = round(days * 86_400_000)
    for sign in (1, -1, 1, -1):
        group.clock.step_wall(sign * step_ms)
        group.advance(2_000)
    task = a_task(due_in_ms=9_000)
    group.client.schedule_task(task).result(0)
    group.advance(2_000)

    assert group.journal.names == ["invoice-42"]


def test_p2_a_clock_set_forward_delays_a_waiting_attempt_by_a_minute_at_most() -> None:
    """Its time is one of the wall clock too; thousands may wait, so they look less often."""
    group = Group()
    group.join()
    group.journal.says = lambda _task, attempt: (
        Retry(after=timedelta(days=3)) if attempt == 1 else None
    )
    group.client.schedule_task(a_task(due_in_ms=0)).result(0)
    group.advance(5_000)
    group.clock.step_wall(3 * 86_400_000)

    group.advance(60_000)

    assert [ran.attempt for ran in group.journal.ran] == [1, 2]


@pytest.mark.parametrize("restarts", [False, True])
def test_p2_a_clock_that_was_far_ahead_delays_a_retry_by_its_own_wait_at_most(
    restarts: bool,
) -> None:
    """Its time was chosen by that clock, and is durable; how long the wait was to be is, too."""
    group = Group()
    member = group.join()
    group.journal.says = _fail
    group.client.schedule_task(a_task(due_in_ms=0)).result(0)
    group.clock.step_wall(40 * 86_400_000)
    group.advance(5_000)
    group.clock.step_wall(-40 * 86_400_000)
    if restarts:
        group.replace(member)

    group.advance(12_000)

    assert [ran.attempt for ran in group.journal.ran] == [1, 2]


def test_p2_a_retry_is_not_early_either() -> None:
    """The next attempt's time is as binding as the first's."""
    group = Group()
    group.join()
    group.journal.says = _fail
    group.client.schedule_task(a_task(due_in_ms=1_000)).result(0)

    group.advance(60_000)

    assert [ran.at_ms - NOW_MS for ran in group.journal.ran] == [1_000, 11_000, 21_000]


def test_p2_a_new_node_whose_clock_is_behind_waits() -> None:
    """A task that is due elsewhere is not due here."""
    group = Group()
    group.client.schedule_task(a_task(due_in_ms=1_000)).result(0)
    group.advance(2_000)
    group.clock.step_wall(-30_000)

    group.join()
    group.advance(28_900)
    early = list(group.journal.ran)
    group.advance(200)

    assert early == []
    assert group.journal.names == ["invoice-42"]
