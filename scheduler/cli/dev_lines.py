"""The log of ``hourhand dev``: short coloured lines for the person who writes the code.

Decides which events are shown: the end of each attempt of the person's own tasks, and all that is
told from INFO on. Colours are left out where the output is not a terminal, or the environment says
so (``NO_COLOR``).
"""

import logging

from rich.console import Console
from rich.text import Text

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.values.display import duration_text, logged_stack, printable_text
from hourhand.actors.model.values.errors import SettingsInvalid

_ENDED, _FAILED = "AttemptFinished", "AttemptFailed"
_TIME = "%H:%M:%S"
_STYLES = (
    (logging.ERROR, "bold red"),
    (logging.WARNING, "yellow"),
    (logging.INFO, ""),
    (logging.NOTSET, "dim"),
)


class DevLines(logging.Handler):
    """Writes records to standard error; below ``level`` only the ends of attempts."""

    def __init__(self, level: int, console: Console | None = None) -> None:
        super().__init__()
        self._least = level
        self._console = Console(stderr=True, soft_wrap=True) if console is None else console

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, if it is for this reader."""
        event = getattr(record, "event", None)
        if record.levelno < self._least and event != _ENDED:
            return
        try:
            line = self._line(record, event)
            if line is not None:
                self._console.print(line, highlight=False)
        except Exception:  # noqa: BLE001 - as every handler of logging
            self.handleError(record)

    def _line(self, record: logging.LogRecord, event: str | None) -> Text | None:
        time = logging.Formatter().formatTime(record, _TIME)
        line = Text.assemble((f"{time} ", "dim"))
        fields = getattr(record, "event_fields", {})
        if event == _ENDED:
            if fields["error_class"] is not None or _is_own(record):
                # AttemptFailed has told more of it; a task of Hourhand itself is no news.
                return None
            line.append(f"{fields['result']:8} ", "green" if _is_success(fields) else "cyan")
            line.append(f"{_task_words(record, fields)} in {duration_text(fields['duration_ms'])}")
        elif event == _FAILED:
            line.append(f"{fields['result']:8} ", "bold red")
            error = f"{fields['error']}: {fields['error_message']}"
            line.append(printable_text(f"{_task_words(record, fields)}: {error}"))
        else:
            style = next(style for least, style in _STYLES if record.levelno >= least)
            line.append(f"{record.levelname.lower():8} ", style)
            line.append(printable_text(record.getMessage()), style)
        if record.exc_info and record.exc_info[1] is not None:
            stack = record.exc_text or logging.Formatter().formatException(record.exc_info)
            line.append("\n" + logged_stack(stack), "dim")
        return line


def _is_success(fields: "dict[str, object]") -> bool:
    return fields["result"] == AttemptResult.SUCCESS


def _is_own(record: logging.LogRecord) -> bool:
    key = getattr(record, "event_key", None)
    return isinstance(key, TaskKey) and key.ordering_id.startswith(RESERVED)


def _task_words(record: logging.LogRecord, fields: "dict[str, object]") -> str:
    key = getattr(record, "event_key", None)
    attempt = "" if fields.get("attempt") == 1 else f", attempt {fields.get('attempt')}"
    return printable_text(f"{fields.get('kind') or 'task'} {key}{attempt}")


def log_for_developer(level: str) -> None:
    """Show the log in coloured lines; SettingsInvalid for an unknown level."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise SettingsInvalid(f"--log-level {level!r} is not one of debug, info, warning, error")
    logging.basicConfig(handlers=[DevLines(number)], level=max(number, logging.INFO))
    logging.getLogger("hourhand").setLevel(logging.DEBUG)
