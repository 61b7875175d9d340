"""P8: whatever is not closed is loaded after any restart, however old it is."""

import pytest

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.settings import WatermarkSettings, WindowSettings
from tests.builders import a_task
from tests.promises.faults import every
from tests.promises.group import QUIET, Group, Member

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FEW = QUIET.model_copy(
    update={"watermark": WatermarkSettings(interval_ms=600_000, stragglers_max=3)}
)
"""Few stragglers, so that they overflow."""


def _quiet_group() -> Group:
    return Group(tree=FEW, step_ms=HOUR_MS)


def _fail(task: Task, _attempt: int) -> None:
    if task.ordering_id.startswith("blocked"):
        raise ValueError("this id is blocked")


@pytest.mark.parametrize("age_ms", [60_001, HOUR_MS, DAY_MS, 400 * DAY_MS, 10_000 * DAY_MS])
def test_p8_an_old_task_runs_although_the_node_dies_once_it_was_committed(age_ms: int) -> None:
    """It lies before the watermark, which is lowered before the offset is committed."""
    group = _quiet_group()
    member = group.join()
    group.advance(3 * HOUR_MS)
    group.journal.says = lambda _task, _attempt: pytest.fail("it was to be killed before")
    member.virtual.lease.withdraw((0,))
    group.append(a_task(due_in_ms=-age_ms, uniqueness_key="old"))
    group.advance(2_000)
    committed = group.committed()
    group.journal.says = lambda _task, _attempt: None

    group.replace(member)
    group.advance(60_000)

    assert committed == 1
    assert group.journal.names == ["old"]


def test_p8_an_old_task_is_not_committed_before_the_lower_watermark_is_durable() -> None:
    """Killed in between, it is delivered again."""
    group = _quiet_group()
    member = group.join()
    group.advance(3 * HOUR_MS)
    member.faults.keeps = every("save_watermark")
    group.append(a_task(due_in_ms=-DAY_MS, uniqueness_key="old"))
    group.advance(2_000)
    committed = group.committed()

    group.replace(member)
    group.advance(60_000)

    assert committed == 0
    assert group.journal.names == ["old"]


def _block(group: Group, ids: int) -> Member:
    """Have some ids blocked, each with a task behind the first, and others run every day."""
    group.journal.retry = RetryPolicy(attempts_max=1, on_exhausted="block")
    group.journal.says = _fail
    for number in range(ids):
        for name in ("first", "second"):
            due_in_ms = (number + 1) * HOUR_MS + (name == "second") * 5 * HOUR_MS
            ordering_id = f"blocked-{number}"
            group.append(a_task(due_in_ms=due_in_ms, ordering_id=ordering_id, uniqueness_key=name))
    for day in range(4):
        group.append(a_task(due_in_ms=day * DAY_MS, ordering_id="healthy", uniqueness_key=str(day)))
    return group.join()


@pytest.mark.parametrize("ids", [1, 3, 8])
def test_p8_what_was_blocked_for_days_across_restarts_still_runs(ids: int) -> None:
    """Few enough to be listed as stragglers, or too many, so that the watermark waits."""
    group = _quiet_group()
    member = _block(group, ids)
    for _ in range(4):
        group.advance(DAY_MS)
        member = group.replace(member)
    blocked = {ran.name for ran in group.journal.ran if ran.ordering_id != "healthy"}

    group.journal.says = lambda _task, _attempt: None
    for number in range(ids):
        key = a_task(
            due_in_ms=(number + 1) * HOUR_MS,
            ordering_id=f"blocked-{number}",
            uniqueness_key="first",
        ).key
        group.client.retry_task(key).result(0)
    group.advance(HOUR_MS)

    names = [ran.name for ran in group.journal.ran if ran.ordering_id == "healthy"]
    assert names == ["0", "1", "2", "3"]
    assert blocked == {"first"}
    for number in range(ids):
        ran = [each.name for each in group.journal.ran if each.ordering_id == f"blocked-{number}"]
        assert ran[-2:] == ["first", "second"]


def test_p8_the_watermark_passes_a_few_blocked_ids_and_no_more() -> None:
    """What it passed is listed, so a restart reads it."""
    group = _quiet_group()
    _block(group, 2)
    group.advance(2 * DAY_MS)
    mark = group.data.claims[0].watermark

    assert mark.watermark_ms > a_task(due_in_ms=DAY_MS).key.scheduled_ms
    assert [straggler.ordering_id for straggler in mark.stragglers] == ["blocked-0", "blocked-1"]


def test_p8_rows_of_a_blocked_id_are_not_deleted_with_their_hour() -> None:
    """Only hours in which everything is closed go."""
    group = _quiet_group()
    _block(group, 2)
    group.advance(3 * DAY_MS)

    kept = {row.key.ordering_id for row in group.data.tasks.before(0, _first(), _LAST_MS)}
    assert {"blocked-0", "blocked-1"} <= kept


_LAST_MS = 10**14


def _first() -> TaskKey:
    return a_task(due_in_ms=-DAY_MS).key


@pytest.mark.parametrize("days", [1, 30])
def test_p8_overdue_tasks_of_a_long_outage_all_run(days: int) -> None:
    """Nothing lived meanwhile, and the backlog is larger than a page."""
    group = Group(
        tree=FEW.model_copy(
            update={"window": WindowSettings(page_tasks=50, tasks_max=100, tick_ms=1_000)}
        ),
        step_ms=HOUR_MS,
    )
    member = group.join()
    for number in range(500):
        group.append(
            a_task(
                due_in_ms=HOUR_MS + number * 60_000,
                ordering_id=f"id-{number % 50}",
                uniqueness_key=str(number),
            )
        )
    group.settle()
    group.kill(member)
    group.advance(days * DAY_MS)
    group.join()
    group.advance(HOUR_MS)

    assert len(group.journal.names) == 500
    assert set(group.journal.names) == {str(number) for number in range(500)}
