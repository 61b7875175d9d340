"""PartitionScheduler: the bound of its window is exact."""

import pytest

from hourhand.actors.messages import LowerCheckpoint, ShrinkWindow
from hourhand.actors.model.operations.events import WindowShrunk
from tests.unit.actors.partition_scheduler_bench import Bench, task_due_in
from tests.unit.probes import PARTITION


@pytest.mark.parametrize("excess", [1, 2])
def test_p13_a_window_keeps_as_many_tasks_as_it_may_and_no_more(excess: int) -> None:
    """Not one above it; the latest ones are left to the store."""
    bench = Bench()
    due_ms = (1_000, 2_000, 3_000, 4_000)
    bench.schedule(*due_ms)

    bench.tell(ShrinkWindow(len(due_ms) - excess))

    last_kept = task_due_in(due_ms[-1 - excess]).key
    assert bench.harness.persistence.take(LowerCheckpoint).key == last_kept
    assert bench.harness.telemetry.of(WindowShrunk) == [WindowShrunk(PARTITION, excess)]
