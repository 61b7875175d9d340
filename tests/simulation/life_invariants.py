"""Rules for starts: a task's expiry ends them, and a snooze of an attempt delays them."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.operations.events import AttemptRefused, TaskClosed
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import StoredTask
from tests.simulation.history import Started
from tests.simulation.judged import Complaints, Run
from tests.simulation.recorder import expires_ms_told
from tests.simulation.user_code import SNOOZE_MS, SNOOZES

_EXPIRED, _REOPENED = CompletionResult.EXPIRED.value, CompletionResult.REOPENED.value


def p27_what_has_expired_does_not_start(run: Run) -> Complaints:
    """No attempt starts from its task's expiry on by its owner's clock, unless an operator opened
    the task behind it; nothing is closed as expired before, or without an expiry.
    """
    for start in run.started:
        expires_ms = start.expires_ms
        if expires_ms is None or start.wall_ms < expires_ms or _is_opened(run, start, expires_ms):
            continue
        yield f"{start.key} started {start.wall_ms - expires_ms} ms behind its expiry"
    for partition in range(run.partitions):
        entries = dict(run.truth.entries(partition))
        for closed in (each for of in run.completed.values() for each in of):
            entry = entries.get(closed.offset)
            if closed.result != _EXPIRED or closed.partition != partition:
                continue
            if not isinstance(entry, StoredTask) or entry.key != closed.key:
                continue
            expires_ms, latest_ms = expires_ms_told(entry), run.wall_at_start_ms + closed.at_ms
            if expires_ms is None or latest_ms + run.clocks_off_ms < expires_ms:
                yield f"{closed.key} was closed as expired at {closed.at_ms:.0f}: it was not"


def _is_opened(run: Run, start: Started, expires_ms: int) -> bool:
    """True if an operator opened the task before the start and behind its expiry."""
    return any(
        each.result == _REOPENED
        and each.at_ms <= start.at_ms
        and run.wall_at_start_ms + each.at_ms + run.clocks_off_ms >= expires_ms
        for each in run.completed[start.key]
    )


def what_has_expired_is_told_of_once(run: Run) -> Complaints:
    """Operators hear once of a task that one owner closed as expired once."""
    told: dict[TaskKey, int] = defaultdict(int)
    for noted in run.noted():
        if isinstance(noted.event, TaskClosed) and noted.event.result == _EXPIRED:
            told[noted.event.key] += 1
    for key, times in told.items():
        closed = sum(each.result == _EXPIRED for each in run.completed[key])
        if times > closed:
            yield f"{key} was told {times} times as expired, and closed {closed} times"


def a_snooze_uses_up_no_attempt(run: Run) -> Complaints:
    """The attempt goes on under its number when its time has come, with one snooze more, and is
    snoozed no more often than it may be.
    """
    starts: dict[TaskKey, list[Started]] = defaultdict(list)
    for start in run.started:
        if start.snoozed > SNOOZES:
            yield f"{start.key} was snoozed {start.snoozed} times in one attempt"
        starts[start.key].append(start)
    for of_key in starts.values():
        yield from _wrong_snoozes(run, of_key)


def _wrong_snoozes(run: Run, starts: Sequence[Started]) -> Complaints:
    for before, after in pairwise(starts):
        end = run.ended.get(before.id)
        is_same = after.epoch == before.epoch and after.offset == before.offset
        is_opened = any(
            each.result == _REOPENED and before.at_ms <= each.at_ms <= after.at_ms
            for each in run.completed[before.key]
        )
        if end is None or end.ending != Ending.SNOOZED or not is_same or is_opened:
            continue
        skipped = after.number - before.number
        is_next = skipped == 0 or 0 < skipped <= _refused_between(run, before, after)
        if not is_next or after.snoozed != before.snoozed + 1:
            yield (
                f"attempt {before.number} of {before.key} was snoozed, and went on as"
                f" {after.number} with {after.snoozed} snoozes"
            )
        waited_ms = after.at_ms - end.at_ms
        if not run.clocks_off_ms and waited_ms < SNOOZE_MS - 1:
            yield f"{before.key} was snoozed for {SNOOZE_MS} ms and went on after {waited_ms:.0f}"


def _refused_between(run: Run, before: Started, after: Started) -> int:
    """Count the attempts that were refused between two starts of a task: a durable start of such a
    one has had its number.
    """
    return sum(
        each.event.key == before.key and before.at_ms <= each.at_ms <= after.at_ms
        for each in run.noted()
        if isinstance(each.event, AttemptRefused)
    )
