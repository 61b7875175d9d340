"""Ends of attempts on their way from a process to its node.

Decides which fields are believed, because a process runs user code.
"""

from collections.abc import Collection, Sequence

from hourhand.actors.model.execution.attempts import AttemptEnded, Ending
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.display import UNSHOWN_STACK, storable_text
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.endings import (
    ERROR_MESSAGE_CHARS_MAX,
    ERROR_STACK_CHARS_MAX,
    REASON_CHARS_MAX,
)
from hourhand.scheduler.node.processes.process_frames import (
    Ended,
    FrameBroken,
    FrameKind,
    SentEnd,
    SentFailure,
    SentText,
)


def sent_ends(
    seq: int,
    ends: Sequence[AttemptEnded],
    *,
    begun: Collection[TaskKey],
    told: Collection[TaskKey],
    memory_bytes: int = 0,
) -> Sequence[tuple[FrameKind, SentText | Ended]]:
    """Return the frames of work that has ended, in the order in which a process sends them.

    ``begun`` are the tasks whose ``execute`` was called, ``told`` those whose failure operators
    see.
    """
    values = [
        (FrameKind.RESULT, SentText(seq, place, ended.returned))
        for place, ended in enumerate(ends)
        if ended.returned is not None
    ]
    sent = [
        _sent_end(
            place,
            ended,
            is_begun=ended.attempt.task.key in begun,
            is_told=ended.attempt.task.key in told,
        )
        for place, ended in enumerate(ends)
    ]
    return [*values, (FrameKind.ENDED, Ended(seq, sent, memory_bytes))]


def _sent_end(place: int, ended: AttemptEnded, *, is_begun: bool, is_told: bool) -> SentEnd:
    failure, stack = None, ended.error_stack
    if ended.error_class is not None:
        failure = SentFailure(
            ended.error_class,
            ended.error_message,
            stack,
            is_told=is_told,
            is_showable=stack != UNSHOWN_STACK,
            has_whole_stack=stack is not None and len(stack) < ERROR_STACK_CHARS_MAX,
        )
    return SentEnd(
        place,
        ended.ending.value,
        ended.started_ms,
        ended.finished_ms,
        is_begun,
        failure,
        ended.retry_after_ms,
        ended.reason,
        ended.uses_up_all,
        ended.ruling,
    )


def read_end(
    running: RunningAttempt, end: SentEnd, now_ms: int, returned: bytes | None = None
) -> AttemptEnded:
    """Return the end of an attempt that a process has sent; FrameBroken for anything else.

    ``returned`` is the value that it sent before.
    """
    try:
        ending = Ending(end.ending)
    except ValueError:
        raise FrameBroken(f"an attempt ended {end.ending[:40]!r}, which is not known") from None
    failed = end.failed
    return AttemptEnded(
        running.attempt,
        ending,
        min(max(end.started_ms, 0), now_ms),
        min(max(end.finished_ms, 0), now_ms),
        None if end.retry_after_ms is None else max(0, end.retry_after_ms),
        _cut(end.reason, REASON_CHARS_MAX),
        None if failed is None else _cut(failed.error_class, REASON_CHARS_MAX),
        None if failed is None else _cut(failed.error_message, ERROR_MESSAGE_CHARS_MAX),
        None if failed is None else _cut(failed.error_stack, ERROR_STACK_CHARS_MAX),
        end.uses_up_all,
        end.ruling,
        returned=returned if ending is Ending.DONE else None,
    )


def _cut(text: str | None, chars_max: int) -> str | None:
    return None if text is None else storable_text(text[:chars_max])
