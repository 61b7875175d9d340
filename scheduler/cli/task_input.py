"""Values that a person types about a task: moments, durations, data, files.

Decides which texts are understood; for all others it says what is expected (InvalidTask). ``Task``
and the client judge everything about the task itself.
"""

import codecs
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from hourhand.actors.model.task.codec import Command, CommandKind, LogRecord, decode_record
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import HourhandError, InvalidTask, PoisonRecord
from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    from_millis,
    parse_instant,
)

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+", re.ASCII)

LINE_BYTES_MAX = 100_000_000
"""The most that ``client.record_bytes_max`` may allow."""

OnInvalidLine = Callable[[int, HourhandError], None]


def parse_duration_ms(text: str) -> int:
    """Read ``10s``, ``1h30m``, ``250ms``, ``2d``; weeks are ``w``."""
    if not _DURATION.fullmatch(text):
        raise InvalidTask(
            f"{text!r} is not a duration: write a number and one of {', '.join(_UNITS_MS)},"
            " such as 10s or 1h30m"
        )
    parts = _DURATION_PART.findall(text)
    duration_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    if duration_ms > INSTANT_MAX_MS - INSTANT_MIN_MS:
        raise InvalidTask(f"{text[:80]!r} is longer than years 1 to 9999")
    return round(duration_ms)


def parse_expires(text: str) -> datetime | timedelta:
    """Read an RFC 3339 instant with a zone, or a duration from the task's time on."""
    if _DURATION.fullmatch(text):
        return timedelta(milliseconds=parse_duration_ms(text))
    try:
        return from_millis(parse_instant(text))
    except ValueError as error:
        raise InvalidTask(f"{error}; a duration after the task's time is as 10s or 1h30m") from None


def parse_moment_ms(text: str, now_ms: int) -> int:
    """Read an RFC 3339 instant with a zone, ``now``, or a duration from now: ``+2h``, ``-1d``."""
    if text == "now":
        return now_ms
    if text[:1] in ("+", "-"):
        sign = -1 if text[0] == "-" else 1
        return _within_years(text, now_ms + sign * parse_duration_ms(text[1:]))
    try:
        return parse_instant(text)
    except ValueError as error:
        raise InvalidTask(
            f"{error}: write 2026-02-09T01:41:12Z or 2026-02-09T02:41:12+01:00"
        ) from None


def due_ms(at: str | None, delay: str | None, now_ms: int, names: str) -> int:
    """Return the moment that one of ``at`` and ``delay`` gives; ``names`` is for the error."""
    if at is not None and delay is not None:
        raise InvalidTask(f"{names} are both given: leave out one of them")
    if at is not None:
        return parse_moment_ms(at, now_ms)
    if delay is None:
        raise InvalidTask(f"the time is missing: give one of {names}")
    return _within_years(delay, now_ms + parse_duration_ms(delay))


def _within_years(text: str, time_ms: int) -> int:
    if not INSTANT_MIN_MS <= time_ms <= INSTANT_MAX_MS:
        raise InvalidTask(f"{text!r} from now lies outside years 1 to 9999")
    return time_ms


def parse_dates(text: str | None) -> list[str]:
    """Read dates between commas or spaces, or ``@file`` (``@-``: standard input) that holds them;
    what follows a ``#`` in a line is a comment. The dates themselves are judged by the rule.
    """
    if text is None:
        return []
    if text.startswith("@"):
        text = _file_text(text[1:])
    lines = (line.partition("#")[0] for line in text.splitlines())
    return " ".join(lines).replace(",", " ").split()


def _file_text(name: str) -> str:
    """Return the text of a file, or of standard input for ``-``."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidTask(f"cannot read {name}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidTask(f"{name} is not text in UTF-8: {error}") from None


def parse_data(text: str) -> dict[str, Any]:
    """Read a JSON object, or ``@file`` (``@-``: standard input) that holds one."""
    where = "--data"
    try:
        if text.startswith("@"):
            where = text[1:]
            text = sys.stdin.read() if where == "-" else Path(where).read_text(encoding="utf-8")
        data = json.loads(text)
    except OSError as error:
        raise InvalidTask(f"cannot read {where}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidTask(f"{where} is not JSON: {error}, got {text[:80]!r}") from None
    if not isinstance(data, dict):
        raise InvalidTask(f"{where} must be a JSON object, such as '{{\"invoice\": 42}}'")
    return data


def parse_follower(text: str) -> Task:
    """Read the task that follows others, as a line of a file has it, or ``@file`` (``@-``: standard
    input) that holds one.
    """
    where = "--then" if not text.startswith("@") else text[1:]
    if text.startswith("@"):
        text = _file_text(where)

    def refuse(_number: int, error: HourhandError) -> None:
        raise InvalidTask(f"{where} is not a task: {error}")

    # An argument that is not UTF-8 becomes bytes again, which are refused as those of a file are.
    content = text.encode(errors="surrogateescape")
    # A task may be written over several lines here.
    found = list(read_tasks(io.BytesIO(b" ".join(content.splitlines())), refuse))
    if not found:
        raise InvalidTask(f"{where} is empty: it has the task that follows, as a JSON object")
    return found[0]


def read_tasks(lines: BinaryIO, on_invalid: OnInvalidLine) -> Iterator[Task]:
    """Yield the tasks of a file that holds one record of the log's format a line.

    ``on_invalid`` gets the number of each line that is not a task, and reading continues; empty
    lines and a byte order mark are skipped. At most the size of one record is held in memory,
    however long a line is.
    """
    for number, line in enumerate(_lines(lines), start=1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if not text.strip():
            continue
        try:
            if len(text) > LINE_BYTES_MAX:
                raise PoisonRecord(
                    f"it is longer than the {LINE_BYTES_MAX} bytes a record can have"
                )
            record = decode_record(LogRecord(-1, -1, 0, None, text))
            if isinstance(record, Command) and record.kind is CommandKind.REPLACE:
                raise PoisonRecord("a replace is not a task: leave out the command, give --replace")
            if isinstance(record, Command):
                raise PoisonRecord(f"a {record.kind} is not a task; use `hourhand {record.kind}`")
            if record.links is not None:
                raise PoisonRecord("a file's tasks have no links: a follower is given with --then")
        except PoisonRecord as error:
            on_invalid(number, error)
            continue
        yield record.to_task()


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Yield lines, each cut one byte after the allowed size."""
    while line := source.readline(LINE_BYTES_MAX + 1):
        yield line
        part = line
        while len(part) > LINE_BYTES_MAX and not part.endswith(b"\n"):
            part = source.readline(LINE_BYTES_MAX + 1)
