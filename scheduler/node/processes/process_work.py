"""Attempts on their way to a process, as a node sends them and as a process makes them again.

Decides which fields a process needs.
"""

from collections.abc import Sequence

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import FRESH, StoredTask
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.processes.process_frames import FrameKind, SentAttempt, Work, frame
from hourhand.scheduler.node.processes.process_place import ProcessJob

_NOT_HERE = Attempt(StoredTask(TaskKey(0, "?", "?"), b"{}", 0), 0, 0, 0)
"""Stands for the attempt that another one follows, and whose batch is another one."""


def work_frame(job: ProcessJob) -> bytes:
    """Return the frame with the work of a job."""
    batch = job.batch is not None
    if not batch:
        return frame(FrameKind.WORK, Work(job.seq, (_sent(job.members[0], None),)))
    places = {id(each.attempt): at for at, each in enumerate(job.members)}
    sent = []
    for running in job.members:
        follows = running.attempt.follows
        sent.append(_sent(running, None if follows is None else places.get(id(follows), -1)))
    return frame(FrameKind.WORK, Work(job.seq, sent, is_batch=True))


def _sent(running: RunningAttempt, follows: int | None) -> SentAttempt:
    attempt = running.attempt
    begin_trace = getattr(running.executor, "begin_trace", None)
    task = attempt.task
    key = task.key
    return SentAttempt(
        key.scheduled_ms,
        key.ordering_id,
        key.uniqueness_key,
        task.body,
        task.offset,
        None if task.attempts is FRESH else task.attempts,
        attempt.partition,
        attempt.epoch,
        attempt.number,
        attempt.timeout_ms,
        attempt.is_unordered,
        follows,
        attempt.expires_ms,
        None if begin_trace is None else begin_trace(),
    )


def attempts_of(work: Work) -> Sequence[Attempt]:
    """Return attempts as a node has them."""
    made: list[Attempt] = []
    for sent in work.attempts:
        follows = None
        if sent.follows is not None:
            follows = made[sent.follows] if sent.follows >= 0 else _NOT_HERE
        made.append(_attempt_of(sent, follows))
    return made


def _attempt_of(sent: SentAttempt, follows: Attempt | None) -> Attempt:
    key = TaskKey(sent.scheduled_ms, sent.ordering_id, sent.uniqueness_key)
    task = StoredTask(key, sent.body, sent.offset, sent.attempts or FRESH)
    return Attempt(
        task,
        sent.partition,
        sent.epoch,
        sent.number,
        timeout_ms=sent.timeout_ms,
        is_unordered=sent.is_unordered,
        follows=follows,
        expires_ms=sent.expires_ms,
    )
