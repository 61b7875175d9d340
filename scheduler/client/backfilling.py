"""A backfill: the tasks of past times of a recurring schedule that are not there yet.

Decides which of them are appended: those without a stored task or completion. Two backfills at once
make the same keys, so the log's order decides and none runs twice.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import Task
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.tasks.receipt import Receipt

_APPENDED_S = 60.0


class Backfilled(NamedTuple):
    """The tasks of a backfill."""

    made: Sequence[TaskKey]
    """Keys of the tasks that it made, or would make."""
    there: Sequence[TaskKey]
    """Keys that were there already, open or done."""


def fill(
    tasks: Sequence[Task],
    stores: Stores,
    partition_count: int,
    append: "Callable[[Task], Future[Receipt]]",
    *,
    dry_run: bool,
) -> Backfilled:
    """Append the tasks that are not there, and wait until the log has them; a dry run only looks.

    Blocks; raises what the log or the store raises, and what it appended before that stays.
    """
    found = _known([each.key for each in tasks], stores, partition_count)
    missing = [each for each in tasks if each.key not in found]
    if not dry_run:
        answered(gather([append(each) for each in missing]), _APPENDED_S, "log")
    there = [each.key for each in tasks if each.key in found]
    return Backfilled([each.key for each in missing], there)


def _known(keys: Sequence[TaskKey], stores: Stores, partition_count: int) -> set[TaskKey]:
    by_partition: defaultdict[int, list[TaskKey]] = defaultdict(list)
    for key in keys:
        by_partition[partition_of(key.ordering_id, partition_count)].append(key)
    looks: list[Future[Any]] = []
    for partition, asked in by_partition.items():
        looks.append(stores.schedule.find_tasks(partition, asked))
        looks.append(stores.status.find_completions(partition, asked))
    return {key for found in answered(gather(looks)) for key in found}
