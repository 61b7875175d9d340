"""Several futures as one, and what is left of them afterwards."""

from concurrent.futures import Future
from typing import Any

import pytest

from hourhand.actors.kernel.futures import gather
from tests.garbage import cyclic_garbage


def test_results_come_together_in_order() -> None:
    """Whichever resolves first."""
    first, second = Future[int](), Future[int]()
    gathered = gather([first, second])

    second.set_result(2)
    assert not gathered.done()
    first.set_result(1)

    assert gathered.result(0) == (1, 2)


def test_nothing_is_gathered_at_once() -> None:
    """There is nothing to wait for."""
    assert gather([]).result(0) == ()


def test_a_failure_is_told_when_all_have_ended() -> None:
    """A retry must not overlap what is still under way."""
    failing, slow = Future[int](), Future[int]()
    gathered = gather([failing, slow])

    failing.set_exception(OSError("no"))
    assert not gathered.done()
    slow.set_result(1)

    with pytest.raises(OSError, match="no"):
        gathered.result(0)


def test_futures_are_freed_without_the_collector() -> None:
    """Each holds the callback that is to know them all."""

    def gather_some() -> None:
        futures: list[Future[Any]] = [Future() for _ in range(3)]
        gathered = gather(futures)
        for future in futures:
            future.set_result(None)
        assert gathered.done()

    with cyclic_garbage() as found:
        gather_some()

    assert found["Future"] == 0


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_failure_that_is_no_exception_is_told_as_well(error: type[BaseException]) -> None:
    """Who waits for it would wait for ever."""
    failing = Future[int]()
    gathered = gather([failing])

    failing.set_exception(error("no"))

    assert isinstance(gathered.exception(0), error)
