"""The task as users write it, and as the engine carries it.

``Task`` is validated on the way in; ``StoredTask`` is what a row of the schedule holds,
its data kept as JSON text that is decoded only when user code asks.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

import msgspec
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
)

from actors.model.display import shown
from actors.model.errors import InvalidTask
from actors.model.instant import from_millis, to_millis
from actors.model.key import TaskKey

ID_BYTES_MAX = 32_760
"""Longest ordering id or uniqueness key, in UTF-8 bytes: Cassandra holds 65,535 bytes of
clustering columns in all, and besides both ids they are a time and an attempt's number."""

_PROBLEMS_MAX = 5


def _cut_to_millis(instant: datetime) -> datetime:
    return from_millis(to_millis(instant))


def _storable(text: str) -> str:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError("holds a lone surrogate, which no UTF-8 text can") from error
    if size_bytes > ID_BYTES_MAX:
        raise ValueError(f"has {size_bytes} bytes in UTF-8, at most {ID_BYTES_MAX} are allowed")
    return text


Identifier = Annotated[str, AfterValidator(_storable)]


class Task(BaseModel):
    """A piece of work to run once, at ``scheduled_time``, in order per ``ordering_id``.

    Immutable.  ``scheduled_time`` must have a time zone and is cut to whole milliseconds;
    ``data`` is a JSON object.  Raises InvalidTask where a field breaks these rules.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    ordering_id: Annotated[str, Field(min_length=1), AfterValidator(_storable)]
    scheduled_time: Annotated[AwareDatetime, AfterValidator(_cut_to_millis)]
    uniqueness_key: Identifier
    data: dict[str, JsonValue] = Field(default_factory=dict)

    def __init__(self, **fields: object) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InvalidTask(_described(error)) from None

    @property
    def key(self) -> TaskKey:
        """The task's identity."""
        return TaskKey(to_millis(self.scheduled_time), self.ordering_id, self.uniqueness_key)


def _described(error: ValidationError) -> str:
    """Say which field of a task is wrong, why, and how it is made right."""
    problems = []
    for problem in error.errors(include_url=False):
        where = ".".join(str(part) for part in problem["loc"]) or "task"
        naive = problem["type"] == "timezone_aware"
        hint = " (write datetime.now(UTC), not a naive datetime)" if naive else ""
        # Cut after a few levels: what is wrong may be that the value has no end.
        got = shown(problem["input"])
        problems.append(f"{where[:80]}: {problem['msg']}{hint}, got {got}")
    return "invalid task: " + "; ".join(problems[:_PROBLEMS_MAX])


@dataclass(frozen=True, slots=True)
class AttemptState:
    """What is known of a key's attempts before the next one."""

    used: int = 0
    """Attempts that count against the policy's maximum."""
    last: int = 0
    """Highest attempt number ever given out, counted or not."""
    next_attempt_ms: int = 0
    """Wall time before which no attempt starts; 0 where there was none yet."""
    suspect: bool = False
    """The last attempt began durably and never ended: it may have killed its process."""


FRESH = AttemptState()


@dataclass(frozen=True, slots=True)
class StoredTask:
    """One row of the schedule, with what its attempts so far left behind."""

    key: TaskKey
    data: bytes
    """The task's data as JSON text."""
    offset: int
    """Offset of the record that made this row; a higher one always wins."""
    attempts: AttemptState = field(default=FRESH, compare=False)
    overdue_when_loaded: bool = field(default=False, compare=False)
    """Loaded from the store after it fell due: its start is made durable before it runs."""

    def to_task(self) -> Task:
        """Build the value that user code sees."""
        return Task.model_construct(
            ordering_id=self.key.ordering_id,
            scheduled_time=from_millis(self.key.scheduled_ms),
            uniqueness_key=self.key.uniqueness_key,
            data=msgspec.json.decode(self.data),
        )

    def merged_with(self, other: "StoredTask") -> "StoredTask":
        """Take the data of whichever has the higher offset, and what is known of attempts.

        A record that is read again knows nothing of attempts already made, and a row that
        is loaded again knows nothing of a later record; neither may undo the other.
        """
        attempts = max(self.attempts, other.attempts, key=lambda state: state.last)
        overdue = self.overdue_when_loaded or other.overdue_when_loaded
        last = self if other.offset < self.offset else other
        return replace(last, attempts=attempts, overdue_when_loaded=overdue)
