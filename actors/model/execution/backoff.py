"""The wait before a failed attempt is retried, and the action when attempts are used up.

The default wait is PagerDuty scheduler's: before attempt n (2 or more) half of ``min(cap, base *
2^(n-2))`` is fixed, the other half random. Waits are tenacity's strategies, so users pass their
own.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

import msgspec
import tenacity
from tenacity.wait import wait_base

from hourhand.actors.model.values.display import log_raised, shown
from hourhand.actors.model.values.errors import PayloadDamaged, may_pass
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.actors.model.values.public import public
from hourhand.actors.model.values.settings import RecoverySettings

logger = logging.getLogger("hourhand.retry")

ATTEMPTS_ALLOWED = 2_147_483_647
"""Largest number of attempts of a policy: stores count them in 32 bits."""
OnExhausted = Literal["skip", "block", "dead_letter"]
ErrorClasses = type[BaseException] | tuple[type[BaseException], ...]
Verdict = Literal["retry", "drop", "give_up"]
"""The consequence of an error: ``give_up`` acts as if all attempts were used up."""

_mro_of = type.__dict__["__mro__"].__get__
"""Reads the ``__mro__`` of any class; attribute access would call its metaclass, which is user
code."""


def growing_pause_ms(failures: int, shortest_ms: int, longest_ms: int, rng: random.Random) -> float:
    """Return the pause after a number of consecutive failures: it doubles, and half is random."""
    doubled_ms = shortest_ms << min(max(failures, 1) - 1, 30)
    return min(longest_ms, doubled_ms) * rng.uniform(0.5, 1.0)


def request_pause(
    recovery: RecoverySettings, rng: random.Random, *, endless: bool
) -> Callable[[BaseException, int], float | None]:
    """Return a function for the wait of a failed request, by its error and consecutive failures.

    It returns None for a request without a next try: after a refusal, unless ``endless``.
    """
    bounds_ms = recovery.rebuild_pause_min_ms, recovery.rebuild_pause_max_ms

    def pause(error: BaseException, failures: int) -> float | None:
        if endless or may_pass(error):
            return growing_pause_ms(failures, *bounds_ms, rng)
        return None

    return pause


JITTER = random.Random()  # noqa: S311 - spreads load, guards no secret
"""Default source of jitter for waits."""
_ASKED_WITH = "rng"
"""Argument of the call that a wait is for: the source of its jitter."""


class wait_half_jittered(wait_base):  # noqa: N801 - tenacity names its strategies so
    """Between 50 % and 100 % of another strategy's wait.

    Without an ``rng`` of its own it draws from the one of its caller, which a simulation seeds.
    """

    def __init__(self, strategy: wait_base, rng: random.Random | None = None) -> None:
        self.strategy = strategy
        self.rng = rng

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        """Return the wait in seconds."""
        rng = self.rng or retry_state.kwargs.get(_ASKED_WITH, JITTER)
        return self.strategy(retry_state) * rng.uniform(0.5, 1.0)


def default_wait(
    base_s: float = 20.0, cap_s: float = 120.0, rng: random.Random | None = None
) -> wait_base:
    """Return the default wait: exponential from ``base_s``, capped, half jittered.

    With ``rng`` the jitter can be replayed from a seed.
    """
    return wait_half_jittered(tenacity.wait_exponential(multiplier=base_s, max=cap_s), rng)


class RetryRuling(msgspec.Struct, frozen=True):
    """The decision of a policy about one failed attempt, for code that may not call user code."""

    # The bounds are checked where one is decoded: a process of user code sends it.
    attempts_max: Annotated[int, msgspec.Meta(ge=1, le=ATTEMPTS_ALLOWED)]
    on_exhausted: OnExhausted
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=INSTANT_MAX_MS)] = 0
    """From the end of the attempt to the start of the next one."""


@public("hourhand")
@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts at a failing task, the waits between them, and the action at the end.

    ``attempts_max`` counts the first attempt. ``on_exhausted``: ``skip`` marks the key failed and
    lets the next task of its ordering id run; ``block`` holds the ordering id until an operator
    retries, drops or cancels; ``dead_letter`` sends the task to the dead-letter topic, then marks
    it failed.

    ``retry_on`` and ``drop_on`` are exception classes, as ``except`` takes them. An error of
    ``drop_on`` drops the task at once, with the error as its reason. An error of neither uses up
    all attempts at once. An attempt that takes longer than the executor's ``timeout`` counts as
    TimeoutError. Raises ValueError and TypeError for invalid values.
    """

    attempts_max: int = 101
    wait: wait_base = field(default_factory=default_wait)
    on_exhausted: OnExhausted = "skip"
    retry_on: ErrorClasses = (BaseException,)
    drop_on: ErrorClasses = ()

    def __post_init__(self) -> None:
        most: object = self.attempts_max
        if type(most) is not int or not 1 <= most <= ATTEMPTS_ALLOWED:
            raise ValueError(f"attempts_max is {shown(most)}, 1 to {ATTEMPTS_ALLOWED} are allowed")
        if self.on_exhausted not in get_args(OnExhausted):
            known = ", ".join(get_args(OnExhausted))
            raise ValueError(f"on_exhausted is {shown(self.on_exhausted)}, known are {known}")
        if not callable(self.wait):
            raise TypeError(f"wait is {shown(self.wait)}, a tenacity wait strategy is needed")
        for name in ("retry_on", "drop_on"):
            classes = _error_classes(name, getattr(self, name))
            object.__setattr__(self, name, classes)

    def verdict_on(self, error: BaseException) -> Verdict:
        """Return the consequence of an attempt's error; like ``except`` it runs no user code."""
        mro = _mro_of(type(error))
        if _has_any(mro, (PayloadDamaged,)):
            # A further attempt would find the same data.
            return "give_up"
        if _has_any(mro, self.drop_on):
            return "drop"
        return "retry" if _has_any(mro, self.retry_on) else "give_up"

    def delay_ms(self, failed_attempts: int) -> int:
        """Return the wait before the next attempt, after a number of failed ones."""
        return _wait_ms(self.wait, _state(failed_attempts, None, 0, JITTER))

    def ruling(
        self,
        failed_attempts: int,
        outcome: object = None,
        *,
        after_ms: int | None = None,
        since_due_ms: int = 0,
        rng: random.Random = JITTER,
    ) -> RetryRuling:
        """Return the decision after a number of failed attempts: a wait of ``after_ms`` if given.

        The strategy is user code: it gets the ``outcome`` of the last attempt, an exception or a
        returned value, and the time since the task was due. A default wait takes its jitter from
        ``rng``.
        """
        wait_ms = after_ms
        if wait_ms is None:
            state = _state(failed_attempts, outcome, since_due_ms, rng)
            try:
                wait_ms = _wait_ms(self.wait, state)
            except BaseException:  # noqa: BLE001 - it is logged
                log_raised(logger, "the wait strategy failed; the default one is used instead")
                wait_ms = _wait_ms(default_wait(), state)
        return RetryRuling(self.attempts_max, self.on_exhausted, wait_ms)


def _state(
    failed_attempts: int, outcome: object, since_due_ms: int, rng: random.Random
) -> tenacity.RetryCallState:
    """Return tenacity's state of an attempt for a strategy."""
    state = tenacity.RetryCallState(_RETRYING, None, (), {_ASKED_WITH: rng})
    state.attempt_number = failed_attempts
    state.outcome = tenacity.Future(failed_attempts)
    if isinstance(outcome, BaseException):
        state.outcome.set_exception(outcome)
    else:
        state.outcome.set_result(outcome)
    state.start_time, state.outcome_timestamp = 0.0, since_due_ms / 1000
    return state


def _wait_ms(wait: wait_base, state: tenacity.RetryCallState) -> int:
    return min(max(0, round(float(wait(state)) * 1000)), INSTANT_MAX_MS)


def _error_classes(name: str, given: object) -> tuple[type[BaseException], ...]:
    classes = given if isinstance(given, tuple) else (given,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise TypeError(
                f"{name} holds {shown(each)}, an exception class or a tuple of them is needed"
            )
    return classes


def _has_any(mro: tuple[type, ...], classes: ErrorClasses) -> bool:
    assert isinstance(classes, tuple), "made one when the policy was"
    return any(base is each for each in classes for base in mro)


_RETRYING = tenacity.Retrying()
