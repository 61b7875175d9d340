"""Requests that are made again until they are answered."""

from concurrent.futures import Future

import pytest

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.request_retry import retry_request
from hourhand.actors.kernel.simulated import SimulatedSystem, VirtualClock


class Asker(Actor):
    """An actor that only lives."""

    def __init__(self) -> None:
        """Keep nothing."""

    def on_receive(self, message: object) -> None:
        """Take nothing."""
        raise AssertionError(message)


class Bench:
    """One request, whose every try is in the test's hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0)
        self.failures: list[BaseException] = []
        self.system = SimulatedSystem(self.clock, self.failures.append)
        self.asker = Asker()
        self.root = self.system.spawn_root(self.asker)
        self.tries: list[Future[object]] = []
        self.told: list[str | None] = []
        self.answer = retry_request(
            self.asker._context,
            self._ask,
            lambda error, failures: None if isinstance(error, ValueError) else 100.0 * failures,
            lambda error: self.told.append(None if error is None else str(error)),
        )

    def _ask(self) -> Future[object]:
        self.tries.append(Future())
        return self.tries[-1]

    def advance(self, delta_ms: float = 0.0) -> None:
        """Let time pass."""
        while self.system.run_one():
            pass
        self.clock.advance(delta_ms)
        while self.system.run_one():
            pass


def test_an_answer_is_passed_on_and_nothing_told() -> None:
    """The usual case."""
    bench = Bench()

    bench.tries[0].set_result(7)

    assert bench.answer.result(0) == 7 and not bench.told


def test_what_fails_is_asked_again_after_its_pause_until_it_is_answered() -> None:
    """Each failure is told, and then that there are no more."""
    bench = Bench()
    for number in range(3):
        bench.tries[number].set_exception(OSError(number))
        bench.advance(100.0 * (number + 1) - 1)
        assert len(bench.tries) == number + 1
        bench.advance(1.0)
    bench.tries[3].set_result("at last")

    assert bench.answer.result(0) == "at last"
    assert bench.told == ["0", "1", "2", None]


def test_a_refusal_ends_it() -> None:
    """Also one that comes after failures."""
    bench = Bench()
    bench.tries[0].set_exception(OSError("first"))
    bench.advance(100.0)
    bench.tries[1].set_exception(ValueError("never"))
    bench.advance()

    with pytest.raises(ValueError, match="never"):
        bench.answer.result(0)
    assert bench.told == ["first", None] and not bench.failures


@pytest.mark.parametrize("how", ["cancelled", "stopped"])
def test_nobody_asks_for_whoever_is_gone(how: str) -> None:
    """The future was cancelled, or its actor has ended."""
    bench = Bench()
    bench.tries[0].set_exception(OSError("first"))
    bench.advance()
    if how == "cancelled":
        bench.answer.cancel()
    else:
        bench.system.stop_tree(bench.root)

    bench.advance(10_000.0)

    assert len(bench.tries) == 1


def test_a_late_answer_to_a_cancelled_request_is_dropped() -> None:
    """As is its failure."""
    bench = Bench()
    bench.answer.cancel()

    bench.tries[0].set_result(7)
    bench.advance()

    assert bench.answer.cancelled() and not bench.told


def test_a_request_that_cannot_be_made_has_failed() -> None:
    """A driver may raise at once."""
    bench = Bench()

    def refuse() -> Future[object]:
        raise ValueError("a header")

    answer = retry_request(
        bench.asker._context, refuse, lambda _error, _failures: None, lambda _error: None
    )
    bench.advance()

    with pytest.raises(ValueError, match="a header"):
        answer.result(0)
