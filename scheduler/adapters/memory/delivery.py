"""The one place where a simulated network decides when a request to a fake takes effect.

A fake hands every request to its ``Deliver``. By default it is served at once. A simulation may
keep it and serve it later, let it take effect and lose the answer, or fail it.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from hourhand.scheduler.runtime.light_future import LightFuture

Answer = TypeVar("Answer")


class Request(Generic[Answer]):
    """A request to the log or the store that is not yet served.

    Requests of one ``kind`` and ``partition`` have the order in which they were made; ``append``
    requests of one partition must be applied in it.
    """

    def __init__(self, kind: str, partition: int, effect: Callable[[], Answer]) -> None:
        self.kind = kind
        """The port's method, as in ``insert_tasks``."""
        self.partition = partition
        # It runs from the start: a caller cannot cancel what may be under way.
        self.future = LightFuture[Answer]()
        self._effect = effect
        self._result: Answer | None = None
        self._error: Exception | None = None
        self._applied = False

    def __call__(self) -> None:
        """Take effect and answer."""
        self.apply()
        self.answer()

    def apply(self) -> None:
        """Take effect; only once, even if called again after a failed answer."""
        if self._applied:
            return
        self._applied = True
        try:
            self._result = self._effect()
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the caller
            self._error = error

    def answer(self) -> None:
        """Resolve the caller's future with the effect; nothing if it was answered before."""
        assert self._applied, "there is nothing to tell before the effect"
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(cast("Answer", self._result))

    def fail(self, error: Exception) -> None:
        """Fail the caller's future, whether the request took effect or not."""
        if not self.future.done():
            self.future.set_exception(error)


Deliver = Callable[[Request[Any]], None]


def at_once(request: Request[Any]) -> None:
    """Serve a request as soon as it is made."""
    request()
