"""Decides whether a task or command may enter the log.

Every refusal is a CallerError before anything is sent, so that a producer learns at once about a
record that a node would put aside.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, ParamSpec

from hourhand.actors.model.task.codec import encode_parts
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.expiry import Expiry
from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.task.kind import checked_kind
from hourhand.actors.model.task.links import On, checked_on, with_then
from hourhand.actors.model.task.priority import checked_priority
from hourhand.actors.model.task.task import ID_BYTES_MAX, Task, checked_expires, expiry_of
from hourhand.actors.model.values.display import duration_text, message_of, shown
from hourhand.actors.model.values.errors import InvalidKey, InvalidTask, TaskInThePast, TaskTooLarge
from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    format_instant,
    to_millis,
)
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.settings import ClientSettings
from hourhand.scheduler.payloads.codecs import PayloadCodecs

_P = ParamSpec("_P")

_SHORT_CHARS_MAX = ID_BYTES_MAX // 4
"""A character takes up to four bytes, so fewer characters in all need no count of bytes."""


class Admission:
    """Judges the tasks of one client, and makes their records; used from any thread."""

    def __init__(self, clock: Clock, limits: ClientSettings) -> None:
        self._now_ms = clock.now_ms
        self._grace_ms = limits.grace_ms
        self._record_bytes_max = limits.record_bytes_max

    def admit(self, task: object) -> tuple[TaskKey, bytes]:
        """Return a task's key and record; InvalidTask, TaskInThePast or TaskTooLarge."""
        key = checked_task(task)
        assert isinstance(task, Task), "checked just now"
        now_ms = self._now_ms()
        # The common case is one quick check; only a refused value is examined again for the reason.
        if now_ms - key.scheduled_ms > self._grace_ms:
            refuse_the_past("the task", key.scheduled_ms, now_ms, self._grace_ms)
        try:
            value = encode_parts(
                key,
                task.data,
                checked_kind_of(task),
                checked_priority_of(task),
                checked_expiry_of(task),
            )
        except InvalidTask:
            raise
        except Exception as error:
            raise unencodable(error) from error
        if len(value) > self._record_bytes_max:
            refuse_large(value, self._record_bytes_max)
        return key, value

    def prepared(self, task: Task) -> Task:
        """Return a task, after its checks, with the data for its record."""
        self.admit(task)
        return task


class SealingAdmission(Admission):
    """Seals the data of admitted tasks."""

    def __init__(self, clock: Clock, limits: ClientSettings, payloads: PayloadCodecs) -> None:
        super().__init__(clock, limits)
        self._payloads = payloads

    def admit(self, task: object) -> tuple[TaskKey, bytes]:
        """Return a task's key and its record with sealed data; raises PayloadUnavailable too."""
        return super().admit(self._sealed(task))

    def prepared(self, task: Task) -> Task:
        """Return a task with its data sealed."""
        sealed = self._sealed(task)
        super().admit(sealed)
        return sealed

    def _sealed(self, task: object) -> Task:
        # After the checks: sealing may store data, which a refused task must not do.
        key = checked_task(task)
        assert isinstance(task, Task), "checked just now"
        checked_kind_of(task)
        checked_priority_of(task)
        checked_expiry_of(task)
        refuse_the_past("the task", key.scheduled_ms, self._now_ms(), self._grace_ms)
        return self._payloads.sealed(task)


def admission(clock: Clock, limits: ClientSettings, payloads: PayloadCodecs | None) -> Admission:
    """Return an object that judges tasks, and seals them if there are codecs for new data."""
    if payloads is None or not payloads.seals:
        return Admission(clock, limits)
    return SealingAdmission(clock, limits, payloads)


def checked_kind_of(task: Task) -> str | None:
    """Return a task's kind; InvalidTask if the task was built without its checks."""
    kind: object = getattr(task, "kind", None)
    try:
        return None if kind is None else checked_kind(kind)
    except ValueError as error:
        raise InvalidTask(str(error)) from None


def checked_priority_of(task: Task) -> int | None:
    """Return a task's own priority; InvalidTask if the task was built without its checks."""
    priority: object = getattr(task, "priority", None)
    try:
        return None if priority is None else checked_priority(priority)
    except ValueError as error:
        raise InvalidTask(str(error)) from None


def checked_expiry_of(task: Task) -> Expiry | None:
    """Return a task's own expiry; InvalidTask if the task was built without its checks."""
    expires: object = getattr(task, "expires", None)
    if expires is None:
        return None
    try:
        checked = checked_expires(expires, task.scheduled_time)
    except ValueError as error:
        raise InvalidTask(f"invalid task: expires: {error}, got {shown(expires)}") from None
    return None if checked is None else expiry_of(checked)


def followed(key: TaskKey, record: bytes, then: TaskKey, follower: bytes, on: object) -> bytes:
    """Return the record of a task that brings a follower; InvalidTask for one it cannot bring."""
    if then == key:
        raise InvalidTask(f"a task cannot follow itself: both have the key {key}")
    return with_then(record, follower, checked_end(on))


def refuse_lone_end(on: object) -> None:
    """Raise InvalidTask for the ends that bring a follower, where none is given."""
    if on != "success":
        raise InvalidTask(f"on={shown(on)} says when a follower comes: give it as then=")


def several(tasks: object, call: str) -> Iterable[Any]:
    """Return the tasks that a call was given; InvalidTask for one task, or nothing to iterate."""
    if isinstance(tasks, Task):
        # A Task is a model and could be iterated over its fields.
        raise InvalidTask(f"{call} takes several tasks, got a Task: write {call}([task])")
    if not isinstance(tasks, Iterable):
        raise InvalidTask(f"{call} takes several tasks, as in a list, got {shown(tasks)}")
    return tasks


def checked_end(on: object) -> On:
    """Return the ends that bring a follower; InvalidTask for another value."""
    try:
        return checked_on(on)
    except ValueError as error:
        raise InvalidTask(str(error)) from None


def refuse_the_past(what: str, time_ms: int, now_ms: int, grace_ms: int) -> None:
    """Raise TaskInThePast if ``time_ms`` is more than ``grace_ms`` before now (P11)."""
    late_ms = now_ms - time_ms
    if late_ms > grace_ms:
        raise TaskInThePast(
            f"{what} is due at {format_instant(time_ms)}, {duration_text(late_ms)} ago, and"
            f" client.grace_ms allows {duration_text(grace_ms)}: schedule it for now instead"
        )


def refuse_large(value: bytes, record_bytes_max: int) -> None:
    """Raise TaskTooLarge if a record has more than ``record_bytes_max`` bytes."""
    if len(value) > record_bytes_max:
        raise TaskTooLarge(
            f"the record takes {len(value)} bytes, client.record_bytes_max is"
            f" {record_bytes_max}: keep large data elsewhere and schedule a reference to it"
        )


def encoded(encode: Callable[_P, bytes], *values: _P.args, **named: _P.kwargs) -> bytes:
    """Return the result of ``encode``; InvalidTask if ``values`` cannot be encoded."""
    try:
        return encode(*values, **named)
    except InvalidTask:
        raise
    except Exception as error:
        raise unencodable(error) from error


def unencodable(error: Exception) -> InvalidTask:
    """Return the refusal for an encoding error."""
    # A lone surrogate, or a part of the value that is the caller's code and raises.
    kind = type(error).__name__
    return InvalidTask(f"cannot be written as a record: {kind}: {message_of(error)}")


def refuse_reserved(ordering_id: str) -> None:
    """Raise InvalidTask for an ordering id that is reserved for Hourhand's own tasks."""
    if ordering_id.startswith(RESERVED):
        raise InvalidTask(
            f"ordering id {shown(ordering_id)} begins with {RESERVED!r}, as those of Hourhand's"
            " own tasks do: choose another"
        )


def checked_task(task: object) -> TaskKey:
    """Return a task's key; raises InvalidTask for another object, or a task built without its
    checks.
    """
    if not isinstance(task, Task):
        raise InvalidTask(f"a Task is needed, got {type(task).__name__}: {shown(task)}")
    ordering_id: object = getattr(task, "ordering_id", None)
    uniqueness_key: object = getattr(task, "uniqueness_key", None)
    if not (isinstance(ordering_id, str) and isinstance(uniqueness_key, str) and ordering_id):
        got = shown((ordering_id, uniqueness_key))
        raise InvalidTask(f"a task has two ids that are text, got {got}")
    if ordering_id.startswith(RESERVED):
        refuse_reserved(ordering_id)
    if len(ordering_id) + len(uniqueness_key) > _SHORT_CHARS_MAX:
        _refuse_long(ordering_id, uniqueness_key)
    if not isinstance(getattr(task, "data", None), dict):
        raise InvalidTask("a task's data is a JSON object: make tasks by calling Task(...)")
    instant: object = getattr(task, "scheduled_time", None)
    if type(instant) is datetime and instant.tzinfo is UTC:
        # Conditions that every validated task fulfils, and that cannot raise.
        return TaskKey(to_millis(instant), ordering_id, uniqueness_key)
    due_ms = target_ms("schedule", instant)
    return TaskKey(due_ms, ordering_id, uniqueness_key)


def _refuse_long(*texts: str) -> None:
    for text in texts:
        size_bytes = len(text.encode(errors="surrogatepass"))
        if size_bytes > ID_BYTES_MAX:
            raise InvalidTask(f"an id has {size_bytes} bytes in UTF-8, at most {ID_BYTES_MAX}")


def target_ms(what: str, instant: object) -> int:
    """Return a given moment as UTC milliseconds; raises InvalidTask for another value."""
    if not isinstance(instant, datetime):
        got = shown(instant)
        raise InvalidTask(f"cannot {what}: a datetime with a time zone is needed, got {got}")
    try:
        return to_millis(instant)
    except Exception as error:
        # Time zones are the caller's code, which may raise any error.
        advice = "; write datetime.now(UTC)" if instant.tzinfo is None else ""
        raise InvalidTask(f"cannot {what}: {message_of(error)}{advice}") from error


def checked_key(key: object) -> TaskKey:
    """Return the key; raises InvalidKey for an impossible one."""
    if not isinstance(key, TaskKey):
        got = shown(key)
        raise InvalidKey(f"a TaskKey is needed, got {got}: TaskKey.parse reads its text form")
    time_ms, ids = key.scheduled_ms, (key.ordering_id, key.uniqueness_key)
    if type(time_ms) is not int or not all(isinstance(text, str) for text in ids):
        raise InvalidKey(f"a key is whole milliseconds and two ids, got {shown(tuple(key))}")
    if not INSTANT_MIN_MS <= time_ms <= INSTANT_MAX_MS:
        raise InvalidKey(f"{shown(time_ms)} ms lies outside years 1 to 9999")
    if not key.ordering_id:
        raise InvalidKey(f"{key} has an empty ordering id, which no task can have")
    for text in ids:
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidKey(f"{shown(text)} holds a lone surrogate: no id can") from error
        if size_bytes > ID_BYTES_MAX:
            raise InvalidKey(f"an id has {size_bytes} bytes in UTF-8, at most {ID_BYTES_MAX}")
    return key


def checked_pair(pair: object) -> TaskPair:
    """Return a pair of both ids; raises InvalidKey for an impossible one."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise InvalidKey(
            "a TaskKey is needed, or a pair of ordering id and uniqueness key, got"
            f" {shown(pair)}: TaskKey.parse reads a key's text form"
        )
    if not all(isinstance(text, str) for text in pair):
        raise InvalidKey(f"a pair is two ids, both texts, got {shown(pair)}")
    if not pair[0]:
        raise InvalidKey(f"the pair {shown(pair)} has an empty ordering id, which no task can have")
    return TaskPair(*checked_key(TaskKey(0, *pair))[1:])


def checked_place(partition: object, offset: object) -> tuple[int, int]:
    """Return the record's place in a receipt; raises InvalidKey for an impossible one."""
    if not (_is_natural(partition, 2**31 - 1) and _is_natural(offset, 2**63 - 1)):
        got = f"{shown(partition)}:{shown(offset)}"
        raise InvalidKey(f"{got} is not a receipt: expected partition:offset, as 3:1274")
    assert isinstance(partition, int), "checked just now"
    assert isinstance(offset, int), "checked just now"
    return partition, offset


def _is_natural(value: object, highest: int) -> bool:
    return type(value) is int and 0 <= value <= highest
