"""PostedJobs: one wake-up serves all that is posted before it looks, and nothing is left behind.

Each order of a thread that posts and one that takes is made here in one thread: what the other
does meanwhile is called from the wake-up or from the job that is taken.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import pytest

from hourhand.scheduler.node.workers.async_loop import Call, LoopThread, PostedJobs

WAIT_S = 60.0


class _Woken:
    """Counts wake-ups, and has the jobs taken when it is told to look."""

    def __init__(self) -> None:
        self.taken: list[Call] = []
        self.wake_ups = 0
        self.during_wake: Callable[[], None] | None = None
        self.during_take: Callable[[], None] | None = None
        self.posted = PostedJobs(self._wake, self._take)

    def look(self) -> None:
        """Serve the wake-ups there are, as an event loop does."""
        while self.wake_ups:
            self.wake_ups -= 1
            self.posted.take_all()

    def _wake(self) -> None:
        self.wake_ups += 1
        during, self.during_wake = self.during_wake, None
        if during is not None:
            during()

    def _take(self, job: Call) -> None:
        during, self.during_take = self.during_take, None
        if during is not None:
            during()
        self.taken.append(job)


def _job() -> Call:
    return partial(int, 1)


def test_one_wake_up_serves_all_that_was_posted_before_it() -> None:
    """In the order in which they came."""
    woken, jobs = _Woken(), [_job() for _ in range(3)]

    for job in jobs:
        woken.posted.post(job)

    assert woken.wake_ups == 1
    woken.look()
    assert woken.taken == jobs


def test_what_is_posted_after_all_was_taken_wakes_again() -> None:
    """A flag that stayed set would keep it for ever."""
    woken, jobs = _Woken(), [_job(), _job()]

    for job in jobs:
        woken.posted.post(job)
        woken.look()

    assert woken.taken == jobs


def test_what_is_posted_while_others_are_taken_wakes_again() -> None:
    """Cleared behind the last job, the flag would hide that nobody looks any more."""
    woken, jobs = _Woken(), [_job(), _job()]
    woken.during_take = partial(woken.posted.post, jobs[1])

    woken.posted.post(jobs[0])
    woken.look()

    assert woken.taken == jobs


def test_the_loop_may_take_all_before_the_wake_up_returns() -> None:
    """Set behind the wake-up, the flag would stay set with none under way."""
    woken, jobs = _Woken(), [_job(), _job()]
    woken.during_wake = woken.look

    woken.posted.post(jobs[0])
    assert woken.taken == jobs[:1]
    woken.posted.post(jobs[1])
    woken.look()

    assert woken.taken == jobs


def test_what_is_posted_before_the_wake_up_is_sent_needs_none_of_its_own() -> None:
    """Another thread posts between the flag and the wake-up, which comes behind both."""
    woken, jobs = _Woken(), [_job(), _job()]
    woken.during_wake = partial(woken.posted.post, jobs[1])

    woken.posted.post(jobs[0])
    assert woken.wake_ups == 1
    woken.look()

    assert woken.taken == jobs


def test_a_wake_up_with_nothing_posted_does_no_harm() -> None:
    """Two threads that found the flag cleared both wake the loop."""
    woken, job = _Woken(), _job()

    woken.posted.take_all()
    woken.posted.post(job)
    woken.look()

    assert woken.taken == [job]


def test_jobs_behind_one_that_cannot_be_taken_are_taken() -> None:
    """The loop lets SystemExit out; who posts next may be long in coming."""
    woken, jobs = _Woken(), [_job(), _job(), _job()]
    woken.during_take = _raise_exit
    for job in jobs:
        woken.posted.post(job)

    with pytest.raises(SystemExit):
        woken.look()
    assert woken.wake_ups == 1
    woken.look()

    assert woken.taken == jobs[1:]


def test_a_wake_up_that_fails_is_not_waited_for() -> None:
    """A flag left set would let the next job wait for a wake-up that nobody sent."""
    woken, jobs = _Woken(), [_job(), _job()]
    woken.during_wake = _raise_exit

    with pytest.raises(SystemExit):
        woken.posted.post(jobs[0])
    woken.wake_ups = 0
    woken.posted.post(jobs[1])
    woken.look()

    assert woken.taken == jobs


def _raise_exit() -> None:
    raise SystemExit("not for you")


def test_a_task_factory_of_user_code_makes_no_attempt() -> None:
    """It may raise what asyncio lets out, and the attempts would be lost."""
    loop, ready, go = LoopThread(4), Future[None](), Future[None]()
    done = [Future[None]() for _ in range(3)]

    async def first() -> None:
        asyncio.get_running_loop().set_task_factory(_refusing)  # type: ignore[arg-type]
        # On purpose it blocks the loop: what is posted meanwhile is found by one wake-up.
        ready.set_result(None)
        go.result(WAIT_S)

    async def end(future: "Future[None]") -> None:
        future.set_result(None)

    loop.submit(first, _never)
    ready.result(WAIT_S)
    for each in done:
        loop.submit(partial(end, each), _never)
    go.set_result(None)

    assert [each.result(WAIT_S) for each in done] == [None] * 3
    loop.close()


def test_a_loop_that_was_closed_refuses_each_job() -> None:
    """Those who hand one over must hear of it, and not of the first one alone."""
    loop, begun = LoopThread(1), Future[None]()

    async def job() -> None:
        begun.set_result(None)

    loop.submit(job, _never)
    begun.result(WAIT_S)
    thread = loop._thread
    assert thread is not None
    loop.close()
    thread.join(WAIT_S)

    for _ in range(2):
        with pytest.raises(RuntimeError, match="closed"):
            loop.submit(job, _never)


def _refusing(_loop: asyncio.AbstractEventLoop, coroutine: object) -> "asyncio.Future[object]":
    coroutine.close()  # type: ignore[attr-defined]
    raise SystemExit("not for you")


def _never() -> None:
    raise AssertionError("it began")
