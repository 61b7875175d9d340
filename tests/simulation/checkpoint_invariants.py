"""Checkpoints that an attempt finds of the attempts before it (P16).

Each yields one sentence for each violation, as those of ``invariants`` do.
"""

from collections import defaultdict

from hourhand.actors.model.task.key import TaskKey
from tests.simulation.history import (
    CheckpointKept,
    CheckpointSaid,
    Claimed,
    Completed,
    Progress,
    Started,
)
from tests.simulation.judged import Complaints, Run, epoch_of

_COUNTED = {"failed", "timed_out", "retry"}
"""Ends behind which the next attempt has the next number."""
_WITHDRAWN = {"cancelled", "moved"}


def a_checkpoint_is_of_an_earlier_attempt(run: Run) -> Complaints:
    """An attempt finds a checkpoint of its own task, which an attempt before it made."""
    said = {each.progress: each.at_ms for each in run.history.of(CheckpointSaid)}
    for start in run.started:
        found = start.found
        if found is None:
            continue
        if found.key != str(start.key):
            yield f"attempt {start.id} of {start.key} found a checkpoint of {found.key}"
        if found.number >= start.id or said.get(found, start.at_ms) >= start.at_ms:
            yield f"attempt {start.id} of {start.key} found {found}, which none before it made"


def a_durable_checkpoint_is_found(run: Run) -> Complaints:
    """An attempt finds a checkpoint no older than those that were durable when its owner claimed
    the partition, or that its owner had durable, and the last one of its owner's that failed.

    A task that is scheduled again after it was cancelled or moved begins again, so checkpoints of
    before need not be found.
    """
    claimed_ms = {(e.partition, e.epoch): e.at_ms for e in run.history.of(Claimed)}
    kept: dict[str, list[CheckpointKept]] = defaultdict(list)
    for row in run.history.of(CheckpointKept):
        kept[row.progress.key].append(row)
    last_said = {each.progress.number: each.progress for each in run.history.of(CheckpointSaid)}
    last_start: dict[str, Started] = {}
    lives = _lives(run)
    for start in run.started:
        key = str(start.key)
        since_ms = claimed_ms.get((start.partition, start.epoch), 0.0)
        due = [
            row.progress
            for row in kept[key]
            if lives.get(row.progress.number) == lives[start.id]
            and row.at_ms < (start.at_ms if row.progress.epoch == start.epoch else since_ms)
        ]
        before = last_start.get(key)
        last_start[key] = start
        if before is not None and lives[before.id] != lives[start.id]:
            before = None
        # Under another epoch its end may have come to nothing, though its start was counted.
        if before is not None and (before.epoch, before.number + 1) == (start.epoch, start.number):
            ended = run.ended.get(before.id)
            if ended is not None and ended.ending in _COUNTED and before.id in last_said:
                due.append(last_said[before.id])
        if due and _order(start.found) < max(map(_order, due)):
            yield (
                f"attempt {start.id} of {start.key} found {start.found}, and"
                f" {max(due, key=_order)} was durable"
            )


def _lives(run: Run) -> dict[int, int]:
    """Return, by start, how often its task had been withdrawn and scheduled again."""
    withdrawn: dict[TaskKey, set[int]] = defaultdict(set)
    for closed in run.history.of(Completed):
        if closed.result in _WITHDRAWN:
            withdrawn[closed.key].add(closed.offset)
    return {
        start.id: sum(offset < start.offset for offset in withdrawn[start.key])
        for start in run.started
    }


def no_earlier_owner_overwrites_a_checkpoint(run: Run) -> Complaints:
    """A durable checkpoint of a later owner is not replaced by one of an earlier owner."""
    newest: dict[str, CheckpointKept] = {}
    for row in run.history.of(CheckpointKept):
        before = newest.get(row.progress.key)
        if before is not None and _order(row.progress) < _order(before.progress):
            yield f"{row.progress} replaced {before.progress}, of epoch {epoch_of(row.write_time)}"
        newest[row.progress.key] = row


def _order(progress: Progress | None) -> tuple[int, int, int]:
    return (-1, -1, -1) if progress is None else (progress.epoch, progress.number, progress.made)
