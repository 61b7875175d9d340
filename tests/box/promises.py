"""The promises of a box, one function for each; it yields a sentence for each violation.

They read the ledger, the store and the log, and nothing of the subtree.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from tests.box.box import Box
from tests.box.hand_runner import HandRun, batch_before
from tests.box.kinds import LETTER, PLACES, job_of
from tests.box.owner import PARTITION
from tests.simulation.history import CaughtUp, Completed, Revoked, RowsRemoved
from tests.simulation.invariants import (
    p8_no_orphan,
    p9_commit_after_durable,
    p10_poison_never_blocks,
    p12_commands_are_ordered,
)
from tests.simulation.judged import Run

Complaints = Iterator[str]
_WELL = {Ending.DONE, Ending.DROPPED}


def p1_nothing_is_given_up_too_soon(box: Box) -> Complaints:
    """A task that is closed as a failure had all attempts that its policy allows."""
    made: dict[TaskKey, int] = defaultdict(int)
    for fact in box.ledger.asked:
        # A start that is durable counts, whether or not it came to an attempt.
        made[fact.run.key] += fact.run.attempt.record_starts is not None
    for begun in box.ledger.begun:
        made[begun.run.key] += begun.run.attempt.record_starts is None
    for key, result in _results(box):
        row = box.truth.row(PARTITION, key)
        if result == CompletionResult.FAILURE and row is not None:
            allowed = job_of(row.kind).retry.attempts_max
            if made[key] < allowed:
                yield f"{key} was given up after {made[key]} attempts, {allowed} are allowed"


def p2_never_early(box: Box) -> Complaints:
    """Nothing is asked for before its time, nor before the time that its last attempt left."""
    for fact in box.ledger.asked:
        if fact.early_ms > 0:
            yield f"{fact.run.key} was asked for {fact.early_ms} ms early"
        if fact.retry_early_ms > 0:
            yield f"{fact.run.key} is tried again {fact.retry_early_ms} ms early"


def p3_one_at_a_time(box: Box) -> Complaints:
    """No task begins beside another of its ordering id, nor beside itself, nor in its executor."""
    for fact in box.ledger.begun:
        key, kind = fact.run.key, fact.run.attempt.task.kind
        if fact.beside:
            yield f"{key} began beside {fact.beside}"
        places = PLACES.get(kind)
        if places is not None and fact.alike > places:
            yield f"{key} began as number {fact.alike} of its ordering id and kind"
        if fact.shares_executor:
            yield f"{key} began in an executor that serves another task"
        batch = [fact.run.attempt, *batch_before(fact.run.attempt)]
        if any(each.task.kind != kind for each in batch):
            yield f"{key} is in a batch of another kind"
        if len(batch) > 1 and any(each.suspect for each in batch):
            yield f"{key} is in a batch with one that may have killed a process"


def p4_key_order(box: Box) -> Complaints:
    """What was known before it fell due goes before later tasks of its ordering id; nothing is
    asked for before the log is read; in a batch nothing is closed before what it follows.
    """
    for fact in box.ledger.asked:
        if fact.overtaken:
            yield f"{fact.run.key} overtook {fact.overtaken}"
        if not fact.caught_up:
            yield f"{fact.run.key} was asked for before the log was read to its end"
    for caught in box.history.of(CaughtUp):
        if caught.undurable:
            yield f"caught up without {caught.undurable}"
    yield from _closed_out_of_order(box)


def _closed_out_of_order(box: Box) -> Complaints:
    closed: dict[TaskKey, list[Completed]] = defaultdict(list)
    for each in box.history.of(Completed):
        closed[each.key].append(each)
    for begun in box.ledger.begun:
        follows, key, begun_ms = begun.run.attempt.follows, begun.run.key, begun.run.begun_ms
        if follows is None:
            continue
        before_ms = min((c.at_ms for c in closed[follows.task.key]), default=float("inf"))
        for each in closed[key]:
            is_own = each.result == CompletionResult.SUCCESS and each.at_ms >= begun_ms
            if is_own and each.at_ms < before_ms:
                yield f"{key} was closed before {follows.task.key}, which it follows"


def p5_done_is_done(box: Box) -> Complaints:
    """A done key does not begin again; no outcome is forgotten before it is durable."""
    for fact in box.ledger.begun:
        if fact.done:
            yield f"{fact.run.key} began although it was done: {fact.done}"
        if not fact.is_next:
            yield f"{fact.run.key} began with a number that was used: {fact.run.attempt.number}"
    for settled in box.ledger.settled:
        if not settled.is_durable:
            yield f"the outcome of {settled.run.key} was forgotten before it was durable"
    reopened = {key for key, result in _results(box) if result == CompletionResult.REOPENED}
    for key, failures in box.truth.failures(PARTITION).items():
        row = box.truth.row(PARTITION, key)
        most = job_of(row.kind if row else None).retry.attempts_max
        if failures > most and key not in reopened:
            yield f"{key} failed {failures} times, {most} are allowed"


def p6_the_last_record_wins(box: Box) -> Complaints:
    """An attempt has the newest record that was known, and none begins after a known cancel, drop
    or move; what is closed is closed by what happened to it.
    """
    for asked in box.ledger.asked:
        if asked.newer is not None:
            offset = asked.run.attempt.task.offset
            yield f"{asked.run.key} was asked for with {offset}, {asked.newer} was known"
        if asked.unrecorded:
            yield f"{asked.run.key} was overdue when it was loaded, and its start is not recorded"
        if asked.knew_pause:
            yield f"{asked.run.key} was asked for although it is paused"
    for begun in box.ledger.begun:
        if begun.newer is not None:
            yield f"{begun.run.key} left its limit without the record at {begun.newer}"
        if begun.closed_by is not None:
            yield f"{begun.run.key} began after the command at {begun.closed_by}"
    yield from _closed_without_cause(box)


def p7_isolation(box: Box) -> Complaints:
    """Noted while the box was driven: see ``Box.isolate``."""
    yield from (each for each in box.complaints if each.startswith("P7"))


def p8_nothing_is_orphaned(box: Box) -> Complaints:
    """No watermark passes an open task that is not a straggler's; at the end nothing is open."""
    yield from p8_no_orphan(_run(box))
    yield from (each for each in box.complaints if each.startswith("P8"))


def p9_answered_is_durable(box: Box) -> Complaints:
    """No record counts as durable before it had its effect."""
    yield from p9_commit_after_durable(_run(box))


def p10_poison_is_a_letter(box: Box) -> Complaints:
    """Poison, and nothing else but what used up its attempts, is a dead letter."""
    yield from p10_poison_never_blocks(_run(box))
    letters = box.truth.dead_letters()
    for each in box.history.of(Completed):
        if each.result == CompletionResult.FAILURE and each.partition == PARTITION:
            row = box.truth.row(PARTITION, each.key)
            is_letter = row is not None and row.kind == LETTER
            if is_letter and (PARTITION, each.offset) not in letters:
                yield f"{each.key} failed for good and is not a dead letter"


def p12_commands_are_decided_once(box: Box) -> Complaints:
    """Each command has one outcome, in the log's order, which a replay does not change."""
    # A sweep writes rows that it keeps again, before it deletes their hour.
    has_swept = any(box.history.of(RowsRemoved))
    for line in p12_commands_are_ordered(_run(box)):
        if not (has_swept and line.endswith("wrote its row twice")):
            yield line


def p13_memory_is_bounded(box: Box) -> Complaints:
    """Noted while the box was driven: slots and bytes are given back, and never exceeded."""
    yield from (each for each in box.complaints if each.startswith("P13"))


def p14_drains_lose_nothing(box: Box) -> Complaints:
    """A partition that counts as drained has nothing that runs or is not durable."""
    for each in box.history.of(Revoked):
        if each.drained and each.lost:
            yield f"the partition was drained and {each.lost} had not ended or are not durable"
    for fact in box.ledger.asked:
        if fact.knew_drain:
            yield f"{fact.run.key} was asked for while the partition is given up"
    yield from (each for each in box.complaints if each.startswith("P14"))


def p15_revoked_is_silent(box: Box) -> Complaints:
    """Nothing is asked for once the partition was given up."""
    for fact in box.ledger.asked:
        if not fact.is_owned:
            yield f"{fact.run.key} was asked for after the partition was given up"


def p16_a_rebuilt_tree_changes_nothing(box: Box) -> Complaints:
    """The tree fails only where the store does, and what ended well does not begin again."""
    yield from (each for each in box.complaints if each.startswith("P16"))
    ended_well: dict[TaskKey, int] = {}
    for fact in box.ledger.begun:
        key, epoch = fact.run.key, fact.run.attempt.epoch
        if ended_well.get(key) == epoch and not _was_reopened(box, key):
            yield f"{key} began again under epoch {epoch} after it had ended well there"
        if _counts(fact.run):
            ended_well[key] = epoch


PROMISES: tuple[Callable[[Box], Complaints], ...] = (
    p1_nothing_is_given_up_too_soon,
    p2_never_early,
    p3_one_at_a_time,
    p4_key_order,
    p5_done_is_done,
    p6_the_last_record_wins,
    p7_isolation,
    p8_nothing_is_orphaned,
    p9_answered_is_durable,
    p10_poison_is_a_letter,
    p12_commands_are_decided_once,
    p13_memory_is_bounded,
    p14_drains_lose_nothing,
    p15_revoked_is_silent,
    p16_a_rebuilt_tree_changes_nothing,
)
"""All that are judged, in the order of their numbers."""


def complaints_of(box: Box) -> list[str]:
    """Return every violation, with the promise that it breaks."""
    return [f"{each.__name__}: {line}" for each in PROMISES for line in each(box)]


def _run(box: Box) -> Run:
    return Run(
        history=box.history,
        truth=box.truth,
        partitions=1,
        tree=box.settings.tree,
        attempts_max=3,
        polled_most={},
        pace=1.0,
        wall_at_start_ms=box.wall_at_start_ms,
    )


def _results(box: Box) -> Iterator[tuple[TaskKey, str]]:
    return ((each.key, each.result) for each in box.history.of(Completed))


def _was_reopened(box: Box, key: TaskKey) -> bool:
    return (key, CompletionResult.REOPENED) in _results(box)


def _counts(run: HandRun) -> bool:
    """True if an attempt ended well and nothing before it in its batch did not."""
    return run.ended is not None and run.ended.ending in _WELL and not run.void


def _closed_without_cause(box: Box) -> Complaints:
    ended: dict[TaskKey, set[Ending]] = defaultdict(set)
    for run, _ in box.ledger.ended:
        if run.ended is not None and not run.void:
            ended[run.key].add(run.ended.ending)
    failed = {Ending.FAILED, Ending.RETRY, Ending.TIMED_OUT}
    for key, result in _results(box):
        endings = ended[key]
        if result == CompletionResult.SUCCESS and Ending.DONE not in endings:
            yield f"{key} is closed as a success and never ended well"
        if result == CompletionResult.FAILURE and not endings & failed:
            yield f"{key} is closed as a failure and never failed"
