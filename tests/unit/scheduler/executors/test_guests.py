"""Guests: user code is called where an attempt runs, and what it raises is that attempt's."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta

import pytest

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.executors.executor_path import tried_factory
from hourhand.scheduler.executors.guests import AsyncGuest, GuestKind
from hourhand.scheduler.runtime.user_code import runs_async
from tests.builders import a_task

STATED = RetryPolicy(attempts_max=7)
OWN = RetryPolicy(attempts_max=2)


class Job(TaskExecutor):
    """Counts how often it is made, and fails to be where the test says so."""

    retry = STATED
    timeout = timedelta(seconds=5)
    made = 0
    failures = 0

    def __init__(self) -> None:
        type(self).made += 1
        if type(self).made <= type(self).failures:
            raise LookupError(f"no database {type(self).made}")
        self.retry = OWN
        self.timeout = timedelta(seconds=9)

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Be done."""
        return None


class AsyncJob(Job):
    """The same as a coroutine."""

    async def execute(self, task: Task) -> Outcome | None:
        """Be done."""
        return None


def job(of: type[Job] = Job, failures: int = 0) -> type[Job]:
    """Return a class of its own."""
    return type("Job", (of,), {"made": 0, "failures": failures})


@pytest.mark.parametrize(("of", "is_async"), [(Job, False), (AsyncJob, True)])
def test_nothing_is_made_before_an_attempt_asks(of: type[Job], is_async: bool) -> None:
    """How it runs and its class's policy are known anyway."""
    made = job(of)

    guest = GuestKind(made).guest()

    assert runs_async(guest) is is_async and guest.declared_retry is STATED
    assert not vars(made)["made"]
    assert guest.timeout == timedelta(seconds=9) and guest.retry is OWN
    assert vars(made)["made"] == 1


def test_what_a_constructor_raises_is_raised_by_execute() -> None:
    """Within middleware; the policy is that of the class then, and the next attempt tries again."""
    made = job(failures=1)
    guest = GuestKind(made).guest()

    assert guest.timeout == timedelta(seconds=5)
    with pytest.raises(LookupError, match="no database 1"):
        guest.execute(a_task())
    assert guest.retry is STATED and made.made == 1

    assert guest.timeout == timedelta(seconds=9) and guest.retry is OWN and made.made == 2
    guest.execute(a_task())


def test_an_error_of_an_earlier_attempt_is_not_raised_by_a_later_one() -> None:
    """Middleware may end an attempt before ``execute`` is called."""
    made = job(failures=1)
    guest = GuestKind(made).guest()

    assert guest.timeout == timedelta(seconds=5)
    assert guest.timeout == timedelta(seconds=9)

    guest.execute(a_task())


def test_what_is_made_is_looked_over() -> None:
    """An executor that says nonsense runs nothing, and neither does what is not one."""
    wrong = type("Wrong", (job(),), {"__init__": lambda self: setattr(self, "timeout", 5)})

    with pytest.raises(TypeError, match="timeout is 5"):
        GuestKind(wrong).guest().execute(a_task())
    with pytest.raises(TypeError, match="returned a int"):
        GuestKind(int).guest().execute(a_task())  # type: ignore[arg-type]


def test_a_function_that_was_tried_says_how_its_executors_run() -> None:
    """One that raised then says it with the first executor that it makes."""
    tried = GuestKind(tried_factory("it", lambda: AsyncJob()))  # noqa: PLW0108
    unknown = GuestKind(lambda: AsyncJob())  # noqa: PLW0108

    assert isinstance(tried.guest(), AsyncGuest)
    first = unknown.guest()
    assert not isinstance(first, AsyncGuest) and first.retry is OWN
    assert isinstance(unknown.guest(), AsyncGuest)


def test_a_blocking_executor_where_a_coroutine_was_expected_does_not_block_the_loop() -> None:
    """A factory may return what it likes."""
    made: list[TaskExecutor] = [AsyncJob(), Job()]
    guest = GuestKind(tried_factory("it", lambda: made.pop(0))).guest()

    assert asyncio.run(guest.execute(a_task())) is None  # type: ignore[arg-type]
