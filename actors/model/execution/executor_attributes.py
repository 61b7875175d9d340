"""The ``retry`` and ``timeout`` of an executor; reading them is user code.

Decides the values to use if they cannot be read. They are read where an attempt runs, never by the
tree.
"""

import inspect
import logging
from datetime import timedelta

from tenacity import RetryCallState

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.values.display import log_raised, shown

logger = logging.getLogger("hourhand.retry")

EXPIRES_AFTER_NEEDED = "a timedelta of a millisecond or more or None is needed"
_RUN_IN = ("thread", "process", None)


def policy_of(executor: object) -> RetryPolicy:
    """Return an executor's retry policy; the default one if it cannot be read, or is not a
    policy.
    """
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
    wait = retry.wait
    if type(retry).delay_ms is not RetryPolicy.delay_ms:

        def wait(state: RetryCallState) -> float:  # type: ignore[misc]
            return retry.delay_ms(state.attempt_number) / 1000

    return RetryPolicy(
        retry.attempts_max,
        wait,
        retry.on_exhausted,
        retry.retry_on,
        retry.drop_on,
    )


def declared_policy_of(made: object) -> RetryPolicy:
    """Return the policy that a class declares, without calling its code; else the default one."""
    stated = inspect.getattr_static(made, "retry", None) if isinstance(made, type) else None
    return stated if type(stated) is RetryPolicy else RetryPolicy()


def declared_timeout_of(made: object) -> timedelta | None:
    """Return the timeout that a class declares, without calling its code; else None."""
    stated = inspect.getattr_static(made, "timeout", None) if isinstance(made, type) else None
    return stated if isinstance(stated, timedelta) else None


def declared_stuck_after_of(made: object) -> timedelta | None:
    """Return after how long without a checkpoint a class says that its attempts are stuck, without
    calling its code; else None.
    """
    stated = inspect.getattr_static(made, "stuck_after", None) if isinstance(made, type) else None
    return stated if isinstance(stated, timedelta) else None


def declared_expires_after_of(made: object) -> timedelta | None:
    """Return the expiry that a class declares, without calling its code; else None."""
    stated = inspect.getattr_static(made, "expires_after", None) if isinstance(made, type) else None
    return stated if isinstance(stated, timedelta) else None


def declared_run_in_of(made: object) -> str | None:
    """Return where a class says that it runs, without calling its code; None where it does not."""
    stated = inspect.getattr_static(made, "run_in", None) if isinstance(made, type) else None
    return stated if isinstance(stated, str) else None


def unmade_policy_of(executable: object) -> RetryPolicy:
    """Return the policy of an executable, without calling user code.

    For an executor that is not made yet it is the one of its class.
    """
    stated: object = getattr(executable, "declared_retry", None)
    return stated if isinstance(stated, RetryPolicy) else policy_of(executable)


def timeout_ms_of(executor: object, default_ms: int | None) -> int | None:
    """Return an executor's timeout; raises the errors of its attribute."""
    timeout: object = getattr(executor, "timeout", None)
    return whole_ms(timeout) if isinstance(timeout, timedelta) else default_ms


def whole_ms(limit: timedelta) -> int:
    """Return a time limit in milliseconds, at least 1."""
    return max(1, round(float(limit.total_seconds()) * 1000))


def is_time_limit(value: object) -> bool:
    """True if a value is a duration that an attempt can pass."""
    return isinstance(value, timedelta) and value > timedelta(0)


def is_expires_after(value: object) -> bool:
    """True for a valid ``expires_after``."""
    return value is None or (isinstance(value, timedelta) and value >= timedelta(milliseconds=1))


def attribute_complaint(executor: object) -> str | None:
    """Return the fault of ``retry``, ``timeout``, ``stuck_after``, ``run_in`` or ``expires_after``
    of an executor or
    of its class; None without one.

    A property of a class can be read only from its instances.
    """
    retry, timeout = getattr(executor, "retry", None), getattr(executor, "timeout", None)
    of_class = isinstance(executor, type)
    run_in: object = getattr(executor, "run_in", None)
    if run_in not in _RUN_IN and not (of_class and hasattr(run_in, "__get__")):
        return f"run_in is {shown(run_in)}, 'thread', 'process' or None is needed"
    if not isinstance(retry, RetryPolicy) and not (of_class and hasattr(retry, "__get__")):
        return f"retry is {shown(retry)}, a RetryPolicy is needed"
    stuck_after: object = getattr(executor, "stuck_after", None)
    if stuck_after is not None and not is_time_limit(stuck_after):
        needed = "a timedelta above zero or None is needed, in the class"
        return f"stuck_after is {shown(stuck_after)}, {needed}"
    expires_after: object = getattr(executor, "expires_after", None)
    if not is_expires_after(expires_after):
        return f"expires_after is {shown(expires_after)}, {EXPIRES_AFTER_NEEDED}"
    if timeout is None or is_time_limit(timeout):
        return None
    if of_class and hasattr(timeout, "__get__"):
        return None
    return f"timeout is {shown(timeout)}, a timedelta above zero or None is needed"
