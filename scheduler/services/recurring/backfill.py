"""The tasks of past times of a recurring schedule, made again or for the first time.

Decides which times are meant, and their tasks: those that the schedule itself makes at these times,
key for key, so that none is made twice while its completion is kept. It leaves none out for the
overlap policy: with ``skip`` and ``buffer_one`` all have one ordering id and run one after the
other, with ``allow`` beside each other.
"""

from datetime import timedelta
from itertools import islice, takewhile

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, format_instant, from_millis
from hourhand.scheduler.services.recurring.executor import occurrence_of
from hourhand.scheduler.services.recurring.state import Recurring

TIMES_MAX = 1_000
"""Most times of one backfill."""


def past_occurrences(known: Recurring, from_ms: int, to_ms: int, now_ms: int) -> list[Task]:
    """Return the tasks of the times from ``from_ms`` on and before ``to_ms``; InvalidTask for a
    span that ends in the future, is empty, or has more than ``TIMES_MAX`` times.
    """
    what = f"cannot backfill the recurring schedule {shown(known.name)}"
    if known.rule.ordering_id.startswith(RESERVED):
        raise InvalidTask(f"{what}: its tasks are callbacks, which are numbered as they are made")
    if to_ms > now_ms:
        raise InvalidTask(
            f"{what}: {format_instant(to_ms)} lies in the future, whose times the schedule makes"
            " itself"
        )
    if from_ms >= to_ms:
        raise InvalidTask(f"{what}: its span ends before it begins: check from and to")
    due = known.rule.times_after(from_ms - 1, known.state.anchor_ms)
    times = list(islice(takewhile(lambda due_ms: due_ms < to_ms, due), TIMES_MAX + 1))
    if len(times) > TIMES_MAX:
        last = format_instant(times[TIMES_MAX])
        raise InvalidTask(
            f"{what}: the span has more than {TIMES_MAX:,} times: backfill it in parts, the first"
            f" one up to {last}"
        )
    return [_with_time_left(occurrence_of(known, each), now_ms) for each in times]


def _with_time_left(task: Task, now_ms: int) -> Task:
    """Count the expiry of a schedule's task from now on: by its own time it would be over."""
    if not isinstance(task.expires, timedelta):
        return task
    until_ms = now_ms + task.expires // timedelta(milliseconds=1)
    return task.model_copy(update={"expires": from_millis(min(until_ms, INSTANT_MAX_MS))})
