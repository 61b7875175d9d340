"""The stored tasks of an ordering id and a uniqueness key.

Decides only the reads: the owner of their partition decides which of them a command means.
"""

from collections.abc import Sequence

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.key import TaskKey, TaskPair, first_key_at
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import SeveralTasks, TaskNotFound
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.runtime.steps import Steps
from hourhand.scheduler.tasks.partition_reader import first_kept_key, first_open_key
from hourhand.scheduler.tasks.task_state import OPEN_STATES, TaskState, state_of

_PAGE_ROWS = 1_000
_LAST = first_key_at(INSTANT_MAX_MS + 1)
_KEYS_SHOWN_MAX = 5
_KEYS_MAX = 20
_FAILED = frozenset({TaskState.FAILURE, TaskState.DROPPED})


def open_keys(stores: Stores, partition: int, pair: TaskPair) -> Steps[list[TaskKey]]:
    """Return the keys of the open tasks of a pair, in their order."""
    claim: Claim | None = yield stores.ownership.find_watermark(partition)
    states = yield from _states(stores, partition, pair, first_open_key(claim))
    return [key for key, state in states if state in OPEN_STATES]


def several_keys(stores: Stores, partition: int, pair: TaskPair) -> Steps[tuple[TaskKey, ...]]:
    """Return the first of the tasks that a pair may mean: the open ones, else the failed ones."""
    claim: Claim | None = yield stores.ownership.find_watermark(partition)
    states = yield from _states(stores, partition, pair, first_kept_key(claim))
    keys = [key for key, state in states if state in OPEN_STATES]
    keys = keys or [key for key, state in states if state in _FAILED]
    return tuple(keys[:_KEYS_MAX])


def _states(
    stores: Stores, partition: int, pair: TaskPair, after: TaskKey
) -> Steps[list[tuple[TaskKey, TaskState]]]:
    found: list[tuple[TaskKey, TaskState]] = []
    ordering_id, uniqueness_key = pair
    while True:
        page = yield stores.schedule.load_ordering(partition, ordering_id, after, _LAST, _PAGE_ROWS)
        rows = [row for row in page.tasks if row.key.uniqueness_key == uniqueness_key]
        if rows:
            keys = [row.key for row in rows]
            closed = yield stores.status.find_completions(partition, keys)
            found += [(row.key, state_of(row, closed.get(row.key), ())) for row in rows]
        if page.complete:
            return found
        after = page.tasks[-1].key


def require_task(pair: TaskPair, outcome: RecordedOutcome | None) -> None:
    """Raise TaskNotFound or SeveralTasks if a command by pair found no single task."""
    if outcome is None:
        return
    if outcome.outcome is CommandOutcome.UNKNOWN_PAIR:
        raise no_task(pair)
    if outcome.outcome is CommandOutcome.SEVERAL_TASKS:
        raise SeveralTasks(f"several tasks have {_ids(pair)}: {_choose(outcome.several)}")


def no_task(pair: TaskPair) -> TaskNotFound:
    """Return the error for a pair without a task."""
    return TaskNotFound(
        f"no open task has {_ids(pair)}: it ended, was never scheduled, or no node has stored it"
        " yet"
    )


def several_tasks(pair: TaskPair, keys: Sequence[TaskKey]) -> SeveralTasks:
    """Return the error for a pair with several tasks; it names their keys."""
    return SeveralTasks(f"{len(keys)} open tasks have {_ids(pair)}: {_choose(keys)}")


def _choose(keys: Sequence[TaskKey]) -> str:
    first = ", ".join(map(str, keys[:_KEYS_SHOWN_MAX]))
    more = f" and {len(keys) - _KEYS_SHOWN_MAX} more" if len(keys) > _KEYS_SHOWN_MAX else ""
    return f"name one by its key: {first or 'all have ended since'}{more}"


def _ids(pair: TaskPair) -> str:
    return f"ordering id {shown(pair.ordering_id)} and uniqueness key {shown(pair.uniqueness_key)}"
