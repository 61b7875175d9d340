"""PartitionExecutor: what a pause does to the ordering ids that hold tasks already."""

from collections.abc import Callable

import pytest

from actors.messages import PauseOrdering, PauseTasks
from actors.model.pauses import Pause, PauseScope, PauseSheet
from tests.builders import a_stored_task
from tests.unit.actors.partition_executor_bench import Bench


@pytest.mark.parametrize(
    ("pauses", "told"),
    [
        (lambda partition: Pause(PauseScope.ORDERING, partition, "x"), [True, False]),
        (lambda partition: Pause(PauseScope.PARTITION, partition), [True, True]),
        (lambda _partition: Pause(PauseScope.ALL), [True, True]),
        (lambda partition: Pause(PauseScope.PARTITION, partition + 1), [False, False]),
        (lambda partition: Pause(PauseScope.ORDERING, partition + 1, "x"), [False, False]),
    ],
    ids=["an id", "the partition", "everything", "another partition", "an id elsewhere"],
)
def test_p13_what_is_paused_leaves_to_the_store_what_it_holds(
    pauses: Callable[[int], Pause], told: list[bool]
) -> None:
    """It takes up neither slots nor memory; what is not paused keeps them."""
    bench = Bench()
    bench.execute(a_stored_task(ordering_id="x"), a_stored_task(ordering_id="y"))
    pause = pauses(bench.harness.ownership.partition)

    bench.tell(PauseTasks(PauseSheet(1, (pause,))))

    assert [PauseOrdering() in child.messages for child in bench.children] == told
