"""Attempts on their way to a process: it finds what its node knows of each."""

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.task.task import AttemptState
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.processes.process_frames import (
    FRAME_BYTES_MAX,
    FrameReader,
    Work,
    read_record,
)
from hourhand.scheduler.node.processes.process_place import job_of, job_of_batch
from hourhand.scheduler.node.processes.process_work import attempts_of, work_frame
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.ports.batches import BatchLimits
from hourhand.scheduler.ports.processes import ProcessBatches, ProcessMember
from tests.builders import NOW_MS, a_stored_task, an_attempt

RETRY = RetryPolicy()


def _attempt(ordering_id: str, follows: Attempt | None = None) -> Attempt:
    task = a_stored_task(ordering_id=ordering_id, attempts=AttemptState(last=2, used=1))
    attempt = an_attempt(task=task, partition=3)
    return replace(
        attempt,
        number=3,
        timeout_ms=40_000,
        is_unordered=follows is not None,
        follows=follows,
        expires_ms=NOW_MS + 5_000,
    )


def _arrived(frame: bytes) -> Sequence[Attempt]:
    return attempts_of(_work(frame))


def _work(frame: bytes) -> Work:
    ((_, text),) = FrameReader(FRAME_BYTES_MAX).feed(frame)
    return read_record(text, Work)


def _running(attempt: Attempt) -> RunningAttempt:
    return RunningAttempt(attempt, ProcessMember(RETRY, None), None)


def test_an_attempt_arrives_as_its_node_has_it() -> None:
    """Every field that does not belong to the node alone."""
    attempt = _attempt("x")

    (arrived,) = _arrived(work_frame(job_of(_running(attempt))))

    assert asdict(arrived) == asdict(attempt)


def test_an_attempt_of_a_batch_follows_the_one_before_it() -> None:
    """Or one that is in another batch, which counts as not begun."""
    first = _attempt("x")
    second = _attempt("x", follows=first)
    other = _attempt("y", follows=_attempt("y"))
    batches = ProcessBatches(BatchLimits(3, 0, 1), False, RETRY, None, False)
    batch = RunningBatch(batches, [_running(e) for e in (first, second, other)], lambda: None)

    arrived = _arrived(work_frame(job_of_batch(batch)))

    assert arrived[1].follows is arrived[0]
    assert arrived[2].follows is not None
    assert arrived[2].follows not in arrived


def test_the_context_of_a_traced_attempt_goes_with_it() -> None:
    """Its span begins as it is sent; what is not traced has none."""
    traced, untraced = _running(_attempt("x")), _running(_attempt("y"))
    assert isinstance(traced.executor, ProcessMember)
    traced.executor.begin_trace = lambda: b"00-1-2-01"

    found = [_work(work_frame(job_of(each))).attempts[0].trace for each in (traced, untraced)]

    assert found == [b"00-1-2-01", None]
