"""The links of a task: the follower that its end brings, and the tasks that it follows.

A record has both in one member beside its data, and so has the text of a row (``links_text``).
Decides what they say and which end brings a follower; never sends one.
"""

from typing import Literal

import msgspec

from hourhand.actors.model.task.definition import RESERVED, DefinitionKind, ordering_id_parts
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task_end import TaskEnd
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.instant import format_instant, parse_instant

REASON_CHARS_MAX = 500
"""Longest reason that a follower is told."""

On = Literal["success", "any"]
"""The ends of a task that bring its follower."""


class _Ids(msgspec.Struct, rename="camel"):
    ordering_id: str
    scheduled_time: str
    uniqueness_key: str


_decode_ids = msgspec.json.Decoder(_Ids).decode


class Then(msgspec.Struct, frozen=True, omit_defaults=True):
    """The follower of a task."""

    task: msgspec.Raw
    """Its whole record, as JSON."""
    on: On = "success"

    @property
    def key(self) -> TaskKey:
        """The follower's key."""
        record = _decode_ids(self.task)
        due_ms = parse_instant(record.scheduled_time)
        return TaskKey(due_ms, record.ordering_id, record.uniqueness_key)


class EndRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a task, as its follower's record has it."""

    key: str
    """Its key, as text."""
    state: str
    finished: str
    attempts: int = 0
    reason: str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    """The text of the row with its value, or the same sealed."""

    def read(self) -> TaskEnd:
        """Return the end as user code has it; ValueError or InvalidKey for a wrong one."""
        result = bytes(self.result)
        return TaskEnd(
            key=TaskKey.parse(self.key),
            state=str(CompletionResult(self.state)),
            finished_ms=parse_instant(self.finished),
            attempts=self.attempts,
            reason=self.reason,
            result_text=None if result == b"null" else result,
        )


class Links(msgspec.Struct, frozen=True, omit_defaults=True):
    """The member of a record, and of the text of a row."""

    then: Then | None = None
    after: tuple[EndRecord, ...] = ()

    @property
    def follower(self) -> TaskKey | None:
        """The key of the task that follows; None if there is none."""
        return None if self.then is None else self.then.key


_BRINGING: dict[str, On] = {"success": "success", "any": "any"}
_decode = msgspec.json.Decoder(Links).decode
_decode_or_none = msgspec.json.Decoder(Links | None).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def group_id_of(follower: TaskKey | None) -> str | None:
    """Return the id of the group that counts the end of a task, which its follower names."""
    parts = None if follower is None else ordering_id_parts(follower.ordering_id)
    return parts[1] if parts is not None and parts[0] == DefinitionKind.GROUP else None


def read_links(text: bytes) -> Links:
    """Return links that are written as JSON; ValueError for others, except for the record of the
    follower, which is not read here.
    """
    links = _decode(text)
    for each in links.after:
        each.read()
    return links


def encode_links(links: Links) -> bytes:
    """Return links as JSON."""
    return _encode(links)


def with_then(record: bytes, follower: bytes, on: On) -> bytes:
    """Return the record of a task that brings a follower, whose record is given."""
    assert record.endswith(b"}"), "a record is a JSON object"
    return b'%b,"links":%b}' % (record[:-1], _encode(Links(Then(msgspec.Raw(follower), on))))


def brings(then: Then, result: CompletionResult) -> bool:
    """True if a task with this end brings its follower."""
    if result is CompletionResult.SUCCESS:
        return True
    return then.on == "any" and result in _ENDS


_ENDS = frozenset(CompletionResult) - {CompletionResult.MOVED, CompletionResult.REOPENED}


def ended_of(completion: Completion, result: bytes | None = None) -> EndRecord:
    """Return how a task ended; ``result`` is the text of the row with its value."""
    return EndRecord(
        str(completion.key),
        completion.result.value,
        format_instant(completion.finished_ms),
        completion.attempts,
        None if completion.reason is None else completion.reason[:REASON_CHARS_MAX],
        msgspec.Raw(b"null" if result is None else result),
    )


def follower_record(then: Then, *ends: EndRecord) -> bytes:
    """Return the record of a follower that is told how each task before it ended."""
    members = _decode_members(then.task)
    name = ordering_id_of(then.task)
    if name.startswith(RESERVED):
        # A report to a system task: a task that is opened again reports each of its ends.
        key = msgspec.json.decode(members["uniquenessKey"], type=str)
        report = ":".join([key, *(f"{each.state}:{each.attempts}" for each in ends)])
        members["uniquenessKey"] = msgspec.Raw(_encode(report))
    # A record may have null for no links.
    own = _decode_or_none(members["links"]) if "links" in members else None
    links = msgspec.structs.replace(own or Links(), after=ends)
    return _encode({**members, "links": links})


def ordering_id_of(record: bytes | msgspec.Raw) -> str:
    """Return the ordering id in a follower's record."""
    return _decode_ids(record).ordering_id


def checked_on(on: object) -> On:
    """Return when a follower is brought; ValueError for another value."""
    if isinstance(on, str) and on in _BRINGING:
        return _BRINGING[on]
    raise ValueError(f"on is 'success' or 'any', got {shown(on)}")
