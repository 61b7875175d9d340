"""Promise P30: the stream of outcomes has each closed task, and nothing else, in order."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.instant import format_instant, parse_instant
from tests.simulation.history import Completed, Told
from tests.simulation.judged import Complaints, Run, epoch_of

_TOGETHER_MS = 5_000
"""Tasks whose ends were being written together ended within this time."""
_OF_ATTEMPTS = (CompletionResult.SUCCESS, CompletionResult.FAILURE)
_End = tuple[TaskKey, str, str, int]


def p30_each_closed_task_is_told(run: Run) -> Complaints:
    """Each completion that stood is told, none before it was durable, and those of an ordering id
    in the order in which their owner wrote them.
    """
    if not run.tells:
        return
    told: dict[_End, list[Told]] = defaultdict(list)
    for record in run.history.of(Told):
        told[record.key, record.result, record.finished, record.attempts].append(record)
    durable: dict[_End, Completed] = {}
    for key, completions in run.completed.items():
        for each in completions:
            durable.setdefault(_end_of(each), each)
        if not key.ordering_id.startswith(RESERVED):
            for each in _standing(completions):
                if _end_of(each) not in told:
                    yield f"{key} was closed as {each.result} at {each.at_ms:.0f}, and not told"
    for end, tellings in told.items():
        if end not in durable and _is_overtaken(run, tellings[0], told):
            continue
        if end not in durable or tellings[0].at_ms < durable[end].at_ms:
            yield f"{end[0]} was told as {end[1]} at {tellings[0].at_ms:.0f}: it was not durable"
    yield from _out_of_order({end: tellings[0].at_ms for end, tellings in told.items()}, durable)


def _is_overtaken(run: Run, telling: Told, told: Mapping[_End, Sequence[Told]]) -> bool:
    """True if a later write of the same owner was there first: both were told, that one last.

    The stream may tell of it much later than it was written.
    """
    ended_ms = parse_instant(telling.finished)
    return any(
        abs(each.finished_ms - ended_ms) < _TOGETHER_MS
        and any(other.at_ms > telling.at_ms for other in told.get(_end_of(each), ()))
        for each in run.completed[telling.key]
    )


def _end_of(completed: Completed) -> _End:
    finished = format_instant(completed.finished_ms)
    return completed.key, completed.result, finished, completed.attempts


def _standing(completions: list[Completed]) -> list[Completed]:
    """Return the completions that were the last of their key, or that an operator opened.

    One that another owner's replaced had never been seen by that owner.
    """
    standing = []
    followers: list[Completed | None] = [*completions[1:], None]
    for each, after in zip(completions, followers, strict=True):
        if each.result != CompletionResult.REOPENED and (
            after is None or after.result == CompletionResult.REOPENED
        ):
            standing.append(each)
    return standing


def _out_of_order(told: dict[_End, float], durable: dict[_End, Completed]) -> Complaints:
    lines: dict[tuple[str, int], list[tuple[float, int, TaskKey]]] = defaultdict(list)
    for end, at_ms in told.items():
        completed = durable.get(end)
        # A command may close another task of the id while an attempt's end is being written.
        if completed is not None and completed.result in _OF_ATTEMPTS:
            place = completed.key.ordering_id, epoch_of(completed.write_time)
            lines[place].append((at_ms, completed.write_time, completed.key))
    for line in lines.values():
        latest = 0
        for at_ms, write_time, key in sorted(line):
            if write_time < latest:
                yield f"{key} was told at {at_ms:.0f}, behind what was closed later"
            latest = max(latest, write_time)
