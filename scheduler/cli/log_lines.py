"""The program's log as lines for people or as JSON objects, each with the task it is about.

Decides the fields. A line about a task, or written while one runs, names its key and ordering id;
the task's data is logged only if the settings say so.
"""

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Any

from hourhand.actors.model.execution.interruption import current_attempt
from hourhand.actors.model.values.display import logged_stack, message_of, printable_text
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.cli.line_format import use_line_format
from hourhand.scheduler.configuration.door_settings import ObserveSettings
from hourhand.scheduler.configuration.settings import Settings

_PEOPLE = "%(asctime)s %(levelname)-7s {process}%(name)s %(message)s"
_STACK_CHARS_MAX = 8_000


class TextLines(logging.Formatter):
    """One line for a person; the stack of an error follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text. A message is always one line and cannot control the terminal."""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        lines = [printable_text(self.formatMessage(record))]
        if record.exc_info and record.exc_info[1] is not None:
            lines.append(logged_stack(record.exc_text or self.formatException(record.exc_info)))
        if record.stack_info:
            lines.append(logged_stack(record.stack_info))
        return "\n".join(lines)


class JsonLines(logging.Formatter):
    """One JSON object a line, with known fields only."""

    def __init__(self, *, task_data: bool = False, process: int | None = None) -> None:
        super().__init__()
        self._task_data = task_data
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. A field cannot break it in two."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._process,
        }
        event = getattr(record, "event", None)
        if event is not None:
            line["event"] = event
            line |= getattr(record, "event_fields", {})
        line |= self._task_fields(record)
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = type(record.exc_info[1]).__name__
            line["error_message"] = message_of(record.exc_info[1])
            stack = record.exc_text or self.formatException(record.exc_info)
            line["stack"] = stack[-_STACK_CHARS_MAX:]
        return json.dumps(line, ensure_ascii=True, default=str)

    def _task_fields(self, record: logging.LogRecord) -> dict[str, object]:
        """Return the task that the line is about: the event's own, else the one that runs on this
        thread.
        """
        key = getattr(record, "event_key", None)
        attempt = current_attempt()
        if key is None and attempt is None:
            return {}
        found: dict[str, object] = {}
        if attempt is not None and key in (None, attempt.task.key):
            key = attempt.task.key
            found = {"attempt": attempt.number, "partition": attempt.partition}
            if self._task_data:
                found["task_data"] = json.loads(attempt.task.data)
        assert key is not None, "one of the two is known"
        return {"key": str(key), "ordering_id": key.ordering_id, **found}


def _log_thread_failure(failed: "threading.ExceptHookArgs") -> None:
    """Log the error that ended a thread, which Python would print; a hook of ``threading``."""
    if failed.exc_value is not None and not isinstance(failed.exc_value, SystemExit):
        name = "" if failed.thread is None else failed.thread.name
        trace = (failed.exc_type, failed.exc_value, failed.exc_traceback)
        logging.getLogger("hourhand").error("the thread %s failed", name, exc_info=trace)


def log_to_stderr(
    level: str, settings: Settings | None = None, *, process: int | None = None
) -> None:
    """Show the node's log from a level on; SettingsInvalid for an unknown level.

    If several processes write one stream, each line names its process.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise SettingsInvalid(f"--log-level {level!r} is not one of debug, info, warning, error")
    observe = ObserveSettings() if settings is None else settings.observe
    handler = logging.StreamHandler(sys.stderr)
    use_line_format(observe.log_format, process)
    if observe.log_format == "json":
        # Python itself prints warnings and threads' errors as plain text.
        logging.captureWarnings(capture=True)
        threading.excepthook = _log_thread_failure
        handler.setFormatter(JsonLines(task_data=observe.log_task_data, process=process))
    else:
        marked = "" if process is None else f"[{process}] "
        handler.setFormatter(TextLines(_PEOPLE.format(process=marked)))
    logging.basicConfig(handlers=[handler], level=max(number, logging.INFO))
    # Hourhand's logger alone gets the level: debug lines of drivers would bury the node's.
    logging.getLogger("hourhand").setLevel(number)
