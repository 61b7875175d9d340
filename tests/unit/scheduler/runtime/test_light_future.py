"""A light future does whatever the standard library's does, on both of its ways."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, as_completed, wait
from functools import partial

import anyio
import pytest

from hourhand.scheduler.runtime.light_future import LightFuture
from tests.garbage import cyclic_garbage

WAIT_S = 60.0


Prepare = Callable[[LightFuture[int]], object]


def _nothing(_future: LightFuture[int]) -> None:
    """Leave it light."""


def _condition_made(future: LightFuture[int]) -> None:
    """``running`` asks for the condition, so from here on the base class's ways are taken."""
    assert future.running()


def _note(called: list[int], number: int, _done: Future[int]) -> None:
    called.append(number)


BOTH_WAYS = pytest.mark.parametrize("prepare", [_nothing, _condition_made])


@BOTH_WAYS
def test_a_result_is_returned_and_given_once(prepare: Prepare) -> None:
    """A second one is the same mistake as with any future."""
    future = LightFuture[int]()
    prepare(future)

    future.set_result(7)

    assert (future.result(), future.exception(), future.done()) == (7, None, True)
    with pytest.raises(InvalidStateError):
        future.set_result(8)
    with pytest.raises(InvalidStateError):
        future.set_exception(ValueError())
    assert future.result(timeout=0) == 7


@BOTH_WAYS
def test_a_failure_is_raised(prepare: Prepare) -> None:
    """And returned to who asks for it."""
    future = LightFuture[int]()
    prepare(future)
    error = ValueError("no")

    future.set_exception(error)

    assert future.exception(timeout=0) is error
    with pytest.raises(ValueError, match="no"):
        future.result(timeout=0)
    with pytest.raises(InvalidStateError):
        future.set_result(8)


def test_asking_whether_it_is_done_leaves_it_light() -> None:
    """Who waits for thousands asks each of them that."""
    future = LightFuture[int]()

    before = future.done()
    light = future._made is None
    future.set_result(1)

    assert (before, light, future.done()) == (False, True, True)


@BOTH_WAYS
def test_it_runs_from_the_start_and_cannot_be_cancelled(prepare: Prepare) -> None:
    """Nothing recalls a record, and nothing pretends to."""
    future = LightFuture[int]()
    prepare(future)

    assert (future.cancel(), future.running(), future.cancelled()) == (False, True, False)
    future.set_result(1)
    assert (future.cancel(), future.running(), future.cancelled()) == (False, False, False)


@BOTH_WAYS
def test_callbacks_are_called_once_in_order_and_at_once_afterwards(prepare: Prepare) -> None:
    """True if they were added before or after the condition was made."""
    future = LightFuture[int]()
    called: list[tuple[str, int]] = []

    def note(name: str) -> Callable[[Future[int]], None]:
        return lambda done: called.append((name, done.result()))

    future.add_done_callback(note("first"))
    prepare(future)
    future.add_done_callback(note("second"))
    assert called == []
    future.set_result(3)
    future.add_done_callback(note("late"))

    assert called == [("first", 3), ("second", 3), ("late", 3)]


def test_a_callback_that_raises_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, as the standard library does."""
    future = LightFuture[int]()
    called: list[int] = []

    def fail(_done: Future[int]) -> None:
        raise ValueError("a callback of the user's")

    future.add_done_callback(fail)
    future.add_done_callback(lambda done: called.append(done.result()))
    future.set_result(4)

    assert called == [4]
    assert "exception calling callback" in caplog.text


def test_a_thread_that_waits_is_woken() -> None:
    """Every time: the two may meet anywhere, so they meet often."""
    for number in range(300):
        future = LightFuture[int]()
        seen: list[int] = []

        def look(waiting: LightFuture[int] = future, into: list[int] = seen) -> None:
            into.append(waiting.result(WAIT_S))

        thread = threading.Thread(target=look)
        thread.start()
        future.set_result(number)
        thread.join(WAIT_S)
        assert seen == [number]


def test_callbacks_added_while_it_resolves_are_each_called_once() -> None:
    """By the one thread or by the other."""
    for _ in range(300):
        future = LightFuture[int]()
        called: list[int] = []
        thread = threading.Thread(target=future.set_result, args=(1,))
        thread.start()
        for number in range(20):
            future.add_done_callback(partial(_note, called, number))
        thread.join(WAIT_S)
        assert sorted(called) == list(range(20))


def test_wait_and_as_completed_see_it() -> None:
    """Resolved before, between and after, from another thread."""
    futures: list[Future[int]] = [LightFuture() for _ in range(3)]
    futures[0].set_result(0)

    first = wait(futures, WAIT_S, FIRST_COMPLETED)
    assert (first.done, first.not_done) == ({futures[0]}, {futures[1], futures[2]})

    def resolve() -> None:
        futures[1].set_result(1)
        futures[2].set_exception(ValueError())

    thread = threading.Thread(target=resolve)
    thread.start()
    assert set(as_completed(futures, WAIT_S)) == set(futures)
    thread.join(WAIT_S)
    assert not wait(futures, WAIT_S).not_done


def test_asyncio_can_wait_for_it() -> None:
    """``asyncio.wrap_future`` is how a coroutine waits for a receipt."""

    async def waited() -> int:
        future = LightFuture[int]()
        wrapped = asyncio.wrap_future(future)
        thread = threading.Thread(target=future.set_result, args=(9,))
        thread.start()
        try:
            return await asyncio.wait_for(wrapped, WAIT_S)
        finally:
            thread.join(WAIT_S)

    assert asyncio.run(waited()) == 9


def test_it_shows_its_state_like_any_future() -> None:
    """As a debugger prints it."""
    future = LightFuture[int]()
    assert "state=running" in repr(future)

    future.set_result(1)
    assert "state=finished returned int" in repr(future)


@BOTH_WAYS
def test_a_callback_that_holds_its_future_leaves_nothing_to_the_collector(prepare: Prepare) -> None:
    """Answers are often futures that know the one they wait for."""

    def resolve_one() -> None:
        future = LightFuture[int]()
        prepare(future)
        called: list[LightFuture[int]] = []
        future.add_done_callback(lambda _done: called.append(future))
        future.set_result(7)
        assert called == [future]
        called.clear()

    with cyclic_garbage() as found:
        resolve_one()

    assert found["LightFuture"] == 0


@BOTH_WAYS
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, RuntimeError])
def test_a_callback_that_raises_ends_neither_its_thread_nor_the_other_callbacks(
    prepare: Prepare, error: type[BaseException]
) -> None:
    """A thread that resolves futures goes on with those of others, whatever user code does."""
    future, called, went_on = LightFuture[int](), list[int](), threading.Event()
    prepare(future)

    def fail(_done: Future[int]) -> None:
        raise error("from a callback")

    future.add_done_callback(fail)
    future.add_done_callback(partial(_note, called, 1))

    def resolve() -> None:
        future.set_result(7)
        went_on.set()

    thread = threading.Thread(target=resolve)
    thread.start()
    thread.join(WAIT_S)

    assert went_on.is_set() and called == [1]


def test_an_interrupt_in_the_main_thread_comes_through_when_all_were_called() -> None:
    """It is the user's, whose call the main thread is in."""
    future, called = LightFuture[int](), list[int]()

    def interrupt(_done: Future[int]) -> None:
        raise KeyboardInterrupt

    future.add_done_callback(interrupt)
    future.add_done_callback(partial(_note, called, 1))

    with pytest.raises(KeyboardInterrupt):
        future.set_result(7)
    assert called == [1] and future.result() == 7


def test_it_can_be_awaited_itself() -> None:
    """The future that a client returns serves threads and coroutines alike."""

    async def main() -> tuple[int, list[int]]:
        waited, failing = LightFuture[int](), LightFuture[int]()
        several = [LightFuture[int]() for _ in range(3)]

        def resolve() -> None:
            for number, future in enumerate((waited, *several)):
                future.set_result(number)
            failing.set_exception(LookupError("no"))

        thread = threading.Thread(target=resolve)
        gathered = asyncio.gather(*several)
        thread.start()
        found = await asyncio.wait_for(waited, WAIT_S), await gathered
        with pytest.raises(LookupError):
            await failing
        thread.join(WAIT_S)
        # Once more, as a future may be asked again.
        assert await waited == 0
        return found

    assert asyncio.run(main()) == (0, [1, 2, 3])


def test_an_await_that_is_cancelled_leaves_it_alone() -> None:
    """The record is sent anyway, and others may wait for it."""

    async def main() -> int:
        future = LightFuture[int]()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await future
        assert future.running()
        thread = threading.Thread(target=future.set_result, args=(5,))
        thread.start()
        try:
            return await future
        finally:
            thread.join(WAIT_S)

    assert asyncio.run(main()) == 5


def test_awaiting_starts_no_thread() -> None:
    """Ten thousand of them would be ten thousand threads."""

    async def main() -> int:
        futures = [LightFuture[int]() for _ in range(100)]
        threads = [threading.active_count()]
        waiting = asyncio.gather(*futures)

        def resolve() -> None:
            threads.append(threading.active_count())
            for future in futures:
                future.set_result(1)

        # Behind the turns in which all of them begin to wait.
        asyncio.get_running_loop().call_soon(resolve)
        assert sum(await waiting) == 100
        return threads[1] - threads[0]

    assert asyncio.run(main()) == 0


def test_anyio_can_wait_for_it() -> None:
    """On its asyncio backend, with its own ways to give up."""

    async def main() -> int:
        late, ready = LightFuture[int](), LightFuture[int]()
        with anyio.move_on_after(0) as scope:
            await late
        assert scope.cancelled_caught and late.running()
        thread = threading.Thread(target=ready.set_result, args=(3,))
        thread.start()
        try:
            return await ready
        finally:
            thread.join(WAIT_S)

    assert anyio.run(main) == 3


def test_an_await_without_an_event_loop_says_so() -> None:
    """As under another library's loop."""
    future = LightFuture[int]()

    async def main() -> int:
        return await future

    coroutine = main()
    with pytest.raises(RuntimeError, match=r"call result\(\)"):
        coroutine.send(None)
