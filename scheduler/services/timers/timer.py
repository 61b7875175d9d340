"""What a timer is, and how it is read from and written to the seed's JSON.

Decides which requests are refused, and why; ``InvalidTimer`` is the text of a 400.  Times are
whole seconds outside and milliseconds inside.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from actors.model.display import shown
from actors.model.events import TimerTagChanged
from actors.model.instant import INSTANT_MAX_MS, format_instant

REPLICATION_DEFAULT = 2
REPLICATION_MAX = 1_000
COUNT_MAX = 2**32 - 1
TAGS_MAX = 100
_TAG = re.compile(r"[A-Z]{1,16}")
_ID = re.compile(r"([0-9a-fA-F]{16})-([0-9]{1,4})")


class InvalidTimer(ValueError):
    """A request that is no timer; its text says what is wrong."""


class TimerRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a timer does."""

    interval_ms: int
    repeat_for_ms: int
    uri: str
    opaque: str
    replication: int = REPLICATION_DEFAULT
    """Accepted and told again; how often a timer is kept is the store's matter."""
    tags: tuple[tuple[str, int], ...] = ()

    def pops(self, number: int) -> bool:
        """Whether there is a pop of this number, the first being 1."""
        if self.interval_ms == 0:
            return number == 1
        return number * self.interval_ms <= self.repeat_for_ms

    def pop_ms(self, start_ms: int, number: int) -> int:
        """Return when a pop is due: counted from the start, so nothing drifts."""
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
    """Return the rule that a timer goes on with; None where there is no pop to come."""
    return rule if rule is not None and rule.pops(1) else None


def tag_changes(before: TimerRule | None, after: TimerRule | None) -> Iterator[TimerTagChanged]:
    """Yield by how much more or less a timer counts for each tag; None is one that has ended."""
    had, has = (dict(() if rule is None else rule.tags) for rule in (before, after))
    for tag in {**had, **has}:
        gained = has.get(tag, 0) - had.get(tag, 0)
        if gained:
            yield TimerTagChanged(tag, gained)


def split_id(text: str) -> tuple[str, int] | None:
    """Return id and replication factor of a URL; what follows them is ignored.  None: no id."""
    found = _ID.match(text)
    if found is None or not 1 <= int(found[2]) <= REPLICATION_MAX:
        return None
    return found[1].lower(), int(found[2])


def parse_timer(body: bytes, now_ms: int, url_replication: int | None = None) -> TimerRule:
    """Read a request's body; raises InvalidTimer."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError) as error:
        raise InvalidTimer(f"the body is not JSON: {error}") from None
    root = _object(value, "the body")
    timing = _object(_required(root, "timing"), "timing")
    interval_s = _whole(_required(timing, "interval", "timing."), "timing.interval")
    repeat_for_s = _whole(timing.get("repeat-for", interval_s), "timing.repeat-for")
    if interval_s == 0 and repeat_for_s != 0:
        raise InvalidTimer("timing.interval is 0, so timing.repeat-for can only be 0")
    if now_ms + 1000 * max(interval_s, repeat_for_s) > INSTANT_MAX_MS:
        raise InvalidTimer("timing reaches beyond the year 9999")
    uri, opaque = callback_of(root)
    return TimerRule(
        1000 * interval_s,
        1000 * repeat_for_s,
        uri,
        opaque,
        _replication(root.get("reliability", {}), url_replication),
        _tags(root.get("statistics", {})),
    )


def callback_of(body: Any) -> tuple[str, str]:
    """Return a request's URI and opaque text; raises InvalidTimer."""
    callback = _object(_required(_object(body, "the body"), "callback"), "callback")
    http = _object(_required(callback, "http", "callback."), "callback.http")
    uri = _uri(_text(_required(http, "uri", "callback.http."), "callback.http.uri"))
    return uri, _text(_required(http, "opaque", "callback.http."), "callback.http.opaque")


def next_pop(rule: TimerRule, start_ms: int, now_ms: int) -> tuple[int, int]:
    """Return number and time of the pop that is due next, by the clock alone."""
    passed = 0
    if rule.interval_ms:
        last = rule.repeat_for_ms // rule.interval_ms
        passed = max(0, min((now_ms - start_ms) // rule.interval_ms, last - 1))
    return passed + 1, rule.pop_ms(start_ms, passed + 1)


def timer_value(name: str, state: TimerState, now_ms: int) -> dict[str, Any]:
    """Return a timer as JSON: the fields it was made with, its id, and its next pop."""
    rule = state.rule
    assert rule is not None, "a timer that has ended is not shown"
    number, due_ms = next_pop(rule, state.start_ms, now_ms)
    value: dict[str, Any] = {
        "id": f"{name}-{rule.replication}",
        "timing": {
            "interval": rule.interval_ms // 1000,
            "repeat-for": rule.repeat_for_ms // 1000,
        },
        "callback": {"http": {"uri": rule.uri, "opaque": rule.opaque}},
        "reliability": {"replication-factor": rule.replication},
        "next-pop": {
            "sequence-number": number,
            "time": format_instant(due_ms),
        },
    }
    if rule.tags:
        tags = [{"type": tag, "count": count} for tag, count in rule.tags]
        value["statistics"] = {"tag-info": tags}
    return value


def _required(value: dict[str, Any], name: str, where: str = "") -> Any:
    if name not in value:
        raise InvalidTimer(f"{where}{name} is missing")
    return value[name]


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidTimer(f"{name} must be an object, got {shown(value)}")
    return value


def _whole(value: Any, name: str) -> int:
    # A fraction that happens to be whole is refused too, as the seed does.
    if type(value) is not int or value < 0:
        raise InvalidTimer(f"{name} must be a whole number of seconds, got {shown(value)}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidTimer(f"{name} must be text, got {shown(value)}")
    return value


def _uri(uri: str) -> str:
    if not uri.isprintable() or not uri.startswith(("http://", "https://")) or " " in uri:
        raise InvalidTimer(f"callback.http.uri must be an http or https URL, got {shown(uri)}")
    return uri


def _replication(reliability: Any, url_replication: int | None) -> int:
    value = _object(reliability, "reliability")
    if value.get("replicas", ["any"]) == []:
        raise InvalidTimer("reliability.replicas is empty")
    default = REPLICATION_DEFAULT if url_replication is None else url_replication
    factor = value.get("replication-factor", default)
    name = "reliability.replication-factor"
    if type(factor) is not int or not 1 <= factor <= REPLICATION_MAX:
        raise InvalidTimer(f"{name} must be 1 to {REPLICATION_MAX}, got {shown(factor)}")
    if url_replication is not None and factor != url_replication:
        raise InvalidTimer(f"{name} is {factor}, but the URL says {url_replication}")
    return factor


def _tags(statistics: Any) -> tuple[tuple[str, int], ...]:
    """Return the tags that can be counted; others are left out without a word, as the seed does.

    However a timer is to be counted, it pops: nothing here refuses it.
    """
    value = statistics.get("tag-info") if isinstance(statistics, dict) else None
    if not isinstance(value, list):
        return ()
    tags: dict[str, int] = {}
    for entry in value:
        tag, count = (
            (entry.get("type"), entry.get("count", 1)) if isinstance(entry, dict) else (0, 0)
        )
        if not (isinstance(tag, str) and _TAG.fullmatch(tag) and type(count) is int):
            continue
        if 0 <= count <= COUNT_MAX and (tag in tags or len(tags) < TAGS_MAX):
            tags[tag] = min(COUNT_MAX, tags.get(tag, 0) + count)
    return tuple(tags.items())
