"""Calls of a driver from within its own callbacks, on a thread beside.

The driver's state of a call belongs to the thread that calls, and the end of a call within it
clears that state: the process dies at the next callback.  Decides on which thread a call runs,
and never which calls are made.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class CallsWithin:
    """Makes the calls of one driver that run callbacks; used from any thread."""

    def __init__(self) -> None:
        self._callers: set[int] = set()
        """Threads that are in such a call, and so perhaps in a callback."""

    @property
    def are_within(self) -> bool:
        """True for a thread that is in such a call: a callback of it asks."""
        return threading.get_ident() in self._callers

    def call(
        self,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        """Return what a function of the driver returns, or raise what it raises."""
        if self.are_within:
            return self._call_beside(lambda: self.call(function, *args, **named))
        caller = threading.get_ident()
        self._callers.add(caller)
        try:
            return function(*args, **named)
        finally:
            self._callers.discard(caller)

    @staticmethod
    def _call_beside(call: Callable[[], Result]) -> Result:
        returned: Future[Result] = Future()

        def run() -> None:
            try:
                returned.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                returned.set_exception(error)

        threading.Thread(target=run, name="hourhand-producer-beside", daemon=True).start()
        return returned.result()
