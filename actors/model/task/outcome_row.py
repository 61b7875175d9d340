"""A row of the outcome log: tasks that were closed together, until the stream has told of them.

Decides the form of a row, and which rows of an earlier owner may be of completions that never
became durable.  Never decides when one is told.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult

PIECE_BYTES = 200_000
"""A group of closed tasks is cut into rows near this size."""
_ENTRY_BYTES = 100
"""About the size of an entry without its texts."""


class ClosedTask(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One closed task, as its row has it; it is read by later versions, which add fields."""

    scheduled_ms: int
    ordering_id: str
    uniqueness_key: str
    result: CompletionResult
    offset: int
    attempts: int
    started_ms: int | None
    finished_ms: int
    moved_to_ms: int | None
    reason: str | None
    kind: str | None
    has_value: bool
    is_sure: bool = False
    """True if its completion was seen in the store, which another may have replaced since."""

    @property
    def key(self) -> TaskKey:
        """The key that was closed."""
        return TaskKey(self.scheduled_ms, self.ordering_id, self.uniqueness_key)

    def is_of(self, stored: Completion | None) -> bool:
        """True if the stored completion is the one that this entry tells of."""
        return stored is not None and (
            (self.result, self.offset, self.attempts, self.finished_ms)
            == (stored.result, stored.offset, stored.attempts, stored.finished_ms)
        )


class OutcomesRow(msgspec.Struct, frozen=True):
    """One row: a piece of the completions that one write made durable."""

    number: int
    """Place of this write among those of its partition; it begins with the owner epoch."""
    piece: int
    body: bytes


class _RowText(msgspec.Struct, frozen=True, array_like=True, gc=False):
    unsettled: list[int]
    """The writes that were under way, or in doubt, when this one began."""
    entries: list[ClosedTask]
    unread: list[tuple[int, int]] = []
    """Spans of numbers, above the first and below the second, of which an earlier owner may write
    a row after all later ones had read the log; rows of earlier versions name none."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_RowText).decode


def outcome_rows(
    completions: Iterable[Completion],
    number: int,
    unsettled: Collection[int] = (),
    valued: Collection[TaskKey] = (),
    unread: Collection[tuple[int, int]] = (),
) -> list[OutcomesRow]:
    """Return the rows of one write; ``valued`` are the keys of tasks that ended with a value.

    Hourhand's own tasks are left out, so there may be none.
    """
    entries = [
        ClosedTask(
            *each.key,
            each.result,
            each.offset,
            each.attempts,
            each.started_ms,
            each.finished_ms,
            each.moved_to_ms,
            each.reason,
            each.kind,
            each.key in valued,
        )
        for each in completions
        if not each.key.ordering_id.startswith(RESERVED)
    ]
    return [
        OutcomesRow(number, piece, _encode(_RowText(sorted(unsettled), part, list(unread))))
        for piece, part in enumerate(_pieces(entries))
    ]


def entries_of(row: OutcomesRow) -> Sequence[ClosedTask]:
    """Return the closed tasks of a row."""
    return _decode(row.body).entries


def unsettled_by(row: OutcomesRow) -> list[int]:
    """Return the numbers of the writes that may not have had their effect, if this row is the last
    one of an owner that is gone; others had it before this write began.
    """
    return [*_decode(row.body).unsettled, row.number]


def unread_by(row: OutcomesRow) -> list[tuple[int, int]]:
    """Return the spans of numbers in which rows may come that the owner had not read."""
    return _decode(row.body).unread


def row_with(row: OutcomesRow, entries: Sequence[ClosedTask]) -> OutcomesRow:
    """Return a row with other entries in its place."""
    text = msgspec.structs.replace(_decode(row.body), entries=list(entries))
    return OutcomesRow(row.number, row.piece, _encode(text))


def _pieces(entries: Sequence[ClosedTask]) -> Iterator[list[ClosedTask]]:
    part: list[ClosedTask] = []
    size = 0
    for each in entries:
        part.append(each)
        texts = len(each.ordering_id) + len(each.uniqueness_key) + len(each.reason or "")
        size += _ENTRY_BYTES + texts
        if size >= PIECE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
