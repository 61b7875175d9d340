"""The format of a command's lines on standard error: lines for people, or JSON objects.

Decides the format before settings are loaded, because an error in the settings is a line too: from
the arguments, the environment and the settings file, in this order. Only commands that write the
log have a format; the lines of all others are for the person who typed them.
"""

import json
import logging
import os
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hourhand.actors.model.values.display import printable_text
from hourhand.scheduler.configuration.settings import CONFIG_FILE, CONFIG_VARIABLE

_COMMANDS = frozenset({"run", "admin"})
_GROUPS = frozenset({"relay", "timers", "outbox"})
"""Commands that write the log when they are called without a subcommand."""
_SETTING = "observe.log_format"
_VARIABLE = "HOURHAND_OBSERVE__LOG_FORMAT"


class _Chosen:
    """The format that this process uses; a process has one standard error."""

    is_json = False
    process: int | None = None


def choose_line_format(arguments: Sequence[str]) -> None:
    """Use the log format of the command with these arguments, before it has read its settings."""
    _Chosen.is_json = _writes_log(arguments) and _format_asked(arguments) == "json"
    _Chosen.process = None


def use_line_format(log_format: str, process: int | None = None) -> None:
    """Use the log's format for lines from now on; ``process`` is the number of one of several."""
    _Chosen.is_json = log_format == "json"
    _Chosen.process = process


def says_json() -> bool:
    """True if lines are JSON objects."""
    return _Chosen.is_json


def line_text(line: str, *, level: str = "INFO", **fields: object) -> str:
    """Return a line after the program's name, or as a JSON object with ``fields``."""
    if not _Chosen.is_json:
        return printable_text(f"hourhand: {line}")
    told: dict[str, object] = {
        # The same form and clock as the log's own lines.
        "time": datetime.fromtimestamp(logging.makeLogRecord({}).created, UTC).isoformat(
            timespec="milliseconds"
        ),
        "level": level,
        "logger": "hourhand.cli",
        "message": line,
    }
    if _Chosen.process is not None:
        told["process"] = _Chosen.process
    return json.dumps(told | fields, ensure_ascii=True, default=str)


def _writes_log(arguments: Sequence[str]) -> bool:
    first, second = [*arguments[:2], "", ""][:2]
    return first in _COMMANDS or (first in _GROUPS and (not second or second.startswith("-")))


def _format_asked(arguments: Sequence[str]) -> object:
    """Return the log format that a node would use; errors in it are reported when settings are
    read.
    """
    settings = [text for name, text in _options(arguments) if name == "--set"]
    given = [text.partition("=")[2] for text in settings if text.partition("=")[0] == _SETTING]
    if given:
        return given[-1]
    if _VARIABLE in os.environ:
        return os.environ[_VARIABLE]
    files = [text for name, text in _options(arguments) if name == "--config"]
    path = files[-1] if files else os.environ.get(CONFIG_VARIABLE, CONFIG_FILE)
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    observe = found.get("observe")
    return observe.get("log_format") if isinstance(observe, dict) else None


def _options(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return each option with the argument after it, written as one word or as two."""
    found = []
    for place, word in enumerate(arguments):
        name, equals, text = word.partition("=")
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        found.append((name, text if equals else following))
    return found
