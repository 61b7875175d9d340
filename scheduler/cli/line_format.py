"""Whether what a command says on standard error is lines for people or JSON objects.

Decides the format before there are settings, as what is wrong with them is a line too: from the
arguments, the environment and the settings file, in this order.  Only commands that write the log
have a format; what others say is for the person who typed them.
"""

import json
import logging
import os
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from actors.model.display import printable_text
from scheduler.configuration.settings import CONFIG_FILE, CONFIG_VARIABLE

_COMMANDS = frozenset({"run", "admin"})
_GROUPS = frozenset({"relay", "timers", "outbox"})
"""Commands that write the log where no command of theirs is named."""
_SETTING = "observe.log_format"
_VARIABLE = "HOURHAND_OBSERVE__LOG_FORMAT"


class _Chosen:
    """What this process does; there is one standard error."""

    is_json = False
    process: int | None = None


def choose_line_format(arguments: Sequence[str]) -> None:
    """Say lines as the command with these arguments would log, before it has read its settings."""
    _Chosen.is_json = _writes_log(arguments) and _format_asked(arguments) == "json"
    _Chosen.process = None


def use_line_format(log_format: str, process: int | None = None) -> None:
    """Say lines as the log has them from now on; ``process`` is the number of one of several."""
    _Chosen.is_json = log_format == "json"
    _Chosen.process = process


def says_json() -> bool:
    """Whether lines are JSON objects."""
    return _Chosen.is_json


def line_text(line: str, *, level: str = "INFO", **fields: object) -> str:
    """Return a line as it is said: after the name, or as a JSON object with ``fields``."""
    if not _Chosen.is_json:
        return printable_text(f"hourhand: {line}")
    told: dict[str, object] = {
        # As the log's lines have it, by the clock that stamps them.
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
    """Return the format that a node would take; what is wrong is told when settings are read."""
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
    """Return each option with what follows it, written as one word or as two."""
    found = []
    for place, word in enumerate(arguments):
        name, equals, text = word.partition("=")
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        found.append((name, text if equals else following))
    return found
