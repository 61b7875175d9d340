"""Whether a task or command may enter the log at all.

Decides nothing but refusals, each a CallerError raised before anything is sent: so that a
node need not dead-letter what its producer could have been told at once.
"""

import itertools
from collections.abc import Callable
from typing import TypeVar

from actors.model.errors import InvalidKey, InvalidTask, TaskInThePast, TaskTooLarge
from actors.model.instant import format_instant
from actors.model.key import TaskKey
from actors.model.task import ID_BYTES_MAX

_T = TypeVar("_T")
_R = TypeVar("_R")


def refuse_the_past(what: str, time_ms: int, now_ms: int, grace_ms: int) -> None:
    """Raise TaskInThePast where ``time_ms`` is more than ``grace_ms`` before now (P11)."""
    late_ms = now_ms - time_ms
    if late_ms > grace_ms:
        raise TaskInThePast(
            f"{what} is due at {format_instant(time_ms)}, {late_ms} ms ago, and"
            f" client.grace_ms allows {grace_ms}: schedule it for now instead"
        )


def refuse_large(value: bytes, record_bytes_max: int) -> None:
    """Raise TaskTooLarge where a record has more than ``record_bytes_max`` bytes."""
    if len(value) > record_bytes_max:
        raise TaskTooLarge(
            f"the record takes {len(value)} bytes, client.record_bytes_max is"
            f" {record_bytes_max}: keep large data elsewhere and schedule a reference to it"
        )


def encoded(encode: Callable[[_T], _R], value: _T) -> _R:
    """Return what ``encode`` makes of ``value``; InvalidTask where its ValueError says no."""
    try:
        return encode(value)
    except InvalidTask:
        raise
    except ValueError as error:
        # A lone surrogate, or a value built around the validation of Task.
        raise InvalidTask(f"cannot be written as a record: {error}") from error


def checked_key(key: TaskKey) -> TaskKey:
    """Return the key; raises InvalidKey for one that no task can have."""
    if not key.ordering_id:
        raise InvalidKey(f"{key} has an empty ordering id, which no task can have")
    for text in itertools.islice(key, 1, 3):
        size_bytes = len(str(text).encode(errors="surrogatepass"))
        if size_bytes > ID_BYTES_MAX:
            raise InvalidKey(f"an id has {size_bytes} bytes in UTF-8, at most {ID_BYTES_MAX}")
    try:
        format_instant(key.scheduled_ms)
    except (OverflowError, ValueError) as error:
        raise InvalidKey(f"{key.scheduled_ms} ms lies outside years 1 to 9999") from error
    return key
