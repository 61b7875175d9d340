"""P13: a node's memory depends on its windows and limits, not on the backlog."""

import pytest
from pydantic import JsonValue

from hourhand.actors.model.operations.events import PartitionLoadReported
from hourhand.actors.model.values.settings import TreeSettings, WindowSettings
from tests.builders import a_task
from tests.promises.group import Group, Member

WINDOW = WindowSettings(
    tasks_max=500, executing_tasks_max=100, page_tasks=100, ordering_queue_tasks_max=10
)
BUDGET_BYTES = 4_000_000
BUDGET = WindowSettings(memory_bytes_max=BUDGET_BYTES)
BATCH_MAX = 20_000
"""Records a node delivers to its tree before it waits."""


def _most_in_memory(member: Member) -> int:
    loads = [each for each in member.telemetry.events if isinstance(each, PartitionLoadReported)]
    return max(each.waiting + each.executing for each in loads)


@pytest.mark.parametrize("ids", [1, 20, 4_000])
def test_p13_a_backlog_all_due_at_once_stays_in_the_store(ids: int) -> None:
    """Thousands of tasks stored before the node came, of one ordering id or of many."""
    group = Group(tree=TreeSettings(window=WINDOW))
    first = group.join()
    for number in range(4_000):
        group.append(
            a_task(
                due_in_ms=3_600_000, ordering_id=f"id-{number % ids}", uniqueness_key=f"{number:05}"
            )
        )
    group.advance(2_000)
    group.kill(first)
    group.advance(3_600_000)

    heir = group.join()
    group.advance(120_000)

    assert len(set(group.journal.names)) == len(group.journal.names) == 4_000
    assert _most_in_memory(heir) <= WINDOW.tasks_max


def test_p13_fifty_thousand_tasks_due_at_once_leave_memory_as_it_is() -> None:
    """They come through the log, and user code ends for none of them."""
    group = Group(tree=TreeSettings(window=WINDOW))
    member = group.join(held=True)
    group.settle()
    for number in range(50_000):
        group.append(
            a_task(due_in_ms=0, ordering_id=f"id-{number % 1000}", uniqueness_key=str(number))
        )
    group.advance(5_000)

    loads = [each for each in member.telemetry.events if isinstance(each, PartitionLoadReported)]
    assert group.committed() == 50_000
    assert loads[-1].waiting + loads[-1].executing <= WINDOW.tasks_max
    # Above the window lies only what one batch after another brings before it shrinks again.
    assert _most_in_memory(member) <= WINDOW.tasks_max + BATCH_MAX


def test_p13_ten_thousand_tasks_due_now_pass_through_a_small_window() -> None:
    """What did not fit comes back from the store; all of them run, once."""
    group = Group(tree=TreeSettings(window=WINDOW))
    group.join()
    group.settle()
    for number in range(10_000):
        group.append(
            a_task(due_in_ms=0, ordering_id=f"id-{number % 1000}", uniqueness_key=str(number))
        )
    group.advance(60_000)

    assert len(set(group.journal.names)) == len(group.journal.names) == 10_000


def test_p13_a_full_window_stays_full_and_no_fuller_while_nothing_can_run() -> None:
    """User code hangs, and records go on arriving for an hour."""
    group = Group(tree=TreeSettings(window=WINDOW))
    member = group.join(held=True)
    for minute in range(60):
        for number in range(100):
            ordering_id = f"id-{minute}-{number}"
            group.append(a_task(due_in_ms=60_000, ordering_id=ordering_id, uniqueness_key="x"))
        group.advance(60_000)
        member.runner.begin()

    loads = [each for each in member.telemetry.events if isinstance(each, PartitionLoadReported)]
    assert loads[-1].waiting + loads[-1].executing <= WINDOW.tasks_max
    assert _most_in_memory(member) <= WINDOW.tasks_max + 100
    assert len(member.runner.begun) <= WINDOW.executing_tasks_max


def _share_bytes(group: Group) -> float:
    return BUDGET_BYTES / 2 / len(group.broker.partitions)


@pytest.mark.parametrize("size_bytes", [20_000, 200_000])
@pytest.mark.parametrize("ids", [1, 20, 400])
def test_p13_large_tasks_keep_to_a_budget_of_bytes(ids: int, size_bytes: int) -> None:
    """Each partition holds its share, or one task; all of them run, once."""
    group = Group(tree=TreeSettings(window=BUDGET))
    first = group.join()
    for number in range(400):
        ordering_id, key = f"id-{number % ids}", f"{number:05}"
        data: dict[str, JsonValue] = {"text": "x" * size_bytes}
        group.append(
            a_task(due_in_ms=3_600_000, ordering_id=ordering_id, uniqueness_key=key, data=data)
        )
        group.advance(50)
    group.kill(first)
    group.advance(3_600_000)

    heir = group.join()
    group.advance(300_000)

    assert len(set(group.journal.names)) == len(group.journal.names) == 400
    one_more = size_bytes / _share_bytes(group)
    assert _most_in_memory(heir) * size_bytes / _share_bytes(group) <= 1 + 2 * one_more
    assert heir.memory.used_bytes == 0, "what ended is counted no more"


def test_p13_large_records_are_polled_as_memory_allows_and_all_become_durable() -> None:
    """User code hangs and windows are full: what is read goes on to the store, and stays there."""
    group = Group(tree=TreeSettings(window=BUDGET))
    member = group.join(held=True)
    group.settle()
    for number in range(300):
        data: dict[str, JsonValue] = {"text": "x" * 100_000}
        group.append(a_task(due_in_ms=0, ordering_id=f"id-{number}", uniqueness_key="x", data=data))
    group.advance(60_000)

    loads = [each for each in member.telemetry.events if isinstance(each, PartitionLoadReported)]
    assert group.committed() == 300
    assert (loads[-1].waiting + loads[-1].executing) * 100_000 <= BUDGET_BYTES // 2
    assert member.memory.polled_bytes == 0


def test_p13_far_tasks_are_not_loaded() -> None:
    """Only the window ahead is."""
    group = Group()
    member = group.join()
    for number in range(1_000):
        group.append(a_task(due_in_ms=86_400_000 + number, uniqueness_key=str(number)))
    group.advance(60_000)

    assert _most_in_memory(member) == 0


def test_p13_known_completions_are_bounded() -> None:
    """Older ones are read from the store when somebody asks."""
    window = WINDOW.model_copy(update={"completions_max": 100})
    group = Group(tree=TreeSettings(window=window))
    member = group.join()
    tasks = [a_task(due_in_ms=n * 10, uniqueness_key=str(n)) for n in range(1_000)]
    for task in tasks:
        group.append(task)
    group.advance(30_000)
    for task in tasks:
        group.append(task)
    group.advance(30_000)

    assert len(group.journal.names) == 1_000
    assert "find_completions" in member.faults.seen


def test_p13_known_completions_are_bounded_in_bytes() -> None:
    """Ids may have 32,760 bytes each: the count alone would keep all of them."""
    group = Group(tree=TreeSettings(window=BUDGET))
    member = group.join()
    tasks = [a_task(due_in_ms=n * 10, uniqueness_key=f"{n:030000}") for n in range(100)]
    for task in tasks:
        group.append(task)
    group.advance(30_000)
    for task in tasks:
        group.append(task)
    group.advance(30_000)

    assert len(group.journal.names) == 100
    assert "find_completions" in member.faults.seen
