"""The task as users write it, and as the engine carries it.

``Task`` is validated on the way in; ``StoredTask`` is a row of the schedule, with text that is
decoded only when user code needs it.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from inspect import Parameter, Signature
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    ValidationError,
    ValidationInfo,
)

from hourhand.actors.model.task.expiry import Expiry, carried_expiry, expiry_after
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.kind import (
    carried_kind,
    carried_kind_and_expiry,
    checked_kind,
    is_kind,
)
from hourhand.actors.model.task.links import Links, read_links
from hourhand.actors.model.task.priority import (
    PRIORITY_MAX,
    carried_links,
    carried_priority,
    split_members,
)
from hourhand.actors.model.task.row_text import data_of
from hourhand.actors.model.task.sealed import (
    SealedMembers,
    is_sealed,
    read_envelope,
    split_envelope,
)
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_end import TaskEnd
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import (
    INSTANT_MIN_MS,
    cut_to_millis,
    from_millis,
    to_millis,
)
from hourhand.actors.model.values.problem_words import PROBLEMS_MAX, problem_text
from hourhand.actors.model.values.public import public

ID_BYTES_MAX = 32_760
"""Longest ordering id or uniqueness key, in UTF-8 bytes: Cassandra holds 65,535 bytes of
clustering columns in all, and besides both ids they are a time and an attempt's number."""

BEFORE_EVERY_RECORD = -(1 << 63)
"""Lower than every offset: rows of another log's records have negative ones."""

OBJECT_BYTES = 1_000
"""Bytes of a task in memory besides its data and ids: objects, places in two dictionaries and a
heap. About 700 bytes are measured (``tests/unit/actors/model/task/test_task.py``)."""

_PLAIN_TYPES = frozenset({str, int, bool, NoneType})
_NOT_GIVEN = object()
_WITHOUT_KIND = ("ordering_id", "scheduled_time", "uniqueness_key", "data")
_WITH_KIND = (*_WITHOUT_KIND, "kind")
_set_attribute, _get_attribute = object.__setattr__, object.__getattribute__
# A slot's own setter looks no name up.
_set_fields_set, _set_extra, _set_private = (
    BaseModel.__dict__[name].__set__
    for name in ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def _storable(text: str) -> str:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError("holds a lone surrogate, which no UTF-8 text can") from error
    if size_bytes > ID_BYTES_MAX:
        raise ValueError(f"has {size_bytes} bytes in UTF-8, at most {ID_BYTES_MAX} are allowed")
    return text


Identifier = Annotated[str, AfterValidator(_storable)]


def checked_expires(expires: object, scheduled_time: object = None) -> datetime | timedelta | None:
    """Return a valid expiry in whole milliseconds; ValueError for another value.

    An instant lies behind ``scheduled_time``, where that is known.
    """
    if expires is None:
        return None
    if isinstance(expires, timedelta):
        return timedelta(milliseconds=expiry_after(expires).after_ms or 0)
    if not isinstance(expires, datetime) or expires.tzinfo is None:
        raise ValueError(
            "a datetime with a time zone is needed, or a timedelta from the scheduled time on"
        )
    expires = cut_to_millis(expires)
    if isinstance(scheduled_time, datetime) and expires <= scheduled_time:
        raise ValueError("it is not after scheduled_time, so the task could never run")
    return expires


def _checked_expires(
    expires: object, info: "ValidationInfo[object]"
) -> datetime | timedelta | None:
    return checked_expires(expires, info.data.get("scheduled_time"))


@public("hourhand")
class Task(BaseModel):
    """A piece of work to run once, at ``scheduled_time``, in order per ``ordering_id``.

    Immutable. ``scheduled_time`` must have a time zone and is cut to whole milliseconds; ``data``
    is a JSON object. ``kind`` chooses the executor; without one the default executor runs it.
    ``priority``, from -100 to 100, is the task's own; without one it has its kind's. No attempt
    starts from ``expires`` on, which is an instant with a time zone, or a duration from
    ``scheduled_time``; without one it has its kind's. Raises InvalidTask if a field breaks these
    rules.
    """

    # Built with the first task or client: a module that only defines executors need not wait.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )

    ordering_id: Annotated[str, Field(min_length=1), AfterValidator(_storable)]
    scheduled_time: Annotated[AwareDatetime, AfterValidator(cut_to_millis)]
    uniqueness_key: Identifier
    data: dict[str, JsonValue] = Field(default_factory=dict)
    kind: Annotated[str, AfterValidator(checked_kind)] | None = None
    priority: Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] | None = None
    expires: Annotated[datetime | timedelta | None, PlainValidator(_checked_expires)] = None

    if TYPE_CHECKING:
        # The signature for type checkers and editors. ``data`` is wider than its field, so that a
        # dict[str, int] is accepted.
        def __init__(
            self,
            *,
            ordering_id: str,
            scheduled_time: datetime,
            uniqueness_key: str,
            data: Mapping[str, JsonValue] = {},
            kind: str | None = None,
            priority: int | None = None,
            expires: datetime | timedelta | None = None,
        ) -> None: ...

    else:
        # Local names, because looking each one up in a module costs a tenth of a task.
        def __init__(
            self,
            *,
            ordering_id: Any = _NOT_GIVEN,
            scheduled_time: Any = _NOT_GIVEN,
            uniqueness_key: Any = _NOT_GIVEN,
            data: Any = _NOT_GIVEN,
            kind: Any = _NOT_GIVEN,
            **more: Any,
        ) -> None:
            # Plain values are stored as the validator would leave them, at half of its cost. It
            # judges all others, including a priority, so nothing is refused here.
            if (
                type(ordering_id) is type(uniqueness_key) is str
                # In ASCII text a character is a byte, and none is a surrogate.
                and ordering_id.isascii()
                and uniqueness_key.isascii()
                and 0 < len(ordering_id) <= ID_BYTES_MAX
                and len(uniqueness_key) <= ID_BYTES_MAX
                and type(scheduled_time) is datetime
                and scheduled_time.tzinfo is UTC
                and type(data) is dict
                and _is_plain(data)
                and (kind is _NOT_GIVEN or kind is None or (type(kind) is str and is_kind(kind)))
                and not more
                and type(self) is Task
            ):
                values = self.__dict__
                values["ordering_id"] = ordering_id
                values["scheduled_time"] = cut_to_millis(scheduled_time)
                values["uniqueness_key"] = uniqueness_key
                values["data"] = data.copy()
                values["kind"] = None if kind is _NOT_GIVEN else kind
                values["priority"] = None
                values["expires"] = None
                _set_fields_set(self, set(_WITHOUT_KIND if kind is _NOT_GIVEN else _WITH_KIND))
                _set_extra(self, None)
                _set_private(self, None)
                return
            _validate(self, (ordering_id, scheduled_time, uniqueness_key, data, kind), more)

    @property
    def key(self) -> TaskKey:
        """The task's identity."""
        return TaskKey(to_millis(self.scheduled_time), self.ordering_id, self.uniqueness_key)

    @property
    def after(self) -> tuple[TaskEnd, ...]:
        """The ends of the tasks that it follows; empty for a task that follows none."""
        # Not a field: no producer gives it, and a plain task does not pay for it.
        found: tuple[TaskEnd, ...] = self.__dict__.get("_after", ())
        return found

    @property
    def expiry(self) -> Expiry | None:
        """The expiry as its record has it."""
        return None if self.expires is None else expiry_of(self.expires)


def following(task: Task, ends: Iterable[TaskEnd]) -> Task:
    """Return a task that finds these ends in ``after``."""
    changed = task.model_copy()
    changed.__dict__["_after"] = tuple(ends)
    return changed


def expiry_of(expires: datetime | timedelta) -> Expiry:
    """Return the expiry of a valid value."""
    if isinstance(expires, timedelta):
        return expiry_after(expires)
    return Expiry(at_ms=to_millis(expires))


def expires_of(expiry: Expiry) -> datetime | timedelta:
    """Return an expiry as user code has it."""
    if expiry.at_ms is not None:
        return from_millis(expiry.at_ms)
    return timedelta(milliseconds=expiry.after_ms or 0)


# Pydantic derives one when it builds the model, which is later than an editor asks.
Task.__signature__ = Signature(
    [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty
            if field.is_required()
            else field.get_default(call_default_factory=True),
            annotation=field.annotation,
        )
        for name, field in Task.model_fields.items()
    ]
)


def _is_plain(data: dict[object, object]) -> bool:
    """True if all names are texts, and all values texts, whole numbers, true, false and null."""
    for name, value in data.items():
        if type(name) is not str or type(value) not in _PLAIN_TYPES:
            return False
    return True


def _validate(task: Task, values: tuple[object, ...], more: Mapping[str, object]) -> None:
    """Fill a task with the validator's results for its fields."""
    named = zip(_WITH_KIND, values, strict=True)
    fields = {name: value for name, value in named if value is not _NOT_GIVEN}
    try:
        # Repeats the base class's code: its frame would be a fifth of the time.
        task.__pydantic_validator__.validate_python({**fields, **more}, self_instance=task)
    except ValidationError as error:
        raise InvalidTask(_described(error, {**fields, **more})) from None


def _described(error: ValidationError, given: dict[str, object]) -> str:
    """Return which field of a task is wrong, why, and how to correct it."""
    problems = error.errors(include_url=False)[:PROBLEMS_MAX]
    assert problems, "what is refused is refused for a reason"
    told = (
        problem_text(each, nowhere="task", names=Task.model_fields, whole=given)
        for each in problems
    )
    return "invalid task: " + "; ".join(told)


class AttemptState(msgspec.Struct, frozen=True, gc=False):
    """The known state of a key's attempts before the next one."""

    used: int = 0
    """Attempts that count against the policy's maximum."""
    last: int = 0
    """Highest attempt number ever given out, counted or not."""
    next_attempt_ms: int = 0
    """Wall time before which no attempt starts; 0 if there was none yet."""
    wait_ms: int = 0
    """Time from the last attempt to the next: no wait is longer, whatever the clock showed then; 0
    if unknown."""
    suspect: bool = False
    """True if the last attempt began durably and never ended: it may have killed its process."""
    failed_ms: int = 0
    """Time of the first failure of these attempts, or since when the task is held; 0 if there is
    none."""
    error_class: str | None = None
    """The error of the last attempt."""
    checkpoint: TaskCheckpoint | None = None
    """The newest checkpoint of these attempts."""
    reopened_ms: int = INSTANT_MIN_MS
    """Time at which an operator opened the task again; an expiry before it no longer counts."""
    snoozed: int = 0
    """Times that the last attempt asked to be looked at later; above 0 only while it is not
    over."""

    def with_checkpoint(self, made: TaskCheckpoint | None) -> "AttemptState":
        """Return the state with a checkpoint, unless it has that one or a later one."""
        if made is None or made is self.checkpoint:
            return self
        newest = made if self.checkpoint is None else self.checkpoint.later_of(made)
        return self if newest is self.checkpoint else replace(self, checkpoint=newest)


FRESH = AttemptState()

_IDS = frozenset({"ordering_id", "uniqueness_key"})
_decode_data = msgspec.json.Decoder(dict[str, Any]).decode


def _read_data(text: bytes) -> SealedMembers:
    envelope, clear = split_envelope(text)
    assert envelope is not None, "only sealed data is read here"
    return SealedMembers(_decode_data(clear), read_envelope(envelope))


class _UnreadTask(Task):
    """A task whose row is decoded when more than its ids is read; from then on a ``Task``.

    Decoding data that an executor may never read would be most of the cost of running a task. All
    was validated when the record was read, so nothing is validated here.
    """

    def __getattribute__(self, name: str) -> object:
        place = _get_attribute(self, "__pydantic_private__")
        # None if another thread was first.
        if place is not None:
            row: StoredTask = place["row"]
            if name in _IDS:
                return getattr(row.key, name)
            kind, priority, data = split_members(row.body)
            expiry = carried_expiry(row.body)
            read = {
                "ordering_id": row.key.ordering_id,
                "scheduled_time": from_millis(row.key.scheduled_ms),
                "uniqueness_key": row.key.uniqueness_key,
                "data": _read_data(data) if is_sealed(data) else _decode_data(data),
                "kind": kind,
                "priority": priority,
                "expires": None if expiry is None else expires_of(expiry),
            }
            fields_set = set(read)
            links = row.links
            if links is not None and links.after:
                read["_after"] = tuple([each.read() for each in links.after])
            # If two threads read at once, both see the first one's data.
            fields = place.setdefault("fields", read)
            _set_attribute(self, "__dict__", fields)
            _set_attribute(self, "__pydantic_fields_set__", fields_set)
            _set_attribute(self, "__pydantic_extra__", None)
            # An audit hook may let another thread in here: if both had set it, Python would release
            # this class twice, and free it one day.
            if fields is read:
                _set_attribute(self, "__class__", Task)
                _set_attribute(self, "__pydantic_private__", None)
        # It is not called by the class, which the other thread may still be about to set.
        return Task if name == "__class__" else _get_attribute(self, name)

    if not TYPE_CHECKING:
        # Pydantic's methods read the type first. ``self.`` makes it a Task, whose method is called.

        def __copy__(self) -> Task:
            return self.__class__.__copy__(self)

        def __deepcopy__(self, memo: dict[int, object] | None = None) -> Task:
            return self.__class__.__deepcopy__(self, memo)


class StoredTask(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One row of the schedule, with the state after its attempts so far.

    Two are equal if their rows are.
    """

    key: TaskKey
    body: bytes
    """The row's text: the data, and around it the record's other members (``row_text``)."""
    offset: int
    """Offset of the record that made this row; a higher one always wins."""
    attempts: AttemptState = FRESH
    overdue_when_loaded: bool = False
    """True if it was loaded from the store after it was due: its start is made durable before it
    runs."""

    @property
    def kind(self) -> str | None:
        """The kind of task, None for the default executor's."""
        return carried_kind(self.body)

    @property
    def priority(self) -> int | None:
        """The task's own priority, None for its kind's."""
        return carried_priority(self.body)

    @property
    def expiry(self) -> Expiry | None:
        """The task's own expiry, None for its kind's."""
        return carried_expiry(self.body)

    @property
    def links(self) -> Links | None:
        """The follower that it brings, and what it follows; None for most tasks."""
        text = carried_links(self.body)
        return None if text is None else read_links(text)

    @property
    def kind_and_expiry(self) -> tuple[str | None, Expiry | None]:
        """The kind and the task's own expiry, read together."""
        return carried_kind_and_expiry(self.body)

    @property
    def data(self) -> bytes:
        """The task's data as JSON text; for sealed data the members that are not sealed."""
        return data_of(self.body)

    @property
    def data_bytes(self) -> int:
        """Size of its row; characters count as the bytes of an id."""
        key = self.key
        return len(self.body) + len(key.ordering_id) + len(key.uniqueness_key)

    @property
    def size_bytes(self) -> int:
        """Approximate bytes in memory while it waits."""
        key, checkpoint = self.key, self.attempts.checkpoint
        size_bytes = len(self.body) + len(key.ordering_id) + len(key.uniqueness_key) + OBJECT_BYTES
        return size_bytes if checkpoint is None else size_bytes + len(checkpoint.body)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredTask):
            return NotImplemented
        return (self.key, self.body, self.offset) == (other.key, other.body, other.offset)

    def __hash__(self) -> int:
        return hash((self.key, self.offset))

    def to_task(self) -> Task:
        """Return the value that user code sees."""
        task = _UnreadTask.__new__(_UnreadTask)
        # Python 3.11 may collect garbage while it makes an object's dictionary, and a finalizer or
        # a callback then lets another thread make it too: that frees the dictionary twice.
        _set_attribute(task, "__dict__", {})
        _set_attribute(task, "__pydantic_private__", {"row": self})
        return task

    def later_of(self, known: "StoredTask | None") -> "StoredTask":
        """Return the later one of two records of a key: that with the higher offset.

        A task that is on time may pass an older record of its key on the way here.
        """
        return self if known is None or self.offset >= known.offset else known

    def merged_with(self, other: "StoredTask") -> "StoredTask":
        """Return the data with the higher offset, and the known attempts of both.

        A record that is read again knows no earlier attempts, and a row that is loaded again knows
        no later record; neither may undo the other.
        """
        attempts = max(self.attempts, other.attempts, key=lambda state: state.last)
        for each in (self.attempts, other.attempts):
            attempts = attempts.with_checkpoint(each.checkpoint)
        overdue = self.overdue_when_loaded or other.overdue_when_loaded
        return replace(other.later_of(self), attempts=attempts, overdue_when_loaded=overdue)
