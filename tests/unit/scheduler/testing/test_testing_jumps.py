"""The kit's clock jumps: what a long rest costs does not grow with its length."""

from datetime import timedelta

import pytest

from hourhand import Hourhand, Limit, Retry, Task
from hourhand.actors.kernel.simulated import SimulatedSystem
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.settings import TreeSettings, WatermarkSettings, WindowSettings
from hourhand.scheduler.testing import VirtualScheduler
from tests.unit.scheduler.testing.testing_bench import NOON, Noting, a_task

YEAR = timedelta(days=366)
MESSAGES_A_PARTITION = 300
"""An advance of the watermark takes eight.  A year without tasks takes fourteen of them, and as
many again when the retention of failed work is over."""


class Delivered:
    """Counts the messages that actors of simulated systems receive."""

    def __init__(self) -> None:
        self.count = 0

    def taken(self) -> int:
        """Return how many there were since the last call."""
        count, self.count = self.count, 0
        return count


@pytest.fixture
def delivered(monkeypatch: pytest.MonkeyPatch) -> Delivered:
    """Count what is delivered from here on."""
    counted, run_one = Delivered(), SimulatedSystem.run_one

    def count(system: SimulatedSystem) -> bool:
        worked = run_one(system)
        counted.count += worked
        return worked

    monkeypatch.setattr(SimulatedSystem, "run_one", count)
    return counted


@pytest.mark.parametrize("partitions", [1, 4, 30])
def test_a_year_for_one_task_is_a_few_messages(partitions: int, delivered: Delivered) -> None:
    """And the task runs at its time."""
    scheduler = VirtualScheduler(Noting, now=NOON, partitions=partitions)
    scheduler.schedule_task(a_task(due_in=YEAR - timedelta(hours=12)))
    delivered.taken()

    [ran] = scheduler.advance(YEAR)

    assert ran.at == NOON + YEAR - timedelta(hours=12)
    assert delivered.taken() < partitions * MESSAGES_A_PARTITION


@pytest.mark.parametrize("partitions", [1, 4, 30])
def test_a_drain_of_a_year_is_a_few_messages(partitions: int, delivered: Delivered) -> None:
    """It ends at the task's time, not at its own."""
    scheduler = VirtualScheduler(Noting, now=NOON, partitions=partitions)
    scheduler.schedule_task(a_task(due_in=YEAR))
    delivered.taken()

    [ran] = scheduler.drain(timedelta(days=400))

    assert ran.at == scheduler.now == NOON + YEAR
    assert delivered.taken() < partitions * MESSAGES_A_PARTITION


def test_a_thousand_years_cost_hardly_more_than_one(delivered: Delivered) -> None:
    """Only what doubles grows."""
    scheduler = VirtualScheduler(Noting, now=NOON)
    scheduler.schedule_task(a_task(due_in=timedelta(days=365_000)))
    delivered.taken()

    ran = scheduler.advance(days=366_000)

    assert len(ran) == 1
    assert delivered.taken() < 2 * 4 * MESSAGES_A_PARTITION


def test_a_drain_that_cannot_end_says_so_after_a_few_messages(delivered: Delivered) -> None:
    """A task without an executor waits for one."""
    scheduler = VirtualScheduler(executors=Hourhand(), now=NOON)
    scheduler.schedule_task(a_task(name="held"))
    scheduler.run_due()
    delivered.taken()

    with pytest.raises(AssertionError, match=r"still open after 366 days.*held"):
        scheduler.drain()

    assert delivered.taken() < 4 * MESSAGES_A_PARTITION


@pytest.mark.parametrize(
    "tree",
    [
        TreeSettings(),
        TreeSettings(window=WindowSettings(tasks_max=10, look_ahead_ms=1_000, clock_check_ms=1)),
        TreeSettings(window=WindowSettings(memory_bytes_max=1_048_576)),
        TreeSettings(watermark=WatermarkSettings(interval_ms=1)),
    ],
    ids=["as-a-node", "small-window", "small-memory", "busy-watermark"],
)
def test_a_year_is_short_under_settings_of_any_node(
    tree: TreeSettings, delivered: Delivered
) -> None:
    """How often a node looks costs a test nothing, and all that is due runs."""
    scheduler = VirtualScheduler(Noting, tree=tree, now=NOON, partitions=1)
    for week in range(50):
        due_in = timedelta(weeks=week + 1)
        scheduler.schedule_task(a_task(due_in=due_in, name=str(week), blob="x" * 50_000))
    delivered.taken()

    ran = scheduler.advance(YEAR)

    assert [each.at for each in ran] == [NOON + timedelta(weeks=week + 1) for week in range(50)]
    assert delivered.taken() < 51 * MESSAGES_A_PARTITION


def test_what_waits_waits_on_the_way(delivered: Delivered) -> None:
    """Pauses of days are steps of their own, of limits as of retries."""
    app, ran = Hourhand(), []

    @app.task("slow", limits=Limit(rate=1, per=timedelta(days=10)))
    def slow(data: dict[str, int]) -> None:
        ran.append(scheduler.now)

    @app.task("waiting")
    def waiting(data: dict[str, int]) -> Retry | None:
        ran.append(scheduler.now)
        return Retry(after=timedelta(days=100)) if len(ran) == 1 else None

    scheduler = VirtualScheduler(executors=app, now=NOON)
    scheduler.schedule_task(
        Task(ordering_id="s", scheduled_time=NOON, uniqueness_key="s", kind="waiting")
    ).result()
    scheduler.advance(days=99)
    waited = list(ran)
    delivered.taken()
    for number in range(3):
        due, name = NOON + timedelta(days=200), str(number)
        task = Task(ordering_id=name, scheduled_time=due, uniqueness_key="l", kind="slow")
        scheduler.schedule_task(task).result()
    scheduler.advance(YEAR)

    assert waited == [NOON]
    days = [round((each - NOON) / timedelta(days=1)) for each in ran]
    assert days == [0, 100, 200, 210, 220]
    assert delivered.taken() < 10 * 4 * MESSAGES_A_PARTITION


def test_what_is_done_is_forgotten_behind_a_jump() -> None:
    """Its row and its completion: not before its retention is over, and then for good."""
    scheduler = VirtualScheduler(Noting, now=NOON)
    task = a_task(due_in=timedelta(hours=1))
    scheduler.schedule_task(task)
    scheduler.advance(hours=2)

    scheduler.advance(days=13)
    kept = scheduler.result_of(task.key)
    scheduler.advance(days=60)

    assert kept is CompletionResult.SUCCESS
    assert scheduler.result_of(task.key) is None
    rows = scheduler.stores.schedule.find_tasks
    assert not any(rows(partition, (task.key,)).result() for partition in range(4))


def test_what_was_done_before_a_jump_stays_done_after_a_crash() -> None:
    """Each runs once, and what is open runs at its time (P5, P8)."""
    scheduler = VirtualScheduler(Noting, now=NOON)
    for number, days in enumerate((1, 200, 300)):
        scheduler.schedule_task(a_task(due_in=timedelta(days=days), name=str(number)))

    early = scheduler.advance(days=250)
    scheduler.crash()
    late = scheduler.advance(days=100)

    assert [each.key.uniqueness_key for each in early] == ["0", "1"]
    assert [(each.key.uniqueness_key, each.at) for each in late] == [
        ("2", NOON + timedelta(days=300))
    ]
