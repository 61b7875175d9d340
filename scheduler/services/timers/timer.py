"""A timer, and its reading from and writing to the JSON of Chronos.

Decides which requests are refused, and the reason; ``InvalidTimer`` is the text of a 400. Times are
whole seconds outside and milliseconds inside.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from hourhand.actors.model.operations.events import TimerTagChanged
from hourhand.actors.model.values.display import storable_text
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, format_instant
from hourhand.actors.model.values.problem_words import problems_text

REPLICATION_DEFAULT = 2
REPLICATION_MAX = 1_000
COUNT_MAX = 2**32 - 1
TAGS_MAX = 100
_TAG = re.compile(r"[A-Z]{1,16}")
_ID = re.compile(r"([0-9a-fA-F]{16})-([0-9]{1,4})")


class InvalidTimer(ValueError):
    """A request that is not a timer; its text says what is wrong."""


class TimerRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """The times, the callback and the tags of a timer."""

    interval_ms: Annotated[int, msgspec.Meta(ge=0, le=INSTANT_MAX_MS)]
    repeat_for_ms: Annotated[int, msgspec.Meta(ge=0, le=INSTANT_MAX_MS)]
    uri: str
    opaque: str
    replication: int = REPLICATION_DEFAULT
    """Accepted and shown again; the store decides the number of copies."""
    tags: tuple[tuple[str, int], ...] = ()

    def pops(self, number: int) -> bool:
        """True if there is a pop of this number, from 1."""
        if self.interval_ms == 0:
            return number == 1
        return number * self.interval_ms <= self.repeat_for_ms

    def pop_ms(self, start_ms: int, number: int) -> int:
        """Return the time of a pop, counted from the start, so that delays do not add up."""
        return start_ms + number * self.interval_ms


class TimerState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rule of a timer's definition."""

    start_ms: int
    made_by: str
    """Uniqueness key of the task that made this state."""
    changed_at: int
    """Log offset of the last request for it."""
    rule: TimerRule | None = None
    """None once it has ended."""


def kept_rule(rule: TimerRule | None) -> TimerRule | None:
    """Return the rule with which a timer goes on; None if no pop is left."""
    return rule if rule is not None and rule.pops(1) else None


def tag_changes(before: TimerRule | None, after: TimerRule | None) -> Iterator[TimerTagChanged]:
    """Yield the changes to the count of each tag; None stands for a timer that has ended."""
    had, has = (dict(() if rule is None else rule.tags) for rule in (before, after))
    for tag in {**had, **has}:
        gained = has.get(tag, 0) - had.get(tag, 0)
        if gained:
            yield TimerTagChanged(tag, gained)


def split_id(text: str) -> tuple[str, int] | None:
    """Return id and replication factor of a URL, without the rest; None if it has no id."""
    found = _ID.match(text)
    if found is None or not 1 <= int(found[2]) <= REPLICATION_MAX:
        return None
    return found[1].lower(), int(found[2])


def _http(uri: str) -> str:
    if not uri.isprintable() or " " in uri:
        raise ValueError("it must be an http or https URL")
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("it must be a URL with a host, and a port from 1 to 65535") from None
    if not host or port == 0:
        raise ValueError("it must be a URL with a host, and a port from 1 to 65535")
    return uri


def _sendable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds a lone surrogate, which is not valid in UTF-8") from None
    return text


def _one_at_least(replicas: object) -> object:
    if replicas == []:
        raise ValueError("it is empty")
    return replicas


def _countable(statistics: object) -> dict[str, int]:
    """Return the tags that can be counted; Chronos silently ignores others, and so does this.

    Tags never cause a refusal: the timer pops anyway.
    """
    value = statistics.get("tag-info") if isinstance(statistics, dict) else None
    tags: dict[str, int] = {}
    for entry in value if isinstance(value, list) else ():
        tag, count = (
            (entry.get("type"), entry.get("count", 1)) if isinstance(entry, dict) else (0, 0)
        )
        if not (isinstance(tag, str) and _TAG.fullmatch(tag) and type(count) is int):
            continue
        if 0 <= count <= COUNT_MAX and (tag in tags or len(tags) < TAGS_MAX):
            tags[tag] = min(COUNT_MAX, tags.get(tag, 0) + count)
    return tags


Seconds = Annotated[int, Field(ge=0, description="Seconds.")]


class RequestPart(BaseModel):
    """An object of a request: values are not converted, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


class TimerTiming(RequestPart):
    """The times of a timer's pops."""

    interval: Seconds
    repeat_for: Seconds = Field(
        alias="repeat-for",
        default_factory=lambda known: known.get("interval", 0),
        description="Seconds; the interval by default.",
    )


class HttpCallbackRequest(RequestPart):
    """The URL of a callback, and its body."""

    uri: Annotated[str, Field(pattern=r"^https?://"), AfterValidator(_http)]
    opaque: Annotated[str, AfterValidator(_sendable)]


class CallbackRequest(RequestPart):
    """The callback of a timer."""

    http: HttpCallbackRequest


class TimerReliability(RequestPart):
    """The replication factor of Chronos."""

    replication_factor: int = Field(
        REPLICATION_DEFAULT, alias="replication-factor", ge=1, le=REPLICATION_MAX
    )
    replicas: Annotated[Any, AfterValidator(_one_at_least)] = None


class TimerRequest(RequestPart):
    """A request for a timer."""

    timing: TimerTiming
    callback: CallbackRequest
    reliability: TimerReliability = TimerReliability()
    statistics: Annotated[
        dict[str, int],
        BeforeValidator(_countable),
        WithJsonSchema({"description": "Tags to count, in tag-info; nothing here is refused."}),
    ] = Field(default_factory=dict)

    def rule(self, now_ms: int, url_replication: int | None = None) -> TimerRule:
        """Return the requested rule; raises InvalidTimer if its parts contradict each other."""
        timing, reliability = self.timing, self.reliability
        if timing.interval == 0 and timing.repeat_for != 0:
            raise InvalidTimer("timing.interval is 0, so timing.repeat-for can only be 0")
        if now_ms + 1000 * max(timing.interval, timing.repeat_for) > INSTANT_MAX_MS:
            raise InvalidTimer("timing reaches beyond the year 9999")
        factor = reliability.replication_factor
        if url_replication is not None:
            given = "replication_factor" in reliability.model_fields_set
            if given and factor != url_replication:
                raise InvalidTimer(
                    f"reliability.replication-factor is {factor}, but the URL says"
                    f" {url_replication}"
                )
            factor = url_replication
        http = self.callback.http
        return TimerRule(
            1000 * timing.interval,
            1000 * timing.repeat_for,
            http.uri,
            http.opaque,
            factor,
            tuple(self.statistics.items()),
        )


def refusal_of(problems: Sequence[Any]) -> str:
    """Return the problems of a request as text: field, reason and value."""
    # A default that comes from another field fails when that field is wrong, so only that field is
    # reported.
    told = [each for each in problems if each["type"] != "default_factory_not_called"]
    return storable_text(problems_text(told, nowhere="the body"))


def next_pop(rule: TimerRule, start_ms: int, now_ms: int) -> tuple[int, int]:
    """Return number and time of the next pop, by the clock alone."""
    passed = 0
    if rule.interval_ms:
        last = rule.repeat_for_ms // rule.interval_ms
        passed = max(0, min((now_ms - start_ms) // rule.interval_ms, last - 1))
    return passed + 1, rule.pop_ms(start_ms, passed + 1)


Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class ServiceAnswer(msgspec.Struct, frozen=True, rename="kebab"):
    """An answer of the service, or a part of it, with the names of a request."""


class DescribedTiming(ServiceAnswer, frozen=True):
    """The times of a timer's pops, in seconds."""

    interval: int
    repeat_for: int


class CallbackTarget(ServiceAnswer, frozen=True):
    """The URL of a callback, and its body."""

    uri: str
    opaque: str


class DescribedCallback(ServiceAnswer, frozen=True):
    """The callback of a timer."""

    http: CallbackTarget


class DescribedReliability(ServiceAnswer, frozen=True):
    """The replication factor of Chronos."""

    replication_factor: int


class PopDescription(ServiceAnswer, frozen=True):
    """The next pop, by the clock alone."""

    sequence_number: int
    time: Time


class TagCount(ServiceAnswer, frozen=True):
    """A tag, and the count that a timer adds to it."""

    type: str
    count: int


class DescribedStatistics(ServiceAnswer, frozen=True):
    """The tags that a timer counts for."""

    tag_info: list[TagCount]


class DescribedTimer(ServiceAnswer, frozen=True):
    """A timer: the fields it was made with, its id, and its next pop."""

    id: str
    timing: DescribedTiming
    callback: DescribedCallback
    reliability: DescribedReliability
    next_pop: PopDescription
    statistics: DescribedStatistics | UnsetType = UNSET

    @classmethod
    def of(cls, name: str, state: TimerState, now_ms: int) -> Self:
        """Describe a timer."""
        rule = state.rule
        assert rule is not None, "a timer that has ended is not shown"
        number, due_ms = next_pop(rule, state.start_ms, now_ms)
        tags = [TagCount(tag, count) for tag, count in rule.tags]
        return cls(
            id=f"{name}-{rule.replication}",
            timing=DescribedTiming(rule.interval_ms // 1000, rule.repeat_for_ms // 1000),
            callback=DescribedCallback(CallbackTarget(rule.uri, rule.opaque)),
            reliability=DescribedReliability(rule.replication),
            next_pop=PopDescription(number, format_instant(due_ms)),
            statistics=DescribedStatistics(tags) if tags else UNSET,
        )


class DescribedTimers(ServiceAnswer, frozen=True):
    """A page of timers, and the cursor of the next page."""

    timers: list[DescribedTimer]
    next_after: str | None
