"""The rule of a recurring schedule: its times, and the validation of a rule.

Pure: no clock is read. ``cron_times`` decides the meaning of cron expressions.
"""

import zlib
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Annotated, Literal, Self, cast
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from hourhand.actors.model.task.codec import encode_object
from hourhand.actors.model.task.kind import checked_kind
from hourhand.actors.model.task.priority import PRIORITY_MAX
from hourhand.actors.model.task.sealed import SealedData, SealedMembers, read_envelope
from hourhand.actors.model.task.task import Identifier
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    format_instant,
    from_millis,
    to_millis,
)
from hourhand.actors.model.values.problem_words import PROBLEMS_MAX, problem_text
from hourhand.scheduler.services.recurring.cron_times import (
    checked_cron,
    cron_after,
    shortest_gap_ms,
)
from hourhand.scheduler.tasks.time_zones import is_known_zone, is_same_everywhere

Overlap = Literal["skip", "buffer_one", "allow"]

INTERVAL_MS_MIN = 100
NAME_CHARS_MAX = 1_000
EXCEPT_DATES_MAX = 1_000


def _known_zone(name: str) -> str:
    if not is_known_zone(name):
        raise ValueError("no time zone of that name is known: write Europe/Berlin or UTC")
    return name


def _iso_date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError("it must be a date of the calendar, as 2026-12-25") from None


def _each_once(dates: list[str]) -> list[str]:
    return sorted(set(dates))


class RecurringRule(BaseModel):
    """The times of a schedule, by one of ``cron`` and ``every_ms``, and the settings of its
    tasks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cron: Annotated[str, Field(max_length=500), AfterValidator(checked_cron)] | None = None
    every_ms: Annotated[int, Field(ge=INTERVAL_MS_MIN)] | None = None
    time_zone: Annotated[str, Field(max_length=100), AfterValidator(_known_zone)] = "UTC"
    """The time zone of ``cron``."""
    ordering_id: Annotated[Identifier, Field(min_length=1)]
    """Ordering id of the tasks; with ``allow``, the prefix of each occurrence's own id."""
    kind: Annotated[str, AfterValidator(checked_kind)] | None = None
    """Kind of the tasks; without one the default executor runs them."""
    priority: Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] | None = None
    """Priority of the tasks; without one they have their kind's."""
    expires_after_ms: Annotated[int, Field(ge=1)] | None = None
    """Time from a task's scheduled time to its expiry; without one they have their kind's."""
    data: dict[str, JsonValue] = Field(default_factory=dict)
    seal: dict[str, JsonValue] | None = None
    """The envelope of sealed data; ``data`` then holds only the part that is not sealed."""
    overlap: Overlap = "skip"
    catch_up_ms: Annotated[int, Field(ge=0)] = 3_600_000
    """Time that was missed by more than this, because no node ran, is skipped."""
    jitter_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 0
    """Each occurrence is delayed by up to this time, by the same delay on every node."""
    starts_ms: int | None = None
    ends_ms: int | None = None
    """Nothing is due at this time or after."""
    except_dates: Annotated[
        list[Annotated[str, AfterValidator(_iso_date)]],
        Field(max_length=EXCEPT_DATES_MAX),
        AfterValidator(_each_once),
    ] = []
    """Dates in ``time_zone`` on which nothing is due."""
    count_max: Annotated[int, Field(ge=1)] | None = None
    """The schedule ends after this number of tasks."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if self.cron is None and self.every_ms is None:
            raise ValueError("it says no time: give cron or every")
        if self.cron is not None and self.every_ms is not None:
            raise ValueError("cron and every are both given: give one of them")
        return self

    @property
    def expires_after(self) -> timedelta | None:
        """Time from a task's scheduled time to its expiry."""
        after_ms = self.expires_after_ms
        return None if after_ms is None else timedelta(milliseconds=after_ms)

    @property
    def envelope(self) -> SealedData | None:
        """The envelope of the data; None if it is not sealed, or cannot be read."""
        return None if self.seal is None else read_envelope(encode_object(self.seal))

    @property
    def task_data(self) -> dict[str, JsonValue]:
        """The data of each task, in sealed form if it is sealed."""
        if self.seal is None:
            return self.data
        return cast("dict[str, JsonValue]", SealedMembers(self.data, self.envelope))

    def next_after(self, time_ms: int, anchor_ms: int) -> int | None:
        """Return the first time after ``time_ms`` at which it is due; None where it has ended.

        Intervals are counted from ``starts_ms``, else from ``anchor_ms``.
        """
        due_ms = self._next_of_any_date(time_ms, anchor_ms)
        while due_ms is not None and (day_ends_ms := self._excepted_until_ms(due_ms)) is not None:
            due_ms = self._next_of_any_date(day_ends_ms - 1, anchor_ms)
        return due_ms

    def _excepted_until_ms(self, due_ms: int) -> int | None:
        """Return the end of the excepted date that a time is in; None for any other date."""
        if not self.except_dates:
            return None
        zone = ZoneInfo(self.time_zone)
        try:
            day = from_millis(due_ms).astimezone(zone).date()
            if day.isoformat() not in self.except_dates:
                return None
            # This is the moment of the change if the clock skips midnight, as it must be.
            midnight = datetime.combine(day + timedelta(days=1), time(), zone)
        except OverflowError:
            return INSTANT_MAX_MS + 1
        end_ms = to_millis(midnight)
        # A clock that is set back across midnight shows it twice, and the date again in between.
        return end_ms if end_ms > due_ms else to_millis(midnight.replace(fold=1))

    def _next_of_any_date(self, time_ms: int, anchor_ms: int) -> int | None:
        if self.starts_ms is not None:
            time_ms = max(time_ms, self.starts_ms - 1)
        if self.every_ms is not None:
            first_ms = anchor_ms if self.starts_ms is None else self.starts_ms
            passed = max(0, (time_ms - first_ms) // self.every_ms + 1)
            due_ms: int | None = first_ms + passed * self.every_ms
        else:
            assert self.cron is not None, "one of both"
            due_ms = cron_after(self.cron, self.time_zone, time_ms)
        if due_ms is None or due_ms > INSTANT_MAX_MS:
            return None
        return None if self.ends_ms is not None and due_ms >= self.ends_ms else due_ms

    def times_after(self, time_ms: int, anchor_ms: int) -> Iterator[int]:
        """Yield all times after ``time_ms`` at which it is due."""
        due_ms = self.next_after(time_ms, anchor_ms)
        while due_ms is not None:
            yield due_ms
            due_ms = self.next_after(due_ms, anchor_ms)

    def jittered_ms(self, name: str, due_ms: int) -> int:
        """Return the time at which the occurrence of a time runs: the same on every node."""
        if not self.jitter_ms:
            return due_ms
        number = zlib.crc32(f"{name}@{due_ms}".encode())
        return due_ms + number % (self.jitter_ms + 1)


def checked_rule(**values: object) -> RecurringRule:
    """Return a new rule after validation; the text of InvalidTask says what is wrong."""
    rule = read_rule(**values)
    encode_object(rule.data)
    if not is_same_everywhere(rule.time_zone):
        raise InvalidTask(
            f"invalid recurring schedule: time_zone: {rule.time_zone} is another time zone on"
            " another machine: write the zone that is meant, as Europe/Berlin or UTC"
        )
    if rule.jitter_ms and rule.jitter_ms > (gap_ms := _shortest_gap_ms(rule)):
        raise InvalidTask(
            f"invalid recurring schedule: jitter_ms: {rule.jitter_ms} is longer than the"
            f" {gap_ms} ms between two times of the schedule: make it {gap_ms} at most"
        )
    return rule


def _shortest_gap_ms(rule: RecurringRule) -> int:
    if rule.every_ms is not None:
        return rule.every_ms
    assert rule.cron is not None, "one of both"
    return shortest_gap_ms(rule.cron)


def read_rule(**values: object) -> RecurringRule:
    """Return a rule that was accepted before, even if a new one would be refused now; raises
    InvalidTask if its fields are malformed.
    """
    try:
        return RecurringRule.model_validate(values)
    except ValidationError as error:
        problems = error.errors(include_url=False)[:PROBLEMS_MAX]
        told = "; ".join(_described(each, values) for each in problems)
        raise InvalidTask(f"invalid recurring schedule: {told}") from None


def _described(problem: ErrorDetails, given: dict[str, object]) -> str:
    # An error without a field concerns the whole rule, with values that the caller never wrote.
    is_known, names = bool(problem["loc"]), RecurringRule.model_fields
    return problem_text(problem, names=names, shows_value=is_known, whole=given)


def checked_name(name: object) -> str:
    """Return a valid schedule name; raises InvalidTask for any other value."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARS_MAX:
        raise InvalidTask(
            f"a recurring schedule has a name of 1 to {NAME_CHARS_MAX} characters,"
            f" got {shown(name)}"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidTask(
            f"{shown(name)} holds a lone surrogate, which is not valid in a name"
        ) from None
    return name


def next_times(rule: RecurringRule, after_ms: int, anchor_ms: int, count: int) -> list[str]:
    """Return the next times at which a rule is due, as text in its own time zone."""
    zone = ZoneInfo(rule.time_zone)
    return [
        f"{format_instant(due_ms)} {from_millis(due_ms).astimezone(zone).isoformat()}"
        for due_ms in islice(rule.times_after(after_ms, anchor_ms), count)
    ]
