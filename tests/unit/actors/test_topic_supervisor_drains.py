"""TopicSupervisor: what its partitions are told of a revocation, and of what is paused."""

from hourhand.actors.messages import PartitionsRevoked, PauseTasks, RevokePartitions
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from tests.unit.actors.test_topic_supervisor import DEADLINE_MS, Bench


def _told(bench: Bench, partition: int) -> list[RevokePartitions]:
    messages = bench.child[partition].messages
    return [each for each in messages if isinstance(each, RevokePartitions)]


def test_p15_each_partition_that_is_revoked_is_told_to_drain() -> None:
    """With the time that is left; those that stay hear nothing."""
    bench = Bench(0, 1, 2)

    bench.tell(RevokePartitions((0, 1, 3), DEADLINE_MS))

    assert _told(bench, 0) == [RevokePartitions((0,), DEADLINE_MS)]
    assert _told(bench, 1) == [RevokePartitions((1,), DEADLINE_MS)]
    assert _told(bench, 2) == [] and not bench.node.has(PartitionsRevoked)


def test_a_new_partition_hears_first_of_what_is_paused() -> None:
    """Nothing of it starts before that; those that are there hear of it at once."""
    bench = Bench(0)
    paused = PauseTasks(OperatorConfig(1, (Pause(PauseScope.ALL),)))

    bench.tell(paused)
    bench.assign(1)

    assert bench.child[0].messages[-1] == paused
    assert bench.child[1].messages[0] == paused
