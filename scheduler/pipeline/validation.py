"""Validates rows of a user's file as tasks; whole batches a column at a time.

Decides by the rules of the log's records and of the client, so that an accepted row is not refused
later. Most batches of most files hold only tasks, which a check of their columns shows at a tenth
of the cost of row by row; if a column leaves any doubt, the batch is validated row by row. It knows
no Spark: values in, a task or a reason out.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hourhand.actors.model.task.codec import checked_links, letter_of
from hourhand.actors.model.task.expiry import read_expiry
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.kind import checked_kind
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.priority import checked_priority
from hourhand.actors.model.task.row_text import row_text
from hourhand.actors.model.task.sealed import read_envelope
from hourhand.actors.model.task.task import ID_BYTES_MAX, StoredTask
from hourhand.actors.model.task.trace import RESERVED
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    format_instant,
    parse_instant,
    to_millis,
)
from hourhand.scheduler.pipeline.sink import NO_OFFSET
from hourhand.scheduler.tasks.time_zones import is_known_zone, is_same_everywhere

FIELDS: Mapping[str, tuple[str, ...]] = {
    "scheduled_time": ("scheduled_time", "scheduledTime"),
    "ordering_id": ("ordering_id", "orderingId"),
    "uniqueness_key": ("uniqueness_key", "uniquenessKey"),
    "data": ("data", "taskData"),
    "kind": ("kind",),
    "priority": ("priority",),
    "seal": ("seal",),
    "expires": ("expires",),
    "links": ("links",),
}
"""The fields of a task, and their default names in a file."""
BESIDE = ("kind", "priority", "seal", "expires", "links")
"""Fields that stand beside the data, in the order in which a row is judged."""
OPTIONAL = frozenset({"data", *BESIDE})
"""Fields that a file may lack."""

_object_decoder = msgspec.json.Decoder(dict[str, object])
_line_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_REASON_CHARS_MAX = 300
_JSON_CHARACTER_BYTES = 6
_RECORD_FRAME_BYTES = 200
"""Names, time and version of a record, rounded up."""
_MICROS = pa.timestamp("us", tz="UTC")
_NO_DATA = "{}"
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}").fullmatch


@dataclass(frozen=True, slots=True)
class LoadRules:
    """The rules of a load, the same for all its rows."""

    partition_count: int
    oldest_ms: int
    """A task before this time is refused."""
    record_bytes_max: int
    timezone: str | None = None
    """Zone of times without one; if it is None they are refused."""
    stored: bool = False
    """True if the data is the text of rows as in a store, with its further members."""


class Verdict(NamedTuple):
    """A task, or the reason why the row is not a task."""

    task: StoredTask | None
    reason: str | None


def checked_timezone(name: str | None) -> str | None:
    """Return the name of a known zone; raises InvalidTask."""
    if name is None or (is_known_zone(name) and is_same_everywhere(name)):
        return name
    problem = "is another zone on another machine" if is_known_zone(name) else "is unknown"
    raise InvalidTask(f"--timezone {shown(name)} {problem}: write a name as Europe/Vienna or UTC")


def validate(
    rules: LoadRules,
    scheduled_time: object,
    ordering_id: object,
    uniqueness_key: object,
    data: Any,
    kind: object = None,
    priority: object = None,
    seal: object = None,
    expires: object = None,
    links: object = None,
) -> Verdict:
    """Judge one row; its time is text, a datetime, or whole UTC milliseconds."""
    try:
        time_ms = _millis(scheduled_time, rules.timezone)
        key = TaskKey(
            time_ms,
            _identifier("ordering_id", ordering_id, empty=False),
            _identifier("uniqueness_key", uniqueness_key, empty=True),
        )
        encoded = _row_text(rules, _object(data), kind, priority, seal, expires, links)
        if time_ms < rules.oldest_ms:
            raise ValueError(
                f"scheduled_time {format_instant(time_ms)} is in the past: --past run accepts it"
            )
        task = StoredTask(key, encoded, NO_OFFSET)
        # Encoding a record to measure it would double the cost of judging it.
        ids_chars = len(key.ordering_id) + len(key.uniqueness_key)
        if record_bytes_bound(ids_chars, len(encoded)) > rules.record_bytes_max:
            record_bytes = len(letter_of(task, 0, 0).value or b"")
            if record_bytes > rules.record_bytes_max:
                raise ValueError(
                    f"the task has {record_bytes} bytes as a record, at most"
                    f" {rules.record_bytes_max} are allowed: see client.record_bytes_max"
                )
    except (ValueError, OverflowError, RecursionError) as error:
        return Verdict(None, str(error)[:_REASON_CHARS_MAX])
    return Verdict(task, None)


def validate_line(rules: LoadRules, line: str, names: Mapping[str, str]) -> Verdict:
    """Judge a line of JSON; ``names`` maps fields to their names in the file."""
    try:
        found = _line_decoder.decode(line)
        values = {field: _raw(found, field, names.get(field)) for field in FIELDS}
        texts = {field: values.pop(field) for field in ("data", "seal", "links")}
        decoded = {
            field: None if raw is None else msgspec.json.decode(raw)
            for field, raw in values.items()
        }
    except (ValueError, RecursionError) as error:
        return Verdict(None, f"the line is not a JSON object: {error}"[:_REASON_CHARS_MAX])
    return validate(rules, **{name: raw and bytes(raw) for name, raw in texts.items()}, **decoded)


def record_bytes_bound(ids_chars: int, data_bytes: int) -> int:
    """Return an upper bound for a task's record: JSON writes a character in six bytes at most.

    ``ids_chars`` is the length of both ids together.
    """
    return _RECORD_FRAME_BYTES + _JSON_CHARACTER_BYTES * ids_chars + data_bytes


def is_object(text: bytes) -> bool:
    """True if a text is a JSON object, which a task's data has to be."""
    try:
        _object_decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def _raw(found: Mapping[str, msgspec.Raw], field: str, name: str | None) -> msgspec.Raw | None:
    candidates = FIELDS[field] if name is None else (name,)
    return next((found[each] for each in candidates if each in found), None)


def _millis(time: object, timezone: str | None) -> int:
    if isinstance(time, datetime):
        return to_millis(time if time.tzinfo else _placed(time, timezone))
    if isinstance(time, int) and not isinstance(time, bool):
        if not INSTANT_MIN_MS <= time <= INSTANT_MAX_MS:
            raise ValueError(f"scheduled_time {time} ms is not within the years 1 to 9999")
        return time
    if not isinstance(time, str):
        raise ValueError(f"scheduled_time is {shown(time)}: a time is needed")  # noqa: TRY004
    try:
        return parse_instant(time)
    except ValueError:
        naive = _naive(time)
        if naive is None:
            raise
    return to_millis(_placed(naive, timezone))


def _naive(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo else time


def _placed(naive: datetime, timezone: str | None) -> datetime:
    if timezone is None:
        raise ValueError(
            f"scheduled_time {naive.isoformat()} has no time zone: say which with --timezone"
        )
    placed = naive.replace(tzinfo=ZoneInfo(timezone))
    if placed.astimezone(UTC).astimezone(ZoneInfo(timezone)).replace(tzinfo=None) != naive:
        raise ValueError(
            f"scheduled_time {naive.isoformat()} does not exist in {timezone}: clocks were put"
            " forward over it"
        )
    return placed


def _identifier(name: str, value: object, *, empty: bool) -> str:
    if value is None or (value == "" and not empty):
        raise ValueError(f"{name} is {'missing' if value is None else 'empty'}")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{name} is {shown(value)}: text is needed")  # noqa: TRY004
    text = str(value)
    if 4 * len(text) > ID_BYTES_MAX and len(text.encode()) > ID_BYTES_MAX:
        raise ValueError(f"{name} is longer than the {ID_BYTES_MAX} bytes an id can have")
    text.encode()
    return text


def _object(data: str | bytes | None) -> bytes:
    if data is None or data == "":
        return b"{}"
    encoded = data if isinstance(data, bytes) else data.encode()
    try:
        _object_decoder.decode(encoded)
    except msgspec.MsgspecError as error:
        raise ValueError(f"data is not a JSON object: {error}") from None
    return encoded


def _row_text(
    rules: LoadRules,
    data: bytes,
    kind: object,
    priority: object,
    seal: object,
    expires: object,
    links: object,
) -> bytes:
    """Return the text of a row; for stored data it is the data itself."""
    if rules.stored:
        return data
    is_sealed = not _is_missing(seal)
    return row_text(
        data,
        None if _is_missing(kind) else checked_kind(kind),
        None if _is_missing(priority) else checked_priority(_number(priority)),
        envelope=_checked_seal(seal) if is_sealed else None,
        expiry=None if _is_missing(expires) else read_expiry(str(expires)),
        links=None if _is_missing(links) else _checked_links(links, data, sealed=is_sealed),
    )


def _is_missing(value: object) -> bool:
    return value is None or value in ("", b"", b"null")


def _checked_seal(seal: object) -> bytes:
    encoded = seal if isinstance(seal, bytes) else str(seal).encode()
    if read_envelope(encoded) is None:
        raise ValueError(f"seal is {shown(seal)}: the envelope of sealed data is needed")
    return encoded


def _checked_links(links: object, data: bytes, *, sealed: bool) -> bytes:
    encoded = links if isinstance(links, bytes) else str(links).encode()
    try:
        return checked_links(encoded, data, sealed=sealed)
    except ValueError as error:
        raise ValueError(f"links is {shown(links)}: {error}") from None


def _number(value: object) -> object:
    """Return the whole number in a text: a CSV has only texts."""
    return int(value) if isinstance(value, str) and _WHOLE_NUMBER(value) else value


class TaskColumns(NamedTuple):
    """Rows that are tasks, without missing values."""

    millis: pa.Array
    """Due times, in UTC milliseconds."""
    ordering_id: pa.Array
    uniqueness_key: pa.Array
    data: pa.Array
    """JSON objects in UTF-8, as ``binary``."""


def millis_of(times: pa.Array) -> pa.Array:
    """Return instants as whole milliseconds, rounded down; raises ArrowInvalid for other values."""
    if not pa.types.is_timestamp(times.type):
        return times.cast(pa.int64())
    micros = times.cast(_MICROS).cast(pa.int64())
    # Arrow divides towards zero, so times before 1970 need a correction.
    towards_zero = pc.divide(micros, 1000)
    below = pc.less(micros, pc.multiply(towards_zero, 1000)).cast(pa.int64())
    return pc.subtract(towards_zero, below)


def partitions_of(ordering_ids: pa.Array, count: int) -> pa.Array:
    """Return the owning partition of each ordering id, of ``count``; none is missing."""
    ids = ordering_ids.dictionary_encode()
    owners = [partition_of(each, count) for each in ids.dictionary.to_pylist()]
    return pa.array(owners, pa.int32()).take(ids.indices)


def plain_tasks(
    rules: LoadRules,
    times: pa.Array,
    ordering_id: pa.Array,
    uniqueness_key: pa.Array,
    data: pa.Array,
    kind: pa.Array | None = None,
    priority: pa.Array | None = None,
    seal: pa.Array | None = None,
    expires: pa.Array | None = None,
    links: pa.Array | None = None,
) -> TaskColumns | None:
    """Return the tasks of rows; None if a row may not be a task."""
    instants = pa.types.is_timestamp(times.type) or pa.types.is_integer(times.type)
    given = (times, ordering_id, uniqueness_key)
    if not len(times) or not instants or any(each.null_count for each in given):
        return None
    millis = millis_of(times)
    if not _within(millis, max(rules.oldest_ms, INSTANT_MIN_MS), INSTANT_MAX_MS):
        return None
    if not _are_ids(rules, ordering_id, uniqueness_key, data):
        return None
    encoded = _given_data(data).cast(pa.binary())
    texts = encoded.to_pylist()
    if not _are_objects(texts):
        return None
    beside = [_given(each) for each in (kind, priority, seal, expires, links)]
    if not rules.stored and (any(beside) or any(RESERVED in text for text in texts)):
        try:
            columns = (each or repeat(None) for each in beside)
            bodies = map(_row_text, repeat(rules), texts, *columns)
            encoded = pa.array(list(bodies), pa.binary())
        except ValueError:
            return None
    return TaskColumns(millis, ordering_id, uniqueness_key, encoded)


def _given(column: pa.Array | None) -> list[object]:
    """Return the values of a column; an empty list if all are missing."""
    return [] if column is None or column.null_count == len(column) else column.to_pylist()


def _within(values: pa.Array, least: int, most: int) -> bool:
    ends = pc.min_max(values).as_py()
    return bool(least <= ends["min"] and ends["max"] <= most)


def _are_ids(
    rules: LoadRules, ordering_id: pa.Array, uniqueness_key: pa.Array, data: pa.Array
) -> bool:
    """True if ids and data are texts of allowed lengths in any combination of the rows."""
    try:
        for each in (ordering_id, uniqueness_key, data):
            each.validate(full=True)
    except pa.ArrowInvalid:
        return False
    lengths = pc.binary_length(ordering_id)
    ids_bytes = (pc.max(lengths).as_py(), pc.max(pc.binary_length(uniqueness_key)).as_py())
    data_bytes = pc.max(pc.binary_length(data)).as_py() or 0
    bound = record_bytes_bound(sum(ids_bytes), data_bytes)
    return (
        bool(pc.min(lengths).as_py() and max(ids_bytes) <= ID_BYTES_MAX)
        and bound <= rules.record_bytes_max
    )


def _given_data(data: pa.Array) -> pa.Array:
    """Replace missing data by an object without fields."""
    filled = pc.fill_null(data, "")
    return pc.if_else(pc.equal(pc.binary_length(filled), 0), _NO_DATA, filled)


def _are_objects(texts: Iterable[Any]) -> bool:
    return all(map(is_object, texts))
