"""The tasks of the application, which are found by the name of this file."""

from datetime import timedelta
from typing import Any

from hourhand import RetryPolicy
from hourhand.django import framework, task_options

task = framework.tasks.task
ran: list[Any] = []


class OwnError(Exception):
    """An error of the project's own."""


@task
def add(first: int, second: int = 0) -> int:
    """Return a sum."""
    ran.append(first)
    return first + second


@task(priority=5, queue_name="mail")
async def add_async(first: int, second: int) -> int:
    """Return a sum."""
    return first + second


@task
@task_options(retry=RetryPolicy(attempts_max=2))
def fail_twice() -> None:
    """Raise at each attempt."""
    raise OwnError("no")


@task
def fail() -> None:
    """Raise once."""
    raise OSError("the disk is full")


@task(takes_context=True)
@task_options(retry=RetryPolicy(attempts_max=3), timeout=timedelta(seconds=5))
def see_context(context: Any) -> list[Any]:
    """Return what the context says, at the second attempt."""
    if context.attempt == 1:
        raise OwnError("look again")
    result = context.task_result
    return [context.attempt, result.id, result.task.queue_name, str(result.status)]


@task
def change(items: list[int]) -> list[int]:
    """Change an argument."""
    items.append(1)
    return items


@task
def answer_largely(size: int) -> str:
    """Return a text."""
    return "x" * size


@task
def function_of_a_name_that_is_longer_than_a_kind_may_be_and_then_some_more() -> str:
    """Return a text."""
    return "long"


# Its tasks may be enqueued here by ``using``, and so are found too.
@task(backend="elsewhere")
def at_home_elsewhere() -> str:
    """Return a text."""
    return "here"
