"""Requests that go together: none waits without reason, none is lost, each hears its answer."""

from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.runtime.batcher import Batcher


class Sending:
    """Keeps what is sent until the test answers it."""

    def __init__(self) -> None:
        self.sent: list[Sequence[int]] = []
        self.answers: list[Future[Sequence[str]]] = []

    def __call__(self, asked: Sequence[int]) -> "Future[Sequence[str]]":
        """Take a batch."""
        self.sent.append(asked)
        self.answers.append(Future())
        return self.answers[-1]


def test_what_comes_while_a_batch_is_under_way_goes_with_the_next() -> None:
    """The first goes at once; a batch is bounded, and what is left goes with the one after."""
    sending = Sending()
    batcher = Batcher[int, str](sending, requests_max=3)
    futures = [batcher.ask(number) for number in range(6)]
    assert sending.sent == [[0]] and batcher.unanswered == 6

    for batch in ([0], [1, 2, 3], [4, 5]):
        assert sending.sent[-1] == batch
        sending.answers[-1].set_result([str(number) for number in batch])

    assert [each.result(0) for each in futures] == ["0", "1", "2", "3", "4", "5"]
    assert batcher.unanswered == 0 and len(sending.sent) == 3


def test_a_batch_that_fails_fails_whoever_is_in_it_and_the_next_one_goes() -> None:
    """Nothing is sent again: whoever asked knows best."""
    sending = Sending()
    batcher = Batcher[int, str](sending, requests_max=3)
    first, second = batcher.ask(1), batcher.ask(2)
    sending.answers[0].set_exception(LogUnavailable("nobody answers"))
    sending.answers[1].set_result(["two"])

    with pytest.raises(LogUnavailable):
        first.result(0)
    assert second.result(0) == "two"


def test_what_cannot_even_be_sent_fails_and_keeps_nobody_waiting() -> None:
    """An error where a future was expected is an answer, too."""

    def refuse(asked: Sequence[int]) -> "Future[Sequence[str]]":
        raise LookupError(f"{asked} cannot be sent")

    batcher = Batcher[int, str](refuse, requests_max=3)

    for number in range(2):
        with pytest.raises(LookupError):
            batcher.ask(number).result(0)
    assert batcher.unanswered == 0


class Told:
    """Keeps what it is told of several requests."""

    def __init__(self) -> None:
        self.answers: list[object] = []

    def set_result(self, result: object) -> None:
        """Keep an answer."""
        self.answers.append(result)

    def set_exception(self, exception: BaseException) -> None:
        """Keep a failure."""
        self.answers.append(type(exception))


def test_answers_are_told_in_the_order_of_the_requests() -> None:
    """Also where the next batch, which is sent before they are told, fails at once."""
    first: Future[Sequence[str]] = Future()

    def send(asked: Sequence[int]) -> "Future[Sequence[str]]":
        if asked == [0]:
            return first
        raise LookupError(f"{asked} cannot be sent")

    batcher, told = Batcher[int, str](send, requests_max=2), Told()
    for number in range(5):
        batcher.ask_for(number, told)
    first.set_result(["0"])

    assert told.answers == ["0", *[LookupError] * 4]
    assert batcher.unanswered == 0
