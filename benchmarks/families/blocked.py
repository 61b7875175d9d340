"""An installation whose watermark was held for days by one ordering id that never succeeds."""

import msgspec
from msgspec.structs import replace

from benchmarks.families.backlog import ids_by_partition
from benchmarks.loads import data_of
from benchmarks.records import wall_s
from hourhand import Settings
from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import OwnershipStore
from hourhand.scheduler import wiring

_TIMEOUT_S = 60.0
_WRITE_TIME = 1
_DONE_AN_HOUR = 20
BLOCKED_ID = "failing-for-days"


def _lower_watermark(ownership: OwnershipStore, partition: int, to_ms: int) -> None:
    """Lower a watermark as an owner does before it acknowledges an older task."""
    claim = ownership.claim(partition, to_ms).result(_TIMEOUT_S)
    if claim.watermark.watermark_ms <= to_ms:
        # It is there already: the store is new.
        return
    # Stamped as the new owner's first save, so that it is above every one before it.
    lowered = replace(claim.watermark.lowered_to(to_ms), write_time=claim.epoch << EPOCH_SHIFT)
    ownership.save_watermark(partition, claim.epoch, lowered).result(_TIMEOUT_S)


def block_one_id(settings: Settings, days: int) -> None:
    """Leave one open task ``days`` old, and hours of finished ones behind it."""
    now_ms = int(wall_s() * 1000)
    began_ms = now_ms - days * 24 * HOUR_MS
    partitions = settings.topic.partitions
    data = msgspec.json.encode(data_of(0))
    stores = wiring.open_stores(settings)
    try:
        for partition in range(partitions):
            _lower_watermark(stores.ownership, partition, began_ms)
        blocked = StoredTask(TaskKey(began_ms, BLOCKED_ID, "0"), data, 0)
        home = partition_of(BLOCKED_ID, partitions)
        stores.schedule.insert_tasks(home, [blocked], _WRITE_TIME).result(_TIMEOUT_S)
        for partition, (name,) in enumerate(ids_by_partition(partitions, 1, "done")):
            keys = [
                TaskKey(hour_ms + 60_000 * number, name, str(number))
                for hour_ms in range(began_ms, now_ms - HOUR_MS, HOUR_MS)
                for number in range(_DONE_AN_HOUR)
            ]
            tasks = [StoredTask(key, data, 0) for key in keys]
            ended = [
                Completion(key, CompletionResult.SUCCESS, 0, 1, key.scheduled_ms, key.scheduled_ms)
                for key in keys
            ]
            written = [
                stores.schedule.insert_tasks(partition, tasks, _WRITE_TIME),
                stores.status.insert_completions(partition, ended, _WRITE_TIME),
            ]
            for each in written:
                each.result(_TIMEOUT_S)
    finally:
        stores.close()
