"""The log of a process: each line goes through the node, which writes one stream.

Decides which attempt a line is about.  Never writes anywhere itself.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from hourhand.actors.model.execution.interruption import current_attempt
from hourhand.actors.model.values.display import logged_stack, storable_text
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.processes.process_frames import FrameKind, Logged
from hourhand.scheduler.ports.user_places import ProcessPlan

LINE_CHARS_MAX = 32_000

AtHand = Callable[[], tuple[int, Sequence[RunningAttempt]]]


class PipedLines(logging.Handler):
    """Sends each line to the node."""

    def __init__(self, send: Callable[[FrameKind, object], None]) -> None:
        super().__init__()
        self._send = send
        self._at_hand: AtHand = lambda: (0, ())

    def look_at(self, at_hand: AtHand) -> None:
        """Have lines name the attempt that runs, by the work at hand."""
        self._at_hand = at_hand

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line, if it can be formatted."""
        try:
            stack = None
            if record.exc_text is not None:
                stack = record.exc_text
            elif record.exc_info and record.exc_info[1] is not None:
                stack = logged_stack(self._format_exception(record.exc_info))
            seq, added = self._at_hand()
            attempt = current_attempt()
            place = next((i for i, each in enumerate(added) if each.attempt is attempt), -1)
            self._send(
                FrameKind.LOGGED,
                Logged(
                    record.name,
                    record.levelno,
                    storable_text(record.getMessage())[:LINE_CHARS_MAX],
                    record.created,
                    record.pathname,
                    record.lineno,
                    record.funcName or "",
                    None if stack is None else storable_text(stack)[-LINE_CHARS_MAX:],
                    seq,
                    place,
                ),
            )
        except Exception:  # noqa: BLE001 - a message that cannot be formatted is user code
            self.handleError(record)

    @staticmethod
    def _format_exception(exc_info: Any) -> str:
        return logging.Formatter().formatException(exc_info)


def log_to(send: Callable[[FrameKind, object], None], plan: ProcessPlan) -> PipedLines:
    """Send all lines of this process from now on, from the levels on that the node has."""
    lines = PipedLines(send)
    root = logging.getLogger()
    root.handlers[:] = [lines]
    root.setLevel(plan.log_level)
    for name, level in plan.log_levels.items():
        logging.getLogger(name).setLevel(level)
    return lines
