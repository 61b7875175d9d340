"""Dead letters: looked at, and appended to the log again where they can be read now."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Self

from msgspec import UNSET, UnsetType

from actors.model.codec import LogRecord, decode_record
from actors.model.errors import InvalidInput, PoisonRecord, TaskTooLarge
from actors.model.partition import partition_of
from actors.ports.log import LogWriter, Position
from scheduler.admin.answers import Answer, Instant, KeyText, ShownBytes, instant_text, shown_bytes
from scheduler.ports.dead_letters import ORIGIN_HEADERS, REASON_HEADER, LetterPage, LogView

_ACKNOWLEDGED_S = 60.0
_NOTED = frozenset({REASON_HEADER, *ORIGIN_HEADERS})
_ORIGIN = tuple(zip(("topic", "partition", "offset"), ORIGIN_HEADERS, strict=True))


class Origin(Answer, frozen=True):
    """Where a letter stood before."""

    topic: str | None
    partition: str | None
    offset: str | None


class ShownLetter(Answer, frozen=True, kw_only=True):
    """A dead letter."""

    place: str
    time: Instant | None
    reason: str | None
    origin: Origin
    key: KeyText | UnsetType = UNSET
    readable: bool
    """Whether it could be appended to the log again."""
    record_key: ShownBytes | None | UnsetType = UNSET
    record_value: ShownBytes | None | UnsetType = UNSET
    headers: dict[str, ShownBytes | None] | UnsetType = UNSET

    @classmethod
    def of(cls, letter: LogRecord, *, data: bool) -> Self:
        """Show a letter, with its bytes where they may be seen."""
        noted = dict(letter.headers)
        try:
            key = str(decode_record(letter).key)
        except PoisonRecord:
            key = None
        others = {name: shown_bytes(value) for name, value in letter.headers if name not in _NOTED}
        return cls(
            place=place_text(Position(letter.partition, letter.offset)),
            time=instant_text(letter.timestamp_ms),
            reason=_text(noted.get(REASON_HEADER)),
            origin=Origin(**{name: _text(noted.get(header)) for name, header in _ORIGIN}),
            key=UNSET if key is None else key,
            readable=key is not None,
            record_key=shown_bytes(letter.key) if data else UNSET,
            record_value=shown_bytes(letter.value) if data else UNSET,
            headers=others if data else UNSET,
        )


class LetterListing(Answer, frozen=True):
    """Dead letters, newest first."""

    letters: list[ShownLetter]
    next_before: str | None

    @classmethod
    def of(cls, page: LetterPage, *, data: bool) -> Self:
        """Show a page."""
        letters = [ShownLetter.of(each, data=data) for each in page.letters]
        return cls(letters=letters, next_before=page.next_before)


class Appended(Answer, frozen=True):
    """Where a letter was appended to the log."""

    partition: int
    offset: int


class ReplayResult(Answer, frozen=True):
    """What became of a letter."""

    place: str
    outcome: str
    detail: str | UnsetType = UNSET
    receipt: Appended | UnsetType = UNSET


class Replayed(Answer, frozen=True):
    """What became of letters."""

    results: list[ReplayResult]

    @property
    def replayed(self) -> int:
        """How many were appended."""
        return sum(each.outcome == "replayed" for each in self.results)


class DeadLetters:
    """Reads and replays what was put aside."""

    def __init__(self, log_view: LogView, writer: LogWriter, partition_count: int) -> None:
        self._log_view = log_view
        self._writer = writer
        self._partition_count = partition_count

    def page(self, before: str | None, limit: int) -> LetterPage:
        """Return letters, newest first; InvalidInput where ``before`` is not a place."""
        try:
            return self._log_view.letters(before, limit)
        except ValueError as error:
            raise InvalidInput(str(error)) from None

    def replay(self, places: Sequence[Position]) -> Replayed:
        """Append letters to the task topic again, each where its ordering id lives now.

        The letter stays where it is: the topic's retention removes it.
        """
        found = self._log_view.find_letters(places)
        sent = [(place, self._send(found.get(place))) for place in dict.fromkeys(places)]
        return Replayed(results=[_replayed(place, result) for place, result in sent])

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


def _replayed(place: Position, result: "Future[Position] | str") -> ReplayResult:
    text = place_text(place)
    if isinstance(result, str):
        word, _, detail = result.partition(": ")
        return ReplayResult(place=text, outcome=word, detail=detail or UNSET)
    try:
        position = result.result(timeout=_ACKNOWLEDGED_S)
    except TaskTooLarge as error:
        return ReplayResult(place=text, outcome=error.code, detail=str(error))
    receipt = Appended(partition=position.partition, offset=position.offset)
    return ReplayResult(place=text, outcome="replayed", receipt=receipt)


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
            raise InvalidInput(f"{text[:40]!r} is not a place of a dead letter, as 0:12 is one")
        places.append(Position(int(partition[:9]), int(offset[:18])))
    return places


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
