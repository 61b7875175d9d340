"""PartitionExecutor: checkpoints of the owner's attempts are recorded, and no others."""

from hourhand.actors.messages import RecordCheckpoints
from hourhand.actors.model.execution.attempts import CheckpointMade
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.partition_executor import PartitionExecutor
from tests.builders import NOW_MS, a_stored_task, an_attempt
from tests.unit.probes import EPOCH, Harness


def _told(epoch: int) -> int:
    """Return how many checkpoints are recorded of one that an attempt of an epoch made."""
    harness = Harness()
    ref = harness.spawn(PartitionExecutor(harness.effects, harness.ownership))
    attempt = an_attempt(task=a_stored_task(due_in_ms=0), epoch=epoch)
    made = TaskCheckpoint(attempt.task.key, 1, NOW_MS, b'{"value":1}', epoch)

    ref.tell(CheckpointMade(attempt, made, lambda _error: None))
    harness.run()

    told = [each for each in harness.tracker.messages if isinstance(each, RecordCheckpoints)]
    return sum(len(each.made) for each in told)


def test_the_owners_checkpoint_is_recorded() -> None:
    """With the next write."""
    assert _told(EPOCH) == 1


def test_one_of_an_earlier_epoch_is_not() -> None:
    """Under this owner's write times it would replace what is newer."""
    assert _told(EPOCH - 1) == 0
