"""A failure of a request that nobody asks for is logged, as asyncio does.

Decides when nobody can ask any more, which is when the future is gone, and what is said then.  It
costs a request that succeeds nothing: there is nothing of it before the failure.
"""

import logging
import sys

from actors.model.display import class_name_of, message_of
from actors.model.errors import HourhandError

logger = logging.getLogger("hourhand.client")

_OWN_PACKAGES = frozenset({"actors", "hourhand", "scheduler"})


class UnaskedFailure:
    """Stands beside the failure in a future, and is logged with it unless it was asked for."""

    __slots__ = ("_error", "_place")

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error
        self._place = _place_of_call()

    def note_asked(self) -> None:
        """Say nothing any more."""
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
    """Return the line that asked, where the failure comes at once; nothing where it comes later."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way that costs no walk of all frames
    while frame is not None:
        top = frame.f_globals.get("__name__", "").partition(".")[0]
        if top in {"threading", "concurrent"}:
            break
        if top not in _OWN_PACKAGES:
            return f" ({frame.f_code.co_filename}:{frame.f_lineno})"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
