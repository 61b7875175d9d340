"""Dead letters: looked at, and appended to the log again where they can be read now."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from actors.model.codec import LogRecord, decode_record
from actors.model.errors import InvalidInput, PoisonRecord, TaskTooLarge
from actors.model.partition import partition_of
from actors.ports.log import LogWriter, Position
from scheduler.admin.values import bytes_value, instant_value
from scheduler.ports.letters import ORIGIN_HEADERS, REASON_HEADER, LetterPage, LogView

_ACKNOWLEDGED_S = 60.0
_NOTED = frozenset({REASON_HEADER, *ORIGIN_HEADERS})


class Letters:
    """Reads and replays what was put aside."""

    def __init__(self, log_view: LogView, writer: LogWriter, partition_count: int) -> None:
        self._log_view = log_view
        self._writer = writer
        self._partition_count = partition_count

    def page(self, before: str | None, limit: int) -> LetterPage:
        """Return letters, newest first; InvalidInput where ``before`` is no place."""
        try:
            return self._log_view.letters(before, limit)
        except ValueError as error:
            raise InvalidInput(str(error)) from None

    def replay(self, places: Sequence[Position]) -> list[dict[str, Any]]:
        """Append letters to the task topic again, each where its ordering id lives now.

        The letter stays where it is: the topic's retention removes it.
        """
        found = self._log_view.find_letters(places)
        sent = [(place, self._send(found.get(place))) for place in dict.fromkeys(places)]
        return [_replayed(place, result) for place, result in sent]

    def _send(self, letter: LogRecord | None) -> "Future[Position] | str":
        if letter is None:
            return "unknown"
        try:
            entry = decode_record(letter)
        except PoisonRecord as error:
            return f"unreadable: {error}"
        headers = [each for each in letter.headers if each[0] not in _NOTED]
        partition = partition_of(entry.key.ordering_id, self._partition_count)
        key = entry.key.ordering_id.encode()
        return self._writer.append(partition, key, letter.value or b"", headers)


def _replayed(place: Position, result: "Future[Position] | str") -> dict[str, Any]:
    value: dict[str, Any] = {"place": place_text(place)}
    if isinstance(result, str):
        word, _, detail = result.partition(": ")
        return {**value, "outcome": word, **({"detail": detail} if detail else {})}
    try:
        position = result.result(timeout=_ACKNOWLEDGED_S)
    except TaskTooLarge as error:
        return {**value, "outcome": error.code, "detail": str(error)}
    appended = {"partition": position.partition, "offset": position.offset}
    return {**value, "outcome": "replayed", "receipt": appended}


def letter_value(letter: LogRecord, *, data: bool) -> dict[str, Any]:
    """Return a letter as a JSON value; bytes that are no text are in base64."""
    noted = {name: value for name, value in letter.headers if name in _NOTED}
    origin = {
        name.removeprefix("hourhand").lower(): _text(noted.get(name)) for name in ORIGIN_HEADERS
    }
    value: dict[str, Any] = {
        "place": place_text(Position(letter.partition, letter.offset)),
        "time": instant_value(letter.timestamp_ms),
        "reason": _text(noted.get(REASON_HEADER)),
        "origin": origin,
    }
    try:
        value["key"] = str(decode_record(letter).key)
        value["readable"] = True
    except PoisonRecord:
        value["readable"] = False
    if data:
        value["recordKey"] = bytes_value(letter.key)
        value["recordValue"] = bytes_value(letter.value)
        value["headers"] = {
            name: bytes_value(each) for name, each in letter.headers if name not in _NOTED
        }
    return value


def place_text(place: Position) -> str:
    """Return a place as text."""
    return f"{place.partition}:{place.offset}"


def parse_places(texts: Sequence[str]) -> list[Position]:
    """Read what ``place_text`` wrote; InvalidInput for anything else."""
    places = []
    for text in texts:
        partition, colon, offset = text.partition(":")
        numbers = partition.isascii() and partition.isdecimal() and offset.isdecimal()
        if not (colon and numbers and offset.isascii() and len(text) < 30):
            raise InvalidInput(f"{text[:40]!r} is no place of a dead letter, as 0:12 is one")
        places.append(Position(int(partition[:9]), int(offset[:18])))
    return places


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
