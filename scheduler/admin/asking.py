"""The parameters and bodies of requests, with ranges, and one parser for times and keys.

It also lists the statuses of refusals.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from hourhand.actors.model.flow.flow import RATES_MAX
from hourhand.actors.model.flow.limit_change import (
    CHANGED_COUNT_MAX,
    CHANGED_PER_MS_MAX,
    CHANGED_RATE_MAX,
)
from hourhand.actors.model.operations.pauses import PauseScope
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey, TaskPair, parse_name
from hourhand.actors.model.task.kind import KIND_CHARS_MAX, KIND_PATTERN
from hourhand.actors.model.task.priority import PRIORITY_MAX
from hourhand.actors.model.values.errors import InvalidKey
from hourhand.actors.model.values.instant import from_millis, parse_instant
from hourhand.scheduler.admin.dead_letters import LetterFilter
from hourhand.scheduler.admin.problems import MEDIA_TYPE, Problem, ProblemDetails
from hourhand.scheduler.client.client import ScheduleCall
from hourhand.scheduler.services.http.typed_routes import Responses, TypedRouter, described
from hourhand.scheduler.services.recurring.rule import (
    EXCEPT_DATES_MAX,
    INTERVAL_MS_MIN,
    Overlap,
)
from hourhand.scheduler.services.system.requested_tasks import WINDOW_MS_MAX
from hourhand.scheduler.tasks.grouping import MEMBERS_MAX
from hourhand.scheduler.tasks.inspector import TaskState

REFUSALS = described(
    {
        400: "The request cannot be done as it was made.",
        401: "A valid token is needed.",
        403: "The token may only read, or a page of another site sent the request.",
        414: "The address is too long.",
        421: "Without tokens only the names of this machine are served.",
        429: "Too many requests; try again in a second.",
        500: "A bug; the text describes it.",
        503: "The log or the store is away; try again.",
    }
)
"""Refusals that every path may answer."""
NOT_FOUND = described({404: "Nothing has this name, or it was deleted."})
ACT_REFUSALS = NOT_FOUND | described(
    {
        409: "The filter now finds another number of tasks, or too many; or several tasks have the"
        " pair of ids.",
        413: "The body is too long.",
        415: "The body is not JSON.",
    }
)
"""Further refusals of every act."""
KEY_CHARS_MAX = 60_000
_MS_MAX = 86_400_000 * 366 * 1_000
"""A thousand years."""
_NUMBERS = ("rate", "rates", "perMs", "burst", "concurrency")
_TASK_KEY = {"format": "task-key"}
_TASK_NAME = {"format": "task-name"}
_TIME = {"format": "date-time"}
_KIND: dict[str, JsonValue] = {"pattern": f"^{KIND_PATTERN}$", "maxLength": KIND_CHARS_MAX}

Text = Annotated[str, Field(max_length=KEY_CHARS_MAX)]
KeyField = Annotated[str, Field(max_length=KEY_CHARS_MAX, json_schema_extra=_TASK_KEY)]
NameField = Annotated[str, Field(max_length=KEY_CHARS_MAX, json_schema_extra=_TASK_NAME)]
TimeField = Annotated[str, Field(max_length=KEY_CHARS_MAX, json_schema_extra=_TIME)]
DeliveryKey = Annotated[
    str, Field(max_length=KEY_CHARS_MAX, json_schema_extra={"format": "delivery-key"})
]
Place = Annotated[
    str,
    Field(max_length=40, json_schema_extra={"pattern": "^[0-9]+:[0-9]+$", "maxLength": 29}),
]
Name = Annotated[
    str,
    Field(max_length=KEY_CHARS_MAX, json_schema_extra={"minLength": 1, "maxLength": 1_000}),
]
Rate = Annotated[float, Field(ge=0, le=CHANGED_RATE_MAX, allow_inf_nan=False)]
LimitName = Annotated[str, Field(min_length=1, max_length=KIND_CHARS_MAX + 20)]
Key = Annotated[
    str,
    Query(
        max_length=KEY_CHARS_MAX,
        description="A task key, in its text form.",
        json_schema_extra=_TASK_KEY,
    ),
]
Instant = Annotated[
    str,
    Query(
        max_length=40,
        description="RFC 3339, as 2026-02-09T01:41:12Z.",
        json_schema_extra=_TIME,
    ),
]
KeyBehind = Annotated[str | None, Query(max_length=KEY_CHARS_MAX, json_schema_extra=_TASK_KEY)]
Time = Annotated[str | None, Query(max_length=40, json_schema_extra=_TIME)]
WithData = Annotated[
    bool,
    Query(
        description="Whether each is shown with its data. A page is as large then as the data of"
        " all that is on it."
    ),
]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Expires = Annotated[
    str, Field(max_length=100, json_schema_extra={"examples": ["PT1H30M", "2026-01-31T09:00:00Z"]})
]
Priority = Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)]
KindText = Annotated[str, Field(max_length=1_000, json_schema_extra=_KIND)]
Kind = Annotated[str | None, Query(max_length=1_000, json_schema_extra=_KIND)]
ErrorText = Annotated[str, Field(min_length=1, max_length=1_000)]
ErrorClass = Annotated[str | None, Query(alias="errorClass", min_length=1, max_length=1_000)]
OrderingId = Annotated[str | None, Query(alias="orderingId", max_length=KEY_CHARS_MAX)]
Wait = Annotated[float, Field(ge=0, le=30)]


def _only(named: Sequence[str], absent: Sequence[str], **fixed: JsonValue) -> dict[str, JsonValue]:
    """Return the schema of a body that has these fields, and not the absent ones."""
    properties: dict[str, JsonValue] = {each: {"type": "null"} for each in absent}
    properties |= {each: {"not": {"type": "null"}} for each in named}
    properties |= {name: {"const": value} for name, value in fixed.items()}
    return {"required": list(named), "properties": properties}


def _one_of(one: str, other: str) -> ConfigDict:
    return ConfigDict(json_schema_extra={"oneOf": [_only([one], [other]), _only([other], [one])]})


class _Body(BaseModel):
    """An object of a request: of its values only whole numbers such as 5.0 are converted."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_whole(cls, value: object) -> object:
        """Return a number such as 5.0 as a whole one, which it is in JSON."""
        return int(value) if isinstance(value, float) and value.is_integer() else value


class FilterBody(_Body):
    """The tasks a bulk action concerns."""

    from_: TimeField = Field(alias="from")
    to: TimeField
    states: list[Annotated[TaskState, Field(strict=False)]] = Field(min_length=1, max_length=20)
    ordering_id: Text | None = Field(None, alias="orderingId")
    partition: int | None = Field(None, ge=0, le=100_000)
    limit: int | None = Field(None, ge=1, le=100_000)
    """Number of tasks to take in key order; without it all tasks of the filter."""
    error_class: ErrorText | None = Field(None, alias="errorClass")
    """Only tasks whose last attempt failed with this class of error."""
    kind: KindText | None = None
    """Only tasks of this kind that are still stored."""
    system: bool = False
    """True to include Hourhand's own tasks; they are included where ``orderingId`` names one."""
    after: KeyField | None = None
    """Only tasks behind this key: the ``nextAfter`` of a listing or of the previous act."""


class ActionBody(_Body):
    """An action, and its tasks: ``keys`` or a ``filter``."""

    model_config = _one_of("keys", "filter")

    keys: list[NameField] | None = Field(None, min_length=1, max_length=100_000)
    """Each is a task's key, or ``ORDERING_ID,UNIQUENESS_KEY``, both encoded as in a key: the one
    open task that has both."""
    filter: FilterBody | None = None
    expected: int | None = Field(None, ge=0)
    """The number of tasks that the filter found before: the act is refused if it finds another
    number now."""
    dry_run: bool = Field(default=False, alias="dryRun")
    """True to return the tasks it would concern, and do nothing."""
    to: TimeField | None = None
    """The new time for ``reschedule``."""
    reason: Annotated[str, Field(max_length=300)] = ""
    wait_s: Wait = Field(5.0, alias="waitS")
    """Seconds to wait for outcomes; a command stays in the log after that."""


class ChangeBody(_Body):
    """An act that can be previewed."""

    dry_run: bool = Field(default=False, alias="dryRun")
    """True to return what it would concern, and do nothing."""
    reason: Annotated[str, Field(max_length=300)] = ""


class UnblockBody(ChangeBody):
    """Ordering ids to unblock, or a class of errors: all tasks that it blocks."""

    model_config = _one_of("orderingIds", "errorClass")

    ordering_ids: list[Text] | None = Field(
        None, alias="orderingIds", min_length=1, max_length=1_000
    )
    error_class: ErrorText | None = Field(None, alias="errorClass")
    expected: int | None = Field(None, ge=0)
    """The number of tasks that the error blocked before: the act is refused if it is another number
    now."""
    how: Literal["retry", "drop"]
    wait_s: Wait = Field(5.0, alias="waitS")


class PauseTarget(_Body):
    """The scope of a pause: everything, a partition or an ordering id."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                _only([], ["partition", "orderingId"], scope="all"),
                _only(["partition"], ["orderingId"], scope="partition"),
                _only(["orderingId"], ["partition"], scope="ordering"),
            ]
        }
    )

    scope: Annotated[PauseScope, Field(strict=False)]
    partition: int | None = Field(None, json_schema_extra={"minimum": 0})
    ordering_id: Text | None = Field(None, alias="orderingId", json_schema_extra={"minLength": 1})


class PauseBody(_Body):
    """Several targets; all are changed, or none."""

    targets: list[PauseTarget] = Field(min_length=1, max_length=1_000)
    reason: Annotated[str, Field(max_length=300)] = ""


class LimitBody(_Body):
    """The new numbers of a limit; absent ones stay unchanged."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [_only([each], []) for each in _NUMBERS]})

    limit: LimitName
    rate: Rate | None = None
    """Starts in each ``perMs`` of each value of the limit's key without a rate of its own."""
    rates: dict[Name, Rate] | None = Field(None, min_length=1, max_length=RATES_MAX)
    """Starts in each ``perMs`` of values that have a rate of their own; others keep theirs."""
    per_ms: int | None = Field(None, alias="perMs", ge=1, le=CHANGED_PER_MS_MAX)
    burst: int | None = Field(None, ge=1, le=CHANGED_COUNT_MAX)
    concurrency: int | None = Field(None, ge=0, le=CHANGED_COUNT_MAX)
    reason: Annotated[str, Field(max_length=300)] = ""


class ResetBody(_Body):
    """Limits to reset to their declaration; all are reset, or none."""

    limits: list[LimitName] = Field(min_length=1, max_length=1_000)
    reason: Annotated[str, Field(max_length=300)] = ""


class LetterFilterBody(_Body):
    """The dead letters that a replay concerns: put aside in a range of time, or all."""

    from_: TimeField | None = Field(None, alias="from")
    to: TimeField | None = None
    kind: KindText | None = None
    """Only tasks of this kind."""
    error_class: ErrorText | None = Field(None, alias="errorClass")
    """Only tasks whose last attempt failed with this class of error."""


class ReplayBody(ChangeBody):
    """Dead letters to bring back: ``places`` or a ``filter``."""

    model_config = _one_of("places", "filter")

    places: list[Place] | None = Field(None, min_length=1, max_length=1_000)
    filter: LetterFilterBody | None = None
    expected: int | None = Field(None, ge=0)
    """The number of letters that the filter found before: the act is refused if it finds another
    number now."""
    wait_s: Wait = Field(5.0, alias="waitS")
    """Seconds to wait for the owners' decisions; a command stays in the log after that."""


class RecurringBody(ChangeBody):
    """Recurring schedules to change."""

    names: list[Name] = Field(min_length=1, max_length=1_000)
    wait_s: Wait = Field(5.0, alias="waitS")


class _NewTaskBody(_Body):
    ordering_id: Text = Field(alias="orderingId", min_length=1)
    scheduled_time: TimeField = Field(alias="scheduledTime")
    uniqueness_key: Text = Field(alias="uniquenessKey")
    data: dict[str, JsonValue] = Field(default_factory=dict)
    kind: KindText | None = None
    """The kind, which chooses the executor; without it the default executor."""
    priority: Priority | None = None
    """The task's own priority; without it the kind's."""
    expires: Expires | None = None
    """The time from which on no attempt starts: an instant, or a duration from the scheduled time
    such as PT1H30M; without it the kind's."""


class FollowerBody(_NewTaskBody):
    """The task that follows another one; it does not start before its ``scheduledTime``."""

    on: Literal["success", "any"] = "success"
    """The ends of the task before it that bring it."""


class MemberBody(_NewTaskBody):
    """A task of a group."""


class GroupBody(ChangeBody):
    """Tasks to schedule, and one that is scheduled once all of them have ended."""

    tasks: list[MemberBody] = Field(min_length=1, max_length=MEMBERS_MAX)
    """Each has a key of its own; the same tasks again, in the same order, are the same group."""
    then: FollowerBody


class TaskBody(_NewTaskBody, ChangeBody):
    """A task to schedule."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "anyOf": [
                    _only(["uniqueForMs", "debounceMs"], []),
                    _only(["uniqueForMs", "replace"], [], replace=True),
                    _only(["debounceMs", "replace"], [], replace=True),
                    _only(["uniqueForMs", "then"], []),
                    _only(["debounceMs", "then"], []),
                ]
            }
        },
    )

    unique_for_ms: Annotated[int, Field(ge=1, le=WINDOW_MS_MAX)] | None = Field(
        None, alias="uniqueForMs"
    )
    """Ignores a call that comes less than this after one that made a task of the same kind,
    ordering id and uniqueness key. The answer is the receipt of the request."""
    debounce_ms: Annotated[int, Field(ge=1, le=WINDOW_MS_MAX)] | None = Field(
        None, alias="debounceMs"
    )
    """Makes the task of the last such call, once none came for this time; not with ``uniqueForMs``.
    The answer is the receipt of the call."""
    replace: bool = False
    """Takes the place of the one open task with the same ordering id and uniqueness key; not with
    ``uniqueForMs`` or ``debounceMs``. ``hourhand outcome`` tells what it came to."""

    then: FollowerBody | None = None
    """A task that is scheduled once this one has ended; not with ``uniqueForMs`` or ``debounceMs``.
    """

    @property
    def asked(self) -> "ScheduleCall":
        """The arguments of the client's call by which several tasks become one."""
        named: dict[Literal["unique_for", "debounce"], int | None] = {
            "unique_for": self.unique_for_ms,
            "debounce": self.debounce_ms,
        }
        asked: ScheduleCall = {"replace": True} if self.replace else {}
        for name, given_ms in named.items():
            if given_ms is not None:
                asked[name] = timedelta(milliseconds=given_ms)
        return asked


class RuleBody(ChangeBody):
    """A recurring schedule to make, or to replace the one of this name."""

    model_config = _one_of("cron", "everyMs")

    name: Name
    cron: Annotated[str, Field(max_length=500, json_schema_extra={"format": "cron"})] | None = None
    every_ms: Annotated[int, Field(ge=INTERVAL_MS_MIN, le=_MS_MAX)] | None = Field(
        None, alias="everyMs"
    )
    time_zone: str = Field(
        "UTC", alias="timeZone", max_length=100, json_schema_extra={"format": "time-zone"}
    )
    """The time zone of ``cron``."""
    ordering_id: Annotated[Text, Field(min_length=1)] | None = Field(None, alias="orderingId")
    """Ordering id of the tasks; by default the schedule's name."""
    kind: KindText | None = None
    """Kind of the tasks, which chooses the executor; by default the default executor."""
    priority: Priority | None = None
    """Priority of the tasks; by default their kind's."""
    expires_after_ms: Annotated[int, Field(ge=1, le=_MS_MAX)] | None = Field(
        None, alias="expiresAfterMs"
    )
    """Time from a task's scheduled time from which on none starts; by default their kind's."""
    data: dict[str, JsonValue] | None = None
    """Data of the tasks; without it the previous data stays."""
    overlap: Overlap = "skip"
    catch_up_ms: int = Field(3_600_000, alias="catchUpMs", ge=0, le=_MS_MAX)
    jitter_ms: int = Field(0, alias="jitterMs", ge=0, le=86_400_000)
    starts: TimeField | None = None
    ends: TimeField | None = None
    except_dates: list[Annotated[str, Field(json_schema_extra={"format": "date"})]] = Field(
        default_factory=list, alias="exceptDates", max_length=EXCEPT_DATES_MAX
    )
    """Dates in ``timeZone`` on which nothing is due."""
    count_max: int | None = Field(None, alias="countMax", ge=1, le=_MS_MAX)
    wait_s: Wait = Field(5.0, alias="waitS")


class BackfillBody(ChangeBody):
    """Past times of a recurring schedule, whose tasks are to be made."""

    name: Name
    starts: TimeField
    """The first time to make a task of."""
    ends: TimeField
    """The first time that is left out; it may not lie in the future."""


class TimersBody(ChangeBody):
    """Timers to end."""

    ids: list[Annotated[str, Field(max_length=200)]] = Field(min_length=1, max_length=1_000)


class RelayBody(ChangeBody):
    """Waiting messages: by the ``keys`` of their tasks, or by their own ``ids``."""

    model_config = _one_of("keys", "ids")

    keys: list[DeliveryKey] | None = Field(None, min_length=1, max_length=1_000)
    ids: list[Text] | None = Field(None, min_length=1, max_length=1_000)
    to: TimeField | None = None
    """The new time for ``reschedule``."""
    wait_s: Wait = Field(5.0, alias="waitS")


def admin_router(refusals: Responses | None = None) -> TypedRouter:
    """Return a router whose paths have the admin's refusals, and these."""
    return TypedRouter(REFUSALS | (refusals or {}), ProblemDetails, MEDIA_TYPE)


def refuse_unread_query(request: Request) -> None:
    """Refuse query parameters of an act: it takes all its arguments from the body."""
    if request.method != "GET" and request.query_params:
        named = ", ".join(sorted(set(request.query_params)))[:200]
        raise Problem(400, "invalid-request", f"an act is told by its body; not read: {named}")


def who_asks(request: Request) -> str:
    """Return the name of the user that the token stands for."""
    who = getattr(request.state, "who", None)
    return who if isinstance(who, str) else "unknown"


def may_act(request: Request) -> bool:
    """True if the token may act, False if it may only read."""
    return getattr(request.state, "may_act", False) is True


def is_system_id(ordering_id: str | None) -> bool:
    """True if an ordering id belongs to Hourhand's own tasks."""
    return ordering_id is not None and ordering_id.startswith(RESERVED)


def parsed_name(text: str) -> TaskKey | TaskPair:
    """Read a key or a pair; Problem for any other text."""
    try:
        return parse_name(text)
    except InvalidKey as error:
        raise Problem(400, error.code, str(error)) from None


def parsed_key(text: str) -> TaskKey:
    """Read a key; Problem for any other text."""
    try:
        return TaskKey.parse(text)
    except InvalidKey as error:
        raise Problem(400, error.code, str(error)) from None


def parsed_ms(name: str, text: str) -> int:
    """Read a time; Problem for any other text."""
    try:
        return parse_instant(text)
    except ValueError as error:
        raise Problem(400, "invalid-request", f"{name}: {error}") from None


def parsed_time(name: str, text: str | None) -> datetime | None:
    """Read an optional time; None if it is absent."""
    return None if text is None else from_millis(parsed_ms(name, text))


def target_time(text: str | None, *, moves: bool) -> datetime | None:
    """Read the ``to`` of an act; Problem if one that moves tasks has none, or another one has."""
    if moves and text is None:
        raise Problem(400, "invalid-request", "reschedule needs `to`, the new time")
    if text is not None and not moves:
        raise Problem(400, "invalid-request", "`to` is for reschedule alone: leave it out")
    return parsed_time("to", text)


def letter_filter(
    from_: str | None, to: str | None, kind: str | None, error_class: str | None
) -> LetterFilter:
    """Return a filter for dead letters; Problem if a time cannot be read."""
    from_ms = None if from_ is None else parsed_ms("from", from_)
    to_ms = None if to is None else parsed_ms("to", to)
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise Problem(400, "invalid-request", f"from {from_!r} must be before to {to!r}")
    kinds = frozenset() if kind is None else frozenset({kind})
    return LetterFilter(from_ms=from_ms, to_ms=to_ms, kinds=kinds, error_class=error_class)


def parsed_range(from_: str, to: str) -> tuple[int, int]:
    """Read a range of time; Problem if it is empty."""
    from_ms, to_ms = parsed_ms("from", from_), parsed_ms("to", to)
    if from_ms >= to_ms:
        raise Problem(400, "invalid-request", f"from {from_!r} must be before to {to!r}")
    return from_ms, to_ms
