"""A request that is repeated, after a pause, until it is answered or refused for good.

Decides when to repeat it; the caller decides which errors may pass and the pauses.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from hourhand.actors.kernel.context import ActorContext, Resume

Pause = Callable[[BaseException, int], float | None]
"""Returns, for a failure and the number of consecutive ones, the pause in ms before another try, or
None if a retry cannot help."""
Listener = Callable[[BaseException | None], None]
"""Called with each failure that is retried, and with None once the request succeeds after failures.
Any thread may call it."""


def retry_request(
    context: ActorContext, request: Callable[[], Future[Any]], pause: Pause, listener: Listener
) -> Future[Any]:
    """Send a request, and repeat it as long as ``context`` lives; return the future of the last
    answer.

    Cancelling that future ends the retries. The request must be repeatable, because a failed one
    may have had its effect.
    """
    asking = _RetriedRequest(context, request, pause, listener)
    asking.ask()
    return asking.answer


class _RetriedRequest:
    """One request on its way, and the answer for its caller."""

    __slots__ = ("_context", "_failures", "_listener", "_pause", "_request", "answer")

    def __init__(
        self,
        context: ActorContext,
        request: Callable[[], Future[Any]],
        pause: Pause,
        listener: Listener,
    ) -> None:
        self._context = context
        self._request = request
        self._pause = pause
        self._listener = listener
        self._failures = 0
        self.answer: Future[Any] = Future()

    def ask(self) -> None:
        if self.answer.cancelled():
            return
        try:
            future = self._request()
        except Exception as error:  # noqa: BLE001 - a request that cannot be made has failed
            self._fail(error)
        else:
            future.add_done_callback(self._take)

    def _take(self, done: Future[Any]) -> None:
        """Handle an answer, on any thread."""
        try:
            result = done.result()
        except BaseException as error:  # noqa: BLE001 - it belongs to the asker
            self._fail(error)
            return
        if self._ends():
            self.answer.set_result(result)

    def _fail(self, error: BaseException) -> None:
        self._context.post(self._context, Resume(partial(self._consider, error)))

    def _consider(self, error: BaseException) -> None:
        pause_ms = self._pause(error, self._failures + 1)
        assert pause_ms is None or pause_ms >= 0, "a pause does not go back in time"
        if pause_ms is None:
            if self._ends():
                self.answer.set_exception(error)
        elif not self.answer.cancelled():
            self._failures += 1
            self._listener(error)
            self._context.after(pause_ms, Resume(self.ask))

    def _ends(self) -> bool:
        """Report the end of failures; return False if the caller has cancelled."""
        if not self.answer.set_running_or_notify_cancel():
            return False
        if self._failures:
            self._listener(None)
        return True
