"""What a request may say: parameters and bodies, ranged, with one reading for times and keys."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from actors.model.errors import InvalidKey
from actors.model.instant import from_millis, parse_instant
from actors.model.key import TaskKey
from actors.model.pauses import PauseScope
from scheduler.admin.refusals import Problem
from scheduler.reading.inspector import TaskState

KEY_CHARS_MAX = 60_000
Text = Annotated[str, Field(max_length=KEY_CHARS_MAX)]
Key = Annotated[str, Query(max_length=KEY_CHARS_MAX, description="A task key, in its text form.")]
Instant = Annotated[str, Query(max_length=40, description="RFC 3339, as 2026-02-09T01:41:12Z.")]
Limit = Annotated[int, Query(ge=1, le=1_000)]
OrderingId = Annotated[str | None, Query(alias="orderingId", max_length=KEY_CHARS_MAX)]
Wait = Annotated[float, Field(ge=0, le=30)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class FilterBody(_Body):
    """The tasks a bulk action concerns."""

    from_: Text = Field(alias="from")
    to: Text
    states: list[TaskState] = Field(min_length=1, max_length=20)
    ordering_id: Text | None = Field(None, alias="orderingId")
    partition: int | None = Field(None, ge=0, le=100_000)
    limit: int | None = Field(None, ge=1, le=100_000)
    """The first so many in key order; all that are found without it."""
    after: Text | None = None
    """Only tasks behind this key: the ``nextAfter`` of a listing or of the act before."""


class ActionBody(_Body):
    """What is to be done, and to which tasks: ``keys`` or a ``filter``."""

    keys: list[Text] | None = Field(None, min_length=1, max_length=100_000)
    filter: FilterBody | None = None
    expected: int | None = Field(None, ge=0)
    """How many tasks the filter found when it was looked at: another number refuses the act."""
    dry_run: bool = Field(default=False, alias="dryRun")
    """Says which tasks it concerns, and does nothing."""
    to: Text | None = None
    """Where ``reschedule`` moves to."""
    reason: Annotated[str, Field(max_length=300)] = ""
    wait_s: Wait = Field(5.0, alias="waitS")
    """How long to wait for outcomes; a command stays in the log all the same."""


class _ChangeBody(_Body):
    dry_run: bool = Field(default=False, alias="dryRun")
    """Says which it concerns, and does nothing."""
    reason: Annotated[str, Field(max_length=300)] = ""


class UnblockBody(_ChangeBody):
    """Ordering ids that wait for an operator, and what becomes of the task that blocks them."""

    ordering_ids: list[Text] = Field(alias="orderingIds", min_length=1, max_length=1_000)
    how: Literal["retry", "drop"]
    wait_s: Wait = Field(5.0, alias="waitS")


class PauseTarget(_Body):
    """What to pause or resume."""

    scope: PauseScope
    partition: int | None = None
    ordering_id: Text | None = Field(None, alias="orderingId")


class PauseBody(_Body):
    """Several targets at once, all or none of them."""

    targets: list[PauseTarget] = Field(min_length=1, max_length=1_000)
    reason: Annotated[str, Field(max_length=300)] = ""


class ReplayBody(_Body):
    """Dead letters to append to the log again."""

    places: list[Annotated[str, Field(max_length=40)]] = Field(min_length=1, max_length=1_000)
    reason: Annotated[str, Field(max_length=300)] = ""


class RecurringBody(_ChangeBody):
    """Recurring schedules to change."""

    names: list[Text] = Field(min_length=1, max_length=1_000)
    wait_s: Wait = Field(5.0, alias="waitS")


class TimersBody(_ChangeBody):
    """Timers to end."""

    ids: list[Annotated[str, Field(max_length=200)]] = Field(min_length=1, max_length=1_000)


class RelayBody(_ChangeBody):
    """Messages that wait: by the ``keys`` of their tasks, or by their own ``ids``."""

    keys: list[Text] | None = Field(None, min_length=1, max_length=1_000)
    ids: list[Text] | None = Field(None, min_length=1, max_length=1_000)
    to: Text | None = None
    """Where ``reschedule`` moves to."""
    wait_s: Wait = Field(5.0, alias="waitS")


def refuse_unread_query(request: Request) -> None:
    """Refuse parameters in the address of an act, which takes all it needs from its body."""
    if request.method != "GET" and request.query_params:
        named = ", ".join(sorted(set(request.query_params)))[:200]
        raise Problem(400, "invalid-request", f"an act is told by its body; not read: {named}")


def who_asks(request: Request) -> str:
    """Return who the token says it is."""
    who = getattr(request.state, "who", None)
    return who if isinstance(who, str) else "unknown"


def may_act(request: Request) -> bool:
    """Return whether the token may act as well as look."""
    return getattr(request.state, "may_act", False) is True


def parsed_key(text: str) -> TaskKey:
    """Read a key; Problem where it is none."""
    try:
        return TaskKey.parse(text)
    except InvalidKey as error:
        raise Problem(400, error.code, str(error)) from None


def parsed_ms(name: str, text: str) -> int:
    """Read a time; Problem where it is none."""
    try:
        return parse_instant(text)
    except ValueError as error:
        raise Problem(400, "invalid-request", f"{name}: {error}") from None


def parsed_time(name: str, text: str | None) -> datetime | None:
    """Read a time that need not be given."""
    return None if text is None else from_millis(parsed_ms(name, text))


def parsed_range(from_: str, to: str) -> tuple[int, int]:
    """Read a stretch of time; Problem where it is empty."""
    from_ms, to_ms = parsed_ms("from", from_), parsed_ms("to", to)
    if from_ms >= to_ms:
        raise Problem(400, "invalid-request", f"from {from_!r} must be before to {to!r}")
    return from_ms, to_ms
