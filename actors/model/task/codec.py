"""The record format of the log, version 1: JSON, one object a record.

Any producer may write it; this module decides what is read and what is poison.  A task may
have a ``"kind"``, which says who runs it, a ``"priority"``, an instant or a duration as
``"expires"``, and a ``"seal"``, the envelope of sealed data: beside ``"taskData"``, in which
nothing chooses anything.  A command is the same object with ``"command"`` and, for a reschedule,
``"to"``; without ``"scheduledTime"`` it is for the one task that has both ids, which the owner of
the partition finds; a retry may bring the task's data back, and says so by ``"withData"``; a cancel
may end what runs, by ``"running"``.  Fields this version does not know are ignored; an unknown
version or command is poison, because guessing what a newer producer meant would run the wrong
thing.
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

import msgspec

from hourhand.actors.model.task.expiry import Expiry, carried_expiry, read_expiry
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.kind import checked_kind
from hourhand.actors.model.task.links import Then, follower_record, read_links
from hourhand.actors.model.task.links_text import MEMBER as LINKS_MEMBER
from hourhand.actors.model.task.priority import carried_links, checked_priority, split_members
from hourhand.actors.model.task.row_text import escaped, row_text
from hourhand.actors.model.task.sealed import MEMBER as SEALED_MEMBER
from hourhand.actors.model.task.sealed import SealedData, SealedMembers, split_envelope
from hourhand.actors.model.task.task import ID_BYTES_MAX, StoredTask, Task
from hourhand.actors.model.task.trace import TRACEPARENT, carried_context, context_of
from hourhand.actors.model.values.errors import InvalidTask, PoisonRecord
from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    format_instant,
    parse_instant,
)

RECORD_VERSION = 1

RECORD_BYTES = 500
"""Bytes of a record in memory besides its key, value and headers."""
REASON_CHARS_MAX = 500
"""Longest reason a poison record is given."""

_SHORT_CHARS = ID_BYTES_MAX // 4
"""Shorter ids need no count of their bytes: a character takes up to four."""

Headers = Sequence[tuple[str, bytes | None]]


class CommandKind(StrEnum):
    """The kinds of commands."""

    CANCEL = "cancel"
    RESCHEDULE = "reschedule"
    RUN_NOW = "run_now"
    DROP = "drop"
    RETRY = "retry"
    REPLACE = "replace"


class Command(msgspec.Struct, frozen=True):
    """A change to one key, in the log between that key's other records (P12)."""

    kind: CommandKind
    key: TaskKey
    """The key; for a command by pair, both ids with the record's own time until its task is
    found, and for a replace with the new task's time."""
    offset: int = -1
    """Position in the log; -1 before it was appended."""
    recorded_ms: int = 0
    """The record's own time: when a run-now is due."""
    to_ms: int | None = None
    """The new time of a reschedule, and of the task in a replace."""
    body: bytes | None = None
    """New text for the task's row in a retry or replace; None leaves the row unchanged."""
    by_pair: bool = False
    """True if it was sent for the one task with both ids, due at any time."""
    running: bool = False
    """True if a cancel also asks running user code to end."""

    def is_for(self, key: TaskKey) -> bool:
        """True if the command names this key."""
        return key[1:] == self.key[1:] if self.by_pair else key == self.key

    @property
    def new_key(self) -> TaskKey | None:
        """The key a reschedule, run-now or replace moves the task to."""
        match self.kind:
            case CommandKind.RESCHEDULE | CommandKind.REPLACE:
                assert self.to_ms is not None, "it names its new time"
                return self.key._replace(scheduled_ms=self.to_ms)
            case CommandKind.RUN_NOW:
                return self.key._replace(scheduled_ms=self.recorded_ms)
            case CommandKind.CANCEL | CommandKind.DROP | CommandKind.RETRY:
                return None
            case _:
                assert_never(self.kind)

    @property
    def replaces_itself(self) -> bool:
        """True for a replace whose new task has the key that the command is for."""
        return self.kind is CommandKind.REPLACE and self.new_key == self.key

    @property
    def keys(self) -> tuple[TaskKey, ...]:
        """The key that it concerns and, for a move, the new one."""
        return (self.key,) if self.new_key is None else (self.key, self.new_key)


class LogRecord(msgspec.Struct, frozen=True):
    """One record as the log delivered it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def headers_bytes(headers: Headers) -> int:
    """Return the size of headers in bytes, each character of a name counted as one."""
    return sum(len(name) + len(content or b"") for name, content in headers)


def record_bytes(record: LogRecord) -> int:
    """Return the approximate bytes of a record in memory: key, value, headers and the object."""
    size_bytes = RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    return size_bytes + headers_bytes(record.headers) if record.headers else size_bytes


_NO_SEAL, _NO_LINKS = msgspec.Raw(b""), msgspec.Raw(b"")
_NO_TIME = "(no scheduledTime)"
"""Recognised by its identity, so that a record without a time costs the others nothing."""


class _Record(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    ordering_id: str
    scheduled_time: str = _NO_TIME
    uniqueness_key: str
    task_data: msgspec.Raw = msgspec.Raw(b"{}")
    version: int = RECORD_VERSION
    command: str | None = None
    to: str | None = None
    with_data: bool = False
    running: object = None
    """Checked for commands alone: in a task it is a member that this version does not know."""
    kind: str | None = None
    priority: int | None = None
    expires: str | None = None
    seal: msgspec.Raw = _NO_SEAL
    links: msgspec.Raw = _NO_LINKS


class _TaskRecord(msgspec.Struct, rename="camel", gc=False):
    """The part of ``_Record`` for a task, encoded in one step."""

    ordering_id: str
    scheduled_time: str
    uniqueness_key: str
    task_data: object
    version: int = RECORD_VERSION
    kind: str | msgspec.UnsetType = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    expires: str | msgspec.UnsetType = msgspec.UNSET
    seal: SealedData | msgspec.UnsetType = msgspec.UNSET


_decode_fields = msgspec.json.Decoder(_Record).decode
_decode_object = msgspec.json.Decoder(dict[str, object]).decode
_encoder = msgspec.json.Encoder()
_NOT_SEALED = frozenset({b"", b"null"})
_NEVER_NULL = frozenset({str, int, bool})
"""Types whose values, without subclasses, JSON can always hold."""


def encode_data(task: Task) -> bytes:
    """Return the task's data as compact JSON; raises InvalidTask if it is not JSON."""
    return encode_object(task.data)


def encode_object(data: object) -> bytes:
    """Return data as compact JSON; raises InvalidTask if it is not JSON."""
    try:
        encoded = _encoder.encode(data)
        if b"null" in encoded:
            # msgspec writes NaN and infinities as null; JSON has none of them, and a value that
            # silently changes would be worse than a refusal.
            json.dumps(data, allow_nan=False)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidTask(f"invalid task: data is not JSON: {error}") from error
    return encoded


def encode_task(task: Task) -> bytes:
    """Return the log record's value for ``task``; raises InvalidTask."""
    return encode_parts(task.key, task.data, task.kind, task.priority, task.expiry)


def encode_parts(
    key: TaskKey,
    data: object,
    kind: str | None = None,
    priority: int | None = None,
    expiry: Expiry | None = None,
) -> bytes:
    """Return the log record's value for the parts of a task; raises InvalidTask."""
    fields = _TaskRecord(
        key.ordering_id, format_instant(key.scheduled_ms), key.uniqueness_key, data
    )
    if kind is not None:
        fields.kind = kind
    if priority is not None:
        fields.priority = priority
    if expiry is not None:
        fields.expires = str(expiry)
    if type(data) is SealedMembers:
        assert data.envelope is not None, "what this version wrote is read by it"
        fields.seal = data.envelope
    try:
        record = _encoder.encode(fields)
    except Exception:
        # Encoding the data alone shows whether the fault is in it.
        encode_object(data)
        raise
    # Searching the record takes as long as writing it; plain members cannot have made a null.
    plain = type(data) is dict and _NEVER_NULL.issuperset(map(type, data.values()))
    if not plain and b"null" in record:
        encode_object(data)
    return record


def encode_command(command: Command) -> bytes:
    """Return the log record's value for ``command``."""
    key, asked = command.key, b',"command":"%b"' % command.kind.value.encode()
    if command.kind is CommandKind.REPLACE:
        new_key = command.new_key
        assert new_key is not None, "a replace has a new task"
        assert command.body is not None, "a replace has a new task"
        return replacing(_stored_record(new_key, command.body))
    if command.body is not None:
        assert not command.by_pair, "data that is brought back is that of a key"
        return _stored_record(key, command.body)[:-1] + asked + b',"withData":true}'
    record = b'{%b,"taskData":{},"version":%d%b' % (
        _encoded_ids(key) if command.by_pair else _encoded_key(key),
        RECORD_VERSION,
        asked,
    )
    if command.to_ms is not None:
        record += b',"to":"%b"' % format_instant(command.to_ms).encode()
    if command.running:
        record += b',"running":true'
    return record + b"}"


def encode_json(
    key: TaskKey,
    data: bytes,
    kind: str | None = None,
    priority: int | None = None,
    seal: bytes | None = None,
    expiry: Expiry | None = None,
    links: bytes | None = None,
) -> bytes:
    """Return the log record's value for a task whose data, seal and links are already JSON."""
    end = b"}" if links is None else b',"links":%b}' % links
    if seal is not None:
        end = b',"seal":%b%b' % (seal, end)
    if expiry is not None:
        end = b',"expires":"%b"%b' % (str(expiry).encode(), end)
    if priority is not None:
        end = b',"priority":%d%b' % (priority, end)
    if kind is not None:
        end = b',"kind":"%b"%b' % (kind.encode(), end)
    return b'{%b,"taskData":%b,"version":%d%b' % (_encoded_key(key), data, RECORD_VERSION, end)


def replacing(record: bytes) -> bytes:
    """Return the value of a replace from the record of its new task."""
    return record[:-1] + b',"command":"replace"}'


def letter_of(task: StoredTask, partition: int, now_ms: int) -> LogRecord:
    """Return a stored task as a record for the dead-letter topic."""
    value = _stored_record(task.key, task.body)
    context = carried_context(task.body)
    headers = () if context is None else ((TRACEPARENT, context),)
    return LogRecord(partition, task.offset, now_ms, task.key.ordering_id.encode(), value, headers)


def _stored_record(key: TaskKey, body: bytes) -> bytes:
    """Return the record of a task from the text of its row."""
    kind, priority, text = split_members(body)
    seal, data = split_envelope(text)
    at_end = carried_expiry(body), carried_links(body)
    return encode_json(key, data, kind, priority, seal, *at_end)


def _encoded_ids(key: TaskKey) -> bytes:
    ids = _encoder.encode(key.ordering_id), _encoder.encode(key.uniqueness_key)
    return b'"orderingId":%b,"uniquenessKey":%b' % ids


def _encoded_key(key: TaskKey) -> bytes:
    return b'"orderingId":%b,"scheduledTime":"%b","uniquenessKey":%b' % (
        _encoder.encode(key.ordering_id),
        format_instant(key.scheduled_ms).encode(),
        _encoder.encode(key.uniqueness_key),
    )


def decode_record(record: LogRecord, row_bytes_max: int | None = None) -> StoredTask | Command:
    """Read a record of the log; raises PoisonRecord with the reason if it cannot be read, or is
    larger than a row may be.
    """
    if record.value is None:
        raise PoisonRecord("the record has no value")
    if row_bytes_max is not None and len(record.value) > row_bytes_max:
        size_bytes = len(record.value)
        raise PoisonRecord(f"{size_bytes} bytes, a row holds at most {row_bytes_max}")
    try:
        fields = _decode_fields(record.value)
        is_plain = fields.command is None and fields.kind is None and fields.priority is None
        is_plain = is_plain and fields.links is _NO_LINKS
        if is_plain and fields.seal is _NO_SEAL and not record.headers:
            ordering_id, uniqueness_key = fields.ordering_id, fields.uniqueness_key
            short = 0 < len(ordering_id) < _SHORT_CHARS and len(uniqueness_key) < _SHORT_CHARS
            if short and fields.expires is None and fields.version == RECORD_VERSION:
                # The fast path for nearly every record: the general way without its calls.
                scheduled_ms = parse_instant(fields.scheduled_time)
                _decode_object(fields.task_data)
                key = tuple.__new__(TaskKey, (scheduled_ms, ordering_id, uniqueness_key))
                return StoredTask(key, escaped(bytes(fields.task_data)), record.offset)
        key = _checked_key(fields, record)
        if fields.command is None:
            return StoredTask(key, _row_body(fields, record), record.offset)
        return _command(fields, fields.command, key, record)
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError) as error:
        # The reason travels in a header beside the record; it may quote the record, and must not
        # make it too large for the dead-letter topic.
        raise PoisonRecord(str(error)[:REASON_CHARS_MAX]) from error


def _checked_key(fields: _Record, record: LogRecord) -> TaskKey:
    if fields.version != RECORD_VERSION:
        raise ValueError(f"version {fields.version} is unknown, this node reads {RECORD_VERSION}")
    if not fields.ordering_id:
        raise ValueError("orderingId is empty")
    for name, text in (
        ("orderingId", fields.ordering_id),
        ("uniquenessKey", fields.uniqueness_key),
    ):
        if len(text) >= _SHORT_CHARS and len(text.encode()) > ID_BYTES_MAX:
            raise ValueError(f"{name} is longer than the {ID_BYTES_MAX} bytes a row can hold")
    if fields.scheduled_time is _NO_TIME and fields.command is not None:
        scheduled_ms = record.timestamp_ms
    else:
        scheduled_ms = parse_instant(fields.scheduled_time)
    return TaskKey(scheduled_ms, fields.ordering_id, fields.uniqueness_key)


def _row_body(fields: _Record, record: LogRecord) -> bytes:
    """Return the text of the row: the data, and the members around it."""
    data, seal = _checked_data(fields.task_data), bytes(fields.seal)
    if seal in _NOT_SEALED:
        envelope = None
    else:
        envelope = _checked_data(fields.seal)
        if SEALED_MEMBER in _decode_object(data):
            raise ValueError(f'taskData has the member "{SEALED_MEMBER}" beside a seal')
    links = None
    if bytes(fields.links) not in _NOT_SEALED:
        links = checked_links(bytes(fields.links), data, sealed=envelope is not None)
    return row_text(
        data,
        None if fields.kind is None else checked_kind(fields.kind),
        None if fields.priority is None else checked_priority(fields.priority),
        context_of(record.headers) if record.headers else None,
        envelope,
        None if fields.expires is None else read_expiry(fields.expires),
        links,
    )


def checked_links(text: bytes, data: bytes, *, sealed: bool) -> bytes:
    """Return links beside such data; ValueError where they, or a follower, cannot be read."""
    links = read_links(text)
    if sealed and LINKS_MEMBER in _decode_object(msgspec.Raw(data)):
        raise ValueError(f'taskData has the member "{LINKS_MEMBER}" beside a seal and links')
    if links.then is not None:
        refuse_follower(bytes(links.then.task))
    return text


def refuse_follower(record: bytes) -> None:
    """Raise ValueError for the record of a follower that cannot be sent, or is not a task."""
    try:
        follower = decode_record(LogRecord(0, 0, 0, None, record))
        # Names of members that this version does not know are read at the end of the task before.
        follower_record(Then(msgspec.Raw(record)))
    except (PoisonRecord, msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(f"the follower cannot be read: {error}") from None
    if isinstance(follower, Command):
        raise ValueError("a follower is a task, not a command")  # noqa: TRY004 - its text is wrong


def _checked_data(raw: msgspec.Raw) -> bytes:
    """Decode once and drop the result: data that user code could not read is poison."""
    _decode_object(raw)
    return bytes(raw)


def _command(fields: _Record, name: str, key: TaskKey, record: LogRecord) -> Command:
    to, by_pair = fields.to, fields.scheduled_time is _NO_TIME
    try:
        kind = CommandKind(name)
    except ValueError:
        known = ", ".join(CommandKind)
        raise ValueError(f"command {name!r} is unknown; known are {known}") from None
    if (to is not None) != (kind is CommandKind.RESCHEDULE):
        raise ValueError('"to" belongs to a reschedule, and to nothing else')
    to_ms = None if to is None else parse_instant(to)
    due_ms = record.timestamp_ms
    takes_time = by_pair or kind is CommandKind.RUN_NOW
    if takes_time and not INSTANT_MIN_MS <= due_ms <= INSTANT_MAX_MS:
        # A producer may give its record any time, and this one becomes a task's.
        raise ValueError(f"the record's own time, {due_ms} ms, is not within the years 1 to 9999")
    if fields.with_data and kind is not CommandKind.RETRY:
        raise ValueError('"withData" belongs to a retry, and to nothing else')
    if fields.running not in (None, False, True):
        raise ValueError(f'"running" is {fields.running!r:.100}, true or false is needed')
    if fields.running and kind is not CommandKind.CANCEL:
        raise ValueError('"running" belongs to a cancel, and to nothing else')
    at = record.offset, record.timestamp_ms
    if kind is CommandKind.REPLACE:
        if by_pair:
            raise ValueError("a replace has the time of its new task, scheduledTime")
        new = _row_body(fields, record)
        return Command(kind, key, *at, key.scheduled_ms, new, by_pair=True)
    body = _row_body(fields, record) if fields.with_data else None
    return Command(kind, key, *at, to_ms, body, by_pair, running=bool(fields.running))
