"""Dead letters: read, and brought back where they can be read now.

Decides the command that is sent for a letter: the task's data goes with a retry of its key, so the
owner of its partition decides, in the order of the log, whether it runs again (P5). An outcome is
reported only after the owner's decision.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, Self

from msgspec import UNSET, UnsetType

from hourhand.actors.model.task.codec import (
    Command,
    CommandKind,
    LogRecord,
    decode_record,
    encode_command,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import (
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import (
    InvalidInput,
    LogUnavailable,
    PoisonRecord,
    TaskTooLarge,
)
from hourhand.actors.model.values.settings import TreeSettings
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import LogWriter, Position
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.admin.acting import (
    ACKNOWLEDGED_S,
    RESULTS_MAX,
    ActReport,
    await_decisions,
)
from hourhand.scheduler.admin.answers import (
    Answer,
    Instant,
    KeyText,
    ShownBytes,
    instant_text,
    shown_bytes,
)
from hourhand.scheduler.admin.outcome_words import said_of
from hourhand.scheduler.admin.problems import Problem
from hourhand.scheduler.ports.dead_letters import ORIGIN_HEADERS, REASON_HEADER, LetterPage, LogView
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.tasks.outcomes import found_outcome

_NOTED = frozenset({REASON_HEADER, *ORIGIN_HEADERS})
_ORIGIN = tuple(zip(("topic", "partition", "offset"), ORIGIN_HEADERS, strict=True))
_PAGE_LETTERS = 500
_PAGES_MAX = 50
"""Pages that one listing reads; the rest is for the next one."""
_IN_FLIGHT_MAX = 500
_REPLAYED = "replayed"
_FAILED = frozenset({CompletionResult.FAILURE, CompletionResult.DROPPED})
"""Ends of a task after which its letter can be brought back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """A choice of dead letters: a range of time, kinds, a class of error."""

    from_ms: int | None = None
    to_ms: int | None = None
    kinds: frozenset[str] = frozenset()
    error_class: str | None = None

    @property
    def is_of_tasks(self) -> bool:
        """True if the filter chooses only letters that can be read as tasks."""
        return bool(self.kinds) or self.error_class is not None


class _ReadLetter(NamedTuple):
    """A letter, the task that was read from it, and the stored state of that task."""

    letter: LogRecord
    entry: StoredTask | Command | None
    completion: Completion | None
    error_class: str | None
    error_message: str | None

    @property
    def replayable(self) -> bool:
        """True if its task failed, was dropped, or is not known to be closed."""
        completion = self.completion
        return self.entry is not None and (completion is None or completion.result in _FAILED)


class Origin(Answer, frozen=True):
    """The original place of a letter's record."""

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
    kind: str | UnsetType = UNSET
    readable: bool
    """True if it can be read as a task or a command."""
    replayable: bool
    """True if it is readable, and its task did not end well, and was not cancelled, moved or opened
    again since."""
    ended: CompletionResult | UnsetType = UNSET
    """The end of its task, if the store still knows it."""
    error: str | UnsetType = UNSET
    """Class and message of its task's last error."""
    record_key: ShownBytes | None | UnsetType = UNSET
    record_value: ShownBytes | None | UnsetType = UNSET
    headers: dict[str, ShownBytes | None] | UnsetType = UNSET

    @classmethod
    def of(cls, known: _ReadLetter, *, data: bool) -> Self:
        """Show a letter, with its bytes if ``data`` is True."""
        letter, entry, completion = known.letter, known.entry, known.completion
        noted = dict(letter.headers)
        kind = entry.kind if isinstance(entry, StoredTask) else None
        error = known.error_class and f"{known.error_class}: {known.error_message or ''}"
        others = {name: shown_bytes(value) for name, value in letter.headers if name not in _NOTED}
        return cls(
            place=place_text(Position(letter.partition, letter.offset)),
            time=instant_text(letter.timestamp_ms),
            reason=_text(noted.get(REASON_HEADER)),
            origin=Origin(**{name: _text(noted.get(header)) for name, header in _ORIGIN}),
            key=UNSET if entry is None else str(entry.key),
            kind=kind or UNSET,
            readable=entry is not None,
            replayable=known.replayable,
            ended=UNSET if completion is None else completion.result,
            error=error or UNSET,
            record_key=shown_bytes(letter.key) if data else UNSET,
            record_value=shown_bytes(letter.value) if data else UNSET,
            headers=others if data else UNSET,
        )


class LetterListing(Answer, frozen=True):
    """Dead letters, newest first."""

    letters: list[ShownLetter]
    next_before: str | None


class Appended(Answer, frozen=True):
    """The place in the log of the record that was appended for a letter."""

    partition: int
    offset: int


class ReplayResult(Answer, frozen=True):
    """The outcome of the replay of a letter."""

    place: str
    outcome: str
    """``replayed`` if its task will run; else the owner's decision, or the reason why nothing was
    sent."""
    detail: str | UnsetType = UNSET
    receipt: Appended | UnsetType = UNSET


class Replayed(ActReport, frozen=True):
    """The outcomes of the replay of letters."""

    results: list[ReplayResult]


@dataclass(slots=True)
class _Sent:
    """A letter to bring back, and its outcome so far."""

    place: Position
    word: str
    key: TaskKey | None = None
    is_task: bool = False
    detail: str | None = None
    position: Position | None = None

    def take_note(self, outcome: RecordedOutcome | None) -> bool:
        """Note the owner's decision; False if there is none yet."""
        if outcome is None:
            return False
        is_opened = self.is_task and outcome.outcome is CommandOutcome.APPLIED
        self.word = _REPLAYED if is_opened else outcome.outcome.value
        return True

    @property
    def shown(self) -> ReplayResult:
        """The result for the answer."""
        at = self.position
        return ReplayResult(
            place=place_text(self.place),
            outcome=self.word,
            detail=self.detail or UNSET,
            receipt=UNSET if at is None else Appended(partition=at.partition, offset=at.offset),
        )


class DeadLetters:
    """Reads and replays dead letters; used from any thread."""

    def __init__(
        self,
        log_view: LogView,
        writer: LogWriter,
        stores: Stores,
        clock: Clock,
        partition_count: int,
        tree: TreeSettings,
    ) -> None:
        self._log_view = log_view
        self._writer = writer
        self._stores = stores
        self._clock = clock
        self._partition_count = partition_count
        self._known_for_ms = tree.watermark.completion_retention_ms
        """The minimum time for which the store knows how a task ended."""
        self._row_bytes_max = tree.execution.row_bytes_max

    def page(self, before: str | None, limit: int) -> LetterPage:
        """Return letters, newest first; InvalidInput where ``before`` is not a place."""
        try:
            return self._log_view.letters(before, limit)
        except ValueError as error:
            raise InvalidInput(str(error)) from None

    def listing(
        self, before: str | None, limit: int, chosen: LetterFilter, *, data: bool
    ) -> LetterListing:
        """Return letters, newest first; InvalidInput where ``before`` is not a place.

        They may be fewer than ``limit`` if few of many match: the next page begins at
        ``next_before``.
        """
        found: list[_ReadLetter] = []
        for _ in range(_PAGES_MAX):
            page = self.page(before, limit - len(found))
            found += self._chosen(page.letters, chosen)
            before = None if _is_past(page.letters, chosen) else page.next_before
            if before is None or len(found) == limit:
                break
        letters = [ShownLetter.of(each, data=data) for each in found]
        return LetterListing(letters=letters, next_before=before)

    def selected(self, chosen: LetterFilter, letters_max: int) -> list[Position]:
        """Return the places of all letters that can be brought back, the newest of each key, in key
        order, so that tasks of one ordering id run in order.

        Leaves out old letters whose tasks the store has forgotten: they may have ended well since.
        Raises Problem if there are more than an act may concern.
        """
        known_since_ms = self._clock.now_ms() - self._known_for_ms
        places: dict[TaskKey, Position] = {}
        before: str | None = None
        while True:
            page = self.page(before, _PAGE_LETTERS)
            for each in self._chosen(page.letters, chosen):
                is_known = each.completion is not None
                if not is_known and each.letter.timestamp_ms < known_since_ms:
                    continue
                if each.replayable and each.entry is not None:
                    place = Position(each.letter.partition, each.letter.offset)
                    places.setdefault(each.entry.key, place)
            if len(places) > letters_max:
                raise Problem(
                    409,
                    "too-many-tasks",
                    f"more than {letters_max} letters match (admin.bulk_keys_max): narrow the"
                    " filter",
                )
            before = None if _is_past(page.letters, chosen) else page.next_before
            if before is None:
                return [places[key] for key in sorted(places)]

    def replay(self, places: Sequence[Position], wait_s: float) -> Replayed:
        """Bring letters back, each by the owner of its ordering id; wait for the decisions.

        A letter stays in its topic until retention removes it. Raises LogUnavailable and
        StoreUnavailable.
        """
        sent: list[_Sent] = []
        asked = list(dict.fromkeys(places))
        for start in range(0, len(asked), _IN_FLIGHT_MAX):
            some = asked[start : start + _IN_FLIGHT_MAX]
            found = self._log_view.find_letters(some)
            sending = [self._send(place, found.get(place)) for place in some]
            sent += [_acknowledged(each, appended) for each, appended in sending]
        waiting = [each for each in sent if each.position is not None]
        await_decisions(waiting, self._decision, _Sent.take_note, wait_s, self._clock)
        outcomes = dict(Counter(each.word for each in sent))
        return Replayed(
            asked=len(sent),
            outcomes=outcomes,
            said=said_of("replay", outcomes),
            results=[each.shown for each in sent[:RESULTS_MAX]],
        )

    def _send(
        self, place: Position, letter: LogRecord | None
    ) -> "tuple[_Sent, Future[Position] | None]":
        if letter is None:
            return _Sent(place, "unknown"), None
        try:
            entry = decode_record(letter)
        except PoisonRecord as error:
            return _Sent(place, "unreadable", detail=str(error)), None
        is_task = isinstance(entry, StoredTask)
        value = letter.value or b""
        if isinstance(entry, StoredTask):
            value = encode_command(Command(CommandKind.RETRY, entry.key, body=entry.body))
            if len(value) > self._row_bytes_max:
                return _Sent(place, TaskTooLarge.code, detail=self._too_large(value)), None
        headers = [each for each in letter.headers if each[0] not in _NOTED]
        partition = partition_of(entry.key.ordering_id, self._partition_count)
        key = entry.key.ordering_id.encode()
        sent = _Sent(place, "undecided", entry.key, is_task)
        return sent, self._writer.append(partition, key, value, headers)

    def _too_large(self, value: bytes) -> str:
        return (
            f"{len(value)} bytes with the words of a replay, a node takes"
            f" {self._row_bytes_max} (tree.execution.row_bytes_max): retry the task by its key"
        )

    def _decision(self, sent: _Sent) -> "Future[RecordedOutcome | None]":
        assert sent.position is not None, "only a sent command is decided"
        partition, offset = sent.position
        return begun(found_outcome(self._stores, partition, offset, sent.key))

    def _chosen(self, letters: Sequence[LogRecord], chosen: LetterFilter) -> list[_ReadLetter]:
        in_time = [each for each in letters if _is_in_time(each, chosen)]
        entries = list(zip(in_time, map(_read, in_time), strict=True))
        if chosen.is_of_tasks:
            entries = [
                (letter, entry)
                for letter, entry in entries
                if isinstance(entry, StoredTask)
                and (not chosen.kinds or entry.kind in chosen.kinds)
            ]
        known = self._known(entries)
        wanted = chosen.error_class
        return [each for each in known if wanted is None or each.error_class == wanted]

    def _known(
        self, entries: Sequence[tuple[LogRecord, StoredTask | Command | None]]
    ) -> Iterator[_ReadLetter]:
        """Ask the store about all tasks of a page in one request."""
        by_partition: dict[int, dict[TaskKey, None]] = {}
        for _, entry in entries:
            if isinstance(entry, StoredTask):
                partition = partition_of(entry.key.ordering_id, self._partition_count)
                by_partition.setdefault(partition, {})[entry.key] = None
        status = self._stores.status
        asked = [
            (
                status.find_completions(partition, list(keys)),
                status.find_attempts(partition, list(keys)),
            )
            for partition, keys in by_partition.items()
        ]
        completions: dict[TaskKey, Completion] = {}
        errors: dict[TaskKey, tuple[str | None, str | None]] = {}
        for found, attempts in asked:
            completions.update(answered(found).items())
            for each in answered(attempts):
                errors[each.key] = each.error_class, each.error_message
        for letter, entry in entries:
            key = entry.key if isinstance(entry, StoredTask) else None
            of_key = (None, None) if key is None else errors.get(key, (None, None))
            yield _ReadLetter(letter, entry, None if key is None else completions.get(key), *of_key)


def _read(letter: LogRecord) -> StoredTask | Command | None:
    try:
        return decode_record(letter)
    except PoisonRecord:
        return None


def _is_in_time(letter: LogRecord, chosen: LetterFilter) -> bool:
    after = chosen.from_ms is None or letter.timestamp_ms >= chosen.from_ms
    return after and (chosen.to_ms is None or letter.timestamp_ms < chosen.to_ms)


def _is_past(letters: Sequence[LogRecord], chosen: LetterFilter) -> bool:
    """True if all further letters are older than the filter's range."""
    from_ms = chosen.from_ms
    return from_ms is not None and all(each.timestamp_ms < from_ms for each in letters)


def _acknowledged(sent: _Sent, appended: "Future[Position] | None") -> _Sent:
    if appended is None:
        return sent
    try:
        sent.position = appended.result(timeout=ACKNOWLEDGED_S)
    except TaskTooLarge as error:
        sent.word, sent.detail = error.code, str(error)
    except TimeoutError:
        raise LogUnavailable("the log did not acknowledge a replay in time") from None
    return sent


def place_text(place: Position) -> str:
    """Return a place as text."""
    return f"{place.partition}:{place.offset}"


def letters_target(places: Sequence[str]) -> str:
    """Return the words for letters in the audit log."""
    return places[0] if len(places) == 1 else f"{len(places)} letters"


def parse_places(texts: Sequence[str]) -> list[Position]:
    """Read what ``place_text`` wrote; InvalidInput for anything else."""
    places = []
    for text in texts:
        partition, colon, offset = text.partition(":")
        numbers = partition.isascii() and partition.isdecimal() and offset.isdecimal()
        if not (colon and numbers and offset.isascii() and len(text) < 30):
            raise InvalidInput(f"{text[:40]!r} is not a position of a dead letter, such as 0:12")
        places.append(Position(int(partition[:9]), int(offset[:18])))
    return places


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
