"""A future for very many requests, which makes its lock when a thread waits for it.

Most futures of an append are resolved before a thread waits. The standard library's still makes a
condition, ten objects which the garbage collector walks over again and again: half of the time of
an append. All rarer cases are left to the standard library. A failure that is never asked for is
logged once the future is gone, as asyncio does; successful requests pay nothing for that.
"""

import logging
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, RUNNING
from threading import Condition, RLock
from typing import Any, Self, TypeVar

from hourhand.actors.model.values.display import class_name_of, log_raised, message_of
from hourhand.actors.model.values.errors import HourhandError
from hourhand.scheduler.runtime import forking
from hourhand.scheduler.runtime.user_code import is_interrupt

logger = logging.getLogger("hourhand.client")
_callback_logger = logging.getLogger("concurrent.futures")
"""The standard library's logger, which reports the same."""

_OWN_PACKAGE = "hourhand"


T = TypeVar("T")
Given = TypeVar("Given")

_plain = RLock()
"""Held for a few instructions while a future without a condition changes: one lock for all of them
is cheaper than one for each. It is reentrant because a signal's handler may run in between."""


# A thread of the parent may have held it at the fork.
forking.in_child(_plain._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001


class UnaskedFailure:
    """Kept beside the failure in a future, and logs it unless it was asked for."""

    __slots__ = ("_error", "_place")

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error
        self._place = _place_of_call()

    def note_asked(self) -> None:
        """Suppress the log line."""
        self._error = None

    def __del__(self) -> None:
        error = self._error
        if error is None:
            return
        code = error.code if isinstance(error, HourhandError) else class_name_of(error)
        logger.error(
            "a request failed and nobody asked for its outcome%s: %s [%s]; call result() on what"
            " the client returned, or await it",
            self._place,
            message_of(error),
            code,
        )


def _place_of_call() -> str:
    """Return the line of the request if the failure comes at once; an empty text if it comes
    later.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way that costs no walk of all frames
    while frame is not None:
        top = frame.f_globals.get("__name__", "").partition(".")[0]
        if top in {"threading", "concurrent"}:
            break
        if top != _OWN_PACKAGE:
            return f" ({frame.f_code.co_filename}:{frame.f_lineno})"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


class LightFuture(Future[T]):
    """A ``Future`` that is running from the start, and light until a thread waits for it.

    ``await future`` works on an event loop of asyncio; a cancelled await leaves the future and its
    request alone. The attributes are the base class's. With ``_condition`` as a property, its
    methods and ``wait`` and ``as_completed`` work unchanged: the first access makes the condition,
    under the lock that the fast paths below hold, and from then on these are not taken.
    """

    # On the class until they change: most never do, or only when the future is resolved.
    _state = RUNNING
    _result = None
    _exception: BaseException | None = None
    _waiters: list[Any] = []  # noqa: RUF012 - replaced before anybody adds to it
    _done_callbacks: Sequence[Callable[[Future[T]], object]] = ()
    _made: Condition | None = None
    _process: int | None = None
    """For a user's futures: the process that made it, see ``forking``."""
    _is_watched = False
    _unasked: UnaskedFailure | None = None

    def __init__(self) -> None:
        """Replace the base class's constructor, which makes everything at once."""

    @property
    def _condition(self) -> Condition:  # type: ignore[override]
        with _plain:
            if self._process not in {None, forking.process.generation}:
                self._leave_behind()
            if self._made is None:
                self._waiters = []
                self._done_callbacks = [*self._done_callbacks]
                self._made = Condition()
            return self._made

    def note_process(self) -> None:
        """Make it fail in a process that is forked while it is under way."""
        self._process = forking.process.generation

    def watch(self) -> Self:
        """Log a failure that is never asked for; used for a user's futures."""
        self._is_watched = True
        if self._exception is not None and self._unasked is None:
            self._unasked = UnaskedFailure(self._exception)
        return self

    def done(self) -> bool:
        """True if it is resolved."""
        # A future that is running from the start cannot be cancelled.
        if self._state == RUNNING and self._process not in {None, forking.process.generation}:
            # Asking for the condition fails a future that a fork left behind.
            _ = self._condition
        return self._state == FINISHED

    def __await__(self) -> Generator[Any, None, T]:
        # Imported here: a program that never awaits need not load asyncio.
        from hourhand.scheduler.runtime.awaiting import settled

        return settled(self).__await__()

    def _leave_behind(self) -> None:
        """Fail a request that was under way when this process was forked: its threads are not here.

        Its callbacks belong to the parent, which calls them with the request's result there.
        """
        self._process = None
        if self._state == RUNNING:
            failure: BaseException = forking.refusal("the client that this future is of")
            self._exception = failure
            self._state = FINISHED
            self._done_callbacks = ()
        # A thread that does not exist here may have held its lock.
        self._made = None

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call ``fn`` when it is resolved, at once if it already is."""
        with _plain:
            if (
                plain := self._made is None
                and self._state == RUNNING
                and self._process
                in {
                    None,
                    forking.process.generation,
                }
            ):
                self._done_callbacks = (*self._done_callbacks, fn)
        if not plain:
            super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> T:
        """Return the result, or raise the error."""
        if self._state == FINISHED and self._exception is None:
            result: Any = self._result
            return result  # type: ignore[no-any-return]
        try:
            return super().result(timeout)
        finally:
            self._note_asked()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error, None for a result."""
        error = self._exception if self._state == FINISHED else super().exception(timeout)
        if error is not None:
            self._note_asked()
        return error

    def _note_asked(self) -> None:
        if self._state == FINISHED and self._unasked is not None:
            self._unasked.note_asked()

    def set_result(self, result: T) -> None:
        """Resolve it."""
        with _plain:
            if plain := self._made is None and self._state == RUNNING:
                self._result = result
                self._state = FINISHED
        if not plain:
            super().set_result(result)
        elif self._done_callbacks:
            self._invoke_callbacks()

    def set_exception(self, exception: BaseException | None) -> None:
        """Resolve it with a failure."""
        if self._is_watched and exception is not None:
            self._unasked = UnaskedFailure(exception)
        with _plain:
            if plain := self._made is None and self._state == RUNNING:
                self._exception = exception
                self._state = FINISHED
        if not plain:
            super().set_exception(exception)
        elif self._done_callbacks:
            self._invoke_callbacks()

    def _invoke_callbacks(self) -> None:
        interrupt = None
        for callback in self._done_callbacks:
            try:
                callback(self)
            except BaseException as error:  # noqa: BLE001 - it is logged
                # Callbacks may be anybody's code, on a thread that also resolves the futures of
                # others.
                log_raised(_callback_logger, "exception calling callback; the others are called")
                interrupt = error if is_interrupt(error) else interrupt
        # A callback that refers to this future would leave both to the cyclic collector, which
        # stops the process.
        self._done_callbacks = ()
        if interrupt is not None:
            raise interrupt


def then(future: Future[Given], answer: Callable[[Given], T]) -> LightFuture[T]:
    """Return a future for the result of ``answer`` on another's result."""
    following = LightFuture[T]()
    following.note_process()

    def settle(done: Future[Given]) -> None:
        try:
            answered = answer(done.result())
        except BaseException as error:  # noqa: BLE001 - the future fails with it
            following.set_exception(error)
        else:
            following.set_result(answered)

    future.add_done_callback(settle)
    return following


def and_then(future: Future[Given], begin: Callable[[Given], Future[T]]) -> LightFuture[T]:
    """Return a future for the one that ``begin`` makes from another's result."""
    following = LightFuture[T]()
    following.note_process()

    def go_on(done: Future[Given]) -> None:
        try:
            begun = begin(done.result())
        except BaseException as error:  # noqa: BLE001 - the future fails with it
            following.set_exception(error)
        else:
            begun.add_done_callback(lambda done: resolve(following, done.result))

    future.add_done_callback(go_on)
    return following


def resolve(future: Future[T], call: Callable[[], T]) -> None:
    """Resolve a future with the result of ``call``, or with its error."""
    try:
        returned = call()
    except BaseException as error:  # noqa: BLE001 - the future fails with it
        future.set_exception(error)
    else:
        future.set_result(returned)


def failed(error: BaseException) -> LightFuture[Any]:
    """Return a future that has failed."""
    future = LightFuture[Any]()
    future.set_exception(error)
    return future
