"""The outcome of a command, found by the place in its receipt.

Decides which row of the store belongs to the command, and if the attempt that ran then has ended;
the caller decides the meaning of a missing row.
"""

from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.task.status import (
    AttemptResult,
    CommandOutcome,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.values.log_offset import RECORDS_MAX, era_of, kept_offset
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.runtime.steps import Steps
from hourhand.scheduler.tasks.pairs import several_keys


def found_outcome(
    stores: Stores, partition: int, offset: int, name: TaskKey | TaskPair | None
) -> Steps[RecordedOutcome | None]:
    """Return the outcome of the command at the broker's ``offset``; None while it is undecided.

    ``name`` is the command's key or pair, if it is known: in a topic that was made again, another
    command may have had the same offset.
    """
    store = stores.ownership
    asked = store.find_outcome(partition, offset)
    claim: Claim | None = yield store.find_watermark(partition)
    found: RecordedOutcome | None = yield asked
    era = 0 if claim is None else era_of(claim.watermark.next_offset)
    if era:
        if offset >= RECORDS_MAX:
            return None
        offset = kept_offset(era, offset)
        found = yield store.find_outcome(partition, offset)
    if found is None or not _is_of(found, name):
        return None
    if found.outcome is CommandOutcome.SEVERAL_TASKS:
        pair = TaskPair(*found.key[1:])
        return replace(found, several=(yield from several_keys(stores, partition, pair)))
    if found.outcome is CommandOutcome.RUNNING and (
        yield from _has_ended(stores, partition, found.key, offset)
    ):
        return replace(found, outcome=CommandOutcome.CANCELLED)
    return found


def _has_ended(stores: Stores, partition: int, key: TaskKey, offset: int) -> Steps[bool]:
    """Return whether the attempt has ended that the command at ``offset`` asked to end, as the
    result in its row says.
    """
    asked = stores.status.find_completions(partition, (key,))
    attempts = yield stores.status.find_attempts(partition, (key,))
    closed = (yield asked).get(key)
    if closed is None or closed.result is not CompletionResult.CANCELLED:
        return False
    ends = [
        row.attempt
        for row in attempts
        if row.result is AttemptResult.DROPPED and row.finished_ms is not None
    ]
    return closed.offset == offset and closed.attempts in ends


def _is_of(found: RecordedOutcome, name: TaskKey | TaskPair | None) -> bool:
    if isinstance(name, TaskPair):
        return found.key[1:] == name
    return name in (None, found.key, found.new_key)
