"""Several answers, one after another, make one future."""

import threading
from concurrent.futures import Future

import pytest

from hourhand.scheduler.runtime.light_future import LightFuture
from hourhand.scheduler.runtime.steps import Steps, begun

WAIT_S = 60.0


def _sum_of(*futures: Future[int]) -> Steps[int]:
    total = 0
    for each in futures:
        total += yield each
    return total


def test_it_resolves_with_what_the_steps_return() -> None:
    """Each answer is waited for in its turn, whichever thread brings it."""
    futures = [LightFuture[int]() for _ in range(3)]
    whole = begun(_sum_of(*futures))
    assert not whole.done()

    for number, each in enumerate(futures):
        thread = threading.Thread(target=each.set_result, args=(number,))
        thread.start()
        thread.join(WAIT_S)

    assert whole.result(timeout=WAIT_S) == 3


def test_answers_that_are_there_already_go_no_deeper() -> None:
    """A store in memory answers at once, and a listing may have a hundred thousand pages."""
    done = LightFuture[int]()
    done.set_result(1)

    assert begun(_sum_of(*[done] * 100_000)).result(timeout=0) == 100_000


def test_a_failure_is_raised_where_the_steps_wait() -> None:
    """Which may handle it."""
    failing = LightFuture[int]()

    def steps() -> Steps[str]:
        try:
            yield failing
        except LookupError as error:
            return str(error)
        return "no failure"

    whole = begun(steps())
    failing.set_exception(LookupError("not here"))

    assert whole.result(timeout=0) == "not here"


def test_a_failure_that_is_not_handled_is_the_futures() -> None:
    """As is one of the steps themselves."""
    failing = LightFuture[int]()
    whole = begun(_sum_of(failing))
    failing.set_exception(LookupError("not here"))

    def steps() -> Steps[int]:
        yield LightFuture[int]() if whole.done() is None else failing
        raise AssertionError("it is not gone on with")

    with pytest.raises(LookupError):
        whole.result(timeout=0)
    with pytest.raises(LookupError):
        begun(steps()).result(timeout=0)
