"""Frames between a node and its processes: whole, in pieces, damaged, and of another version."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.execution.backoff import RetryRuling
from hourhand.actors.model.task.task import AttemptState
from hourhand.scheduler.node.processes.process_frames import (
    ANSWER_BYTES_MAX,
    Ended,
    FrameBroken,
    FrameKind,
    FrameReader,
    Logged,
    SentAttempt,
    SentEnd,
    SentFailure,
    Work,
    frame,
    read_record,
)

WORK = Work(
    7, [SentAttempt(1, "a", "b", b'{"x":1}', -5, AttemptState(used=2, last=3), 4, 5, 6, 700)]
)
ENDED = Ended(
    7,
    [
        SentEnd(
            *(0, "failed", 1, 2, True),
            SentFailure("ValueError", "wrong", "stack", is_told=True),
            uses_up_all=True,
            ruling=RetryRuling(3, "block", 9),
        )
    ],
)


@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_frames_are_put_together_from_any_pieces(cuts: list[int]) -> None:
    """A pipe cuts them wherever it likes."""
    sent = frame(FrameKind.WORK, WORK) + frame(FrameKind.ENDED, ENDED)
    reader, read = FrameReader(ANSWER_BYTES_MAX), list[tuple[int, bytes]]()
    places = sorted({0, *(min(cut, len(sent)) for cut in cuts), len(sent)})

    for begins, ends in pairwise(places):
        read += reader.feed(sent[begins:ends])

    assert [kind for kind, _ in read] == [FrameKind.WORK, FrameKind.ENDED]
    assert msgspec.to_builtins(read_record(read[0][1], Work)) == msgspec.to_builtins(WORK)
    assert msgspec.to_builtins(read_record(read[1][1], Ended)) == msgspec.to_builtins(ENDED)


@given(noise=st.binary(max_size=200))
def test_noise_is_refused_or_waited_for_and_nothing_else(noise: bytes) -> None:
    """Whatever user code writes into the pipe."""
    try:
        for _, text in FrameReader(1_000).feed(noise):
            for record in (Ended, Logged):
                read_record(text, record)
    except FrameBroken:
        return


def test_a_frame_that_is_too_large_is_refused_before_it_is_read() -> None:
    """Its length alone says so."""
    with pytest.raises(FrameBroken, match="at most 10"):
        list(FrameReader(10).feed(frame(FrameKind.WORK, WORK)[:5]))


def test_a_record_of_another_shape_is_refused() -> None:
    """As one of an older version would be."""
    text = frame(FrameKind.ENDED, ("seven", []))[5:]

    with pytest.raises(FrameBroken, match="Ended"):
        read_record(text, Ended)


@pytest.mark.parametrize(
    ("attempts_max", "wait_ms"), [(2**63, 0), (2**31, 0), (0, 0), (3, -1), (3, 2**63)]
)
def test_a_ruling_that_no_policy_gives_is_refused(attempts_max: int, wait_ms: int) -> None:
    """A store could not hold it: its process is not believed, and the attempt fails of that."""
    known = RetryRuling(3, "skip", 5)
    made_up = RetryRuling(attempts_max, "skip", wait_ms)

    def sent(ruling: RetryRuling) -> bytes:
        end = SentEnd(0, "failed", 1, 2, ruling=ruling)
        return frame(FrameKind.ENDED, Ended(7, [end]))[5:]

    assert read_record(sent(known), Ended).ends[0].ruling == known
    with pytest.raises(FrameBroken, match="Expected `int`"):
        read_record(sent(made_up), Ended)
