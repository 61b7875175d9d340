"""P11: a task further in the past than the grace window is refused, exactly it is accepted."""

from datetime import UTC, datetime, timedelta

import pytest

from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import TaskInThePast
from hourhand.scheduler.adapters.memory.stores import open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from hourhand.scheduler.configuration.settings import ClientSettings, Settings
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import NOW, a_task
from tests.promises.group import Group


@pytest.mark.parametrize("late_ms", [-1, 0, 1, 9_999, 10_000])
def test_p11_up_to_the_window_it_is_accepted(late_ms: int) -> None:
    """To the millisecond."""
    group = Group()

    future = group.client.schedule_task(a_task(due_in_ms=-late_ms))

    assert future.result(0).offset == 0


@pytest.mark.parametrize("late_ms", [10_001, 10_002, 60_000, 86_400_000])
def test_p11_beyond_the_window_it_is_refused_and_not_sent(late_ms: int) -> None:
    """One millisecond is enough."""
    group = Group()

    error = group.client.schedule_task(a_task(due_in_ms=-late_ms)).exception(0)

    assert isinstance(error, TaskInThePast)
    assert group.broker.partitions[0].end_offset == 0


def test_p11_the_error_says_what_is_wrong_and_by_how_much() -> None:
    """Whoever reads it need not compute."""
    error = Group().client.schedule_task(a_task(due_in_ms=-12_000)).exception(0)

    assert isinstance(error, TaskInThePast)
    assert "10" in str(error) and "12" in str(error)


def test_p11_what_is_cut_below_a_millisecond_does_not_decide() -> None:
    """10 s and 999 µs is exactly the window once it is cut, as it is stored."""
    late = Task(
        ordering_id="a",
        scheduled_time=NOW - timedelta(seconds=10) + timedelta(microseconds=999),
        uniqueness_key="",
    )

    assert Group().client.schedule_task(late).exception(0) is None


def test_p11_the_zone_a_time_is_written_in_does_not_matter() -> None:
    """Only the instant does."""
    zoned = a_task(due_in_ms=-10_001).scheduled_time.astimezone()
    task = Task(ordering_id="a", scheduled_time=zoned, uniqueness_key="")

    assert isinstance(Group().client.schedule_task(task).exception(0), TaskInThePast)


def test_p11_the_beginning_of_time_is_refused_as_well() -> None:
    """Not only times one could mistake."""
    task = Task(ordering_id="a", scheduled_time=datetime(1, 1, 1, tzinfo=UTC), uniqueness_key="")

    assert isinstance(Group().client.schedule_task(task).exception(0), TaskInThePast)


@pytest.mark.parametrize(("late_ms", "refused"), [(10_000, False), (10_001, True)])
def test_p11_a_reschedule_into_the_past_is_refused_alike(late_ms: int, *, refused: bool) -> None:
    """It would make a task that cannot be scheduled."""
    group = Group()
    to = a_task(due_in_ms=-late_ms).scheduled_time

    error = group.client.reschedule_task(a_task().key, to).exception(0)

    assert isinstance(error, TaskInThePast) is refused


def test_p11_in_bulk_the_others_are_sent() -> None:
    """Each refused one is told with its error."""
    group = Group()
    refused: list[Task] = []
    tasks = [a_task(due_in_ms=-10_001 + n % 2, uniqueness_key=str(n)) for n in range(10)]

    group.client.schedule_tasks(tasks, on_rejected=lambda task, _error: refused.append(task))

    assert refused == tasks[::2]
    assert group.broker.partitions[0].end_offset == 5


def test_p11_the_node_runs_whatever_reached_the_log() -> None:
    """Other producers know no window."""
    group = Group()
    group.join()
    group.append(a_task(due_in_ms=-86_400_000))
    group.advance(1_000)

    assert group.journal.names == ["invoice-42"]


def test_p11_the_window_is_a_setting() -> None:
    """None at all means that only the future is accepted, and this very millisecond."""
    group = Group()
    ports = ClientPorts(
        writer=MemoryWriter(group.broker),
        open_stores=lambda: open_memory_stores(group.data),
        clock=group.clock,
        telemetry=RecordingTelemetry(),
    )
    client = SchedulerClient(Settings(client=ClientSettings(grace_ms=0)), ports)

    assert client.schedule_task(a_task(due_in_ms=0)).exception(0) is None
    assert isinstance(client.schedule_task(a_task(due_in_ms=-1)).exception(0), TaskInThePast)
