"""What an executor's ``retry`` and ``timeout`` say; reading them is user code.

Decides what holds where they cannot be read.  What raises costs one attempt, never the tree.
"""

import logging
from datetime import timedelta
from typing import NoReturn

from actors.model.backoff import RetryPolicy
from actors.model.display import log_raised, shown
from actors.model.task import Task

logger = logging.getLogger("hourhand.retry")


class FailingExecutor:
    """Takes an executor's place in one attempt, which fails with an error that is known before.

    That is what the factory raised, or the attribute ``timeout``.
    """

    attempt = 0
    fence = 0

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def execute(self, task: Task) -> NoReturn:
        """Raise it."""
        del task
        raise self._error


def policy_of(executor: object) -> RetryPolicy:
    """Return an executor's retry policy; the default one where it cannot be read, or is none."""
    try:
        retry: object = getattr(executor, "retry", None)
        if type(retry) is RetryPolicy:
            return retry
        if isinstance(retry, RetryPolicy):
            return _plain(retry)
    except BaseException:  # noqa: BLE001 - it is logged
        log_raised(logger, "the attribute retry raised; the default policy is used instead")
    return RetryPolicy()


def _plain(retry: RetryPolicy) -> RetryPolicy:
    """Copy the policy of a subclass, any attribute of which may be user code."""
    return RetryPolicy(
        retry.attempts_max,
        lambda state: retry.delay_ms(state.attempt_number) / 1000,  # type: ignore[arg-type]
        retry.on_exhausted,
        retry.retry_on,
        retry.drop_on,
    )


def timeout_ms_of(executor: object, default_ms: int | None) -> int | None:
    """Return an executor's timeout; raises whatever its attribute does."""
    timeout: object = getattr(executor, "timeout", None)
    if not isinstance(timeout, timedelta):
        return default_ms
    return max(1, round(float(timeout.total_seconds()) * 1000))


def attribute_complaint(executor: object) -> str | None:
    """Return what is wrong with ``retry`` or ``timeout`` of an executor or a class of them.

    A property of a class says something of its instances only.
    """
    retry, timeout = getattr(executor, "retry", None), getattr(executor, "timeout", None)
    of_class = isinstance(executor, type)
    if not isinstance(retry, RetryPolicy) and not (of_class and hasattr(retry, "__get__")):
        return f"retry is {shown(retry)}, a RetryPolicy is needed"
    if timeout is None or (isinstance(timeout, timedelta) and timeout > timedelta(0)):
        return None
    if of_class and hasattr(timeout, "__get__"):
        return None
    return f"timeout is {shown(timeout)}, a timedelta above zero or None is needed"
