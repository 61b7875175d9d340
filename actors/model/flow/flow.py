"""Declarations of flow control: limits, priority and fair shares of the kinds of tasks.

Decides which declarations are valid, and the flow, limits, priority and weight of a task. Never
decides when a task starts.
"""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import ClassVar, NamedTuple, Protocol

import msgspec

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.kind import KIND_CHARS_MAX
from hourhand.actors.model.task.kind import MEMBER as KIND_MEMBER
from hourhand.actors.model.task.priority import PRIORITY_MAX, is_priority
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.display import shown, storable_text
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.actors.model.values.public import public

VALUE_CHARS_MAX = 64
"""Longest value of a key that is kept as text; the rest of a longer one becomes a checksum."""
WEIGHT_MIN, WEIGHT_MAX = 1e-6, 1e6
RATE_MIN, RATE_MAX = 1e-12, 1e15
"""Bounds of a declared rate: times between starts, and starts at once, are computed from it."""
COUNT_MAX = (1 << 63) - 1
"""Greatest burst and concurrency that a limit may declare."""
NO_VALUE = ""
"""The value of a key that is missing in a task's data, or is null, a list or an object."""
MANY = "~"
"""The first character of the name of an allowance for many values."""
REST = "*"
"""Stands for every value of a key that has no rate of its own."""
RATES_MAX = 200
"""Most values of a key with a rate of their own: each report of a node lists them."""
BURST_S = 0.1
"""A limit without a burst lets one task start at once, and as many as its rate allows in this time,
which makes up for short delays."""

_KIND_OPENS = b'"%b":"' % KIND_MEMBER.encode()
_KIND_REACH_BYTES = len(_KIND_OPENS) + KIND_CHARS_MAX + 2
_MISSING = msgspec.Raw(b"null")
_OWN = "!"
"""Separates kind and the tasks' own priority in the name of a flow; no kind contains it."""


@public("hourhand")
@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most attempts of a kind that start in a time, and that run at once, in the whole cluster.

    ``rate`` attempts start in each ``per``; after a pause up to ``burst`` start at once. Up to
    ``concurrency`` run at the same time. With a ``key``, which is a path into the data of a task
    such as ``tenant`` or ``customer.id``, each value has an allowance of its own; tasks without a
    value share one. With a key ``rate`` may be a mapping of values to rates, such as
    ``{"gold": 50, "*": 5}``: ``"*"`` is the rate of each value that is not named. Raises
    InvalidExecutor for invalid values.
    """

    rate: float | Mapping[str, float] | None = None
    per: timedelta = timedelta(seconds=1)
    burst: int | None = None
    concurrency: int | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        rate, burst = self.rate, self.burst
        per: object = self.per
        if rate is None and self.concurrency is None:
            raise InvalidExecutor("a Limit limits nothing: give it rate=, concurrency= or both")
        if isinstance(rate, Mapping):
            object.__setattr__(self, "rate", _checked_rates(rate, self.key))
        elif rate is not None and not _is_number(rate, RATE_MIN, RATE_MAX):
            raise InvalidExecutor(
                f"the rate of a Limit is {shown(rate)}, {_RATE_NEEDED}, or one for each"
                f' value of its key, such as {{"gold": 50, "{REST}": 5}}'
            )
        if not isinstance(per, timedelta) or per <= timedelta(0):
            raise InvalidExecutor(
                f"per of a Limit is {shown(per)}, a timedelta above 0 is needed, such as"
                " timedelta(seconds=1)"
            )
        if burst is not None and rate is None:
            raise InvalidExecutor(
                f"a Limit has burst={shown(burst)} and no rate: give it rate= too"
            )
        for name, number in (("burst", burst), ("concurrency", self.concurrency)):
            if number is not None and (type(number) is not int or not 1 <= number <= COUNT_MAX):
                raise InvalidExecutor(
                    f"{name} of a Limit is {shown(number)}, a whole number of 1 or more is needed"
                    " that fits into 64 bits"
                )
        _refuse_key("a Limit", self.key)

    @property
    def rest_rate(self) -> float | None:
        """The rate of each value that is not named; None without a rate."""
        return self.rate[REST] if isinstance(self.rate, Mapping) else self.rate

    @property
    def named_rates(self) -> Mapping[str, float]:
        """The rates of the values that are named."""
        if not isinstance(self.rate, Mapping):
            return {}
        return {value: rate for value, rate in self.rate.items() if value != REST}

    def of_value(self, value: str) -> "Limit":
        """Return the limit of one value of the key, whose rate is a number."""
        if not isinstance(self.rate, Mapping):
            return self
        return replace(self, rate=self.rate.get(value, self.rate[REST]))

    def with_rates(self, named: Mapping[str, float]) -> "Limit":
        """Return the limit with other rates of named values; the rest keeps its own."""
        rest = self.rest_rate
        if rest is None or not named:
            return replace(self, rate=rest)
        return replace(self, rate={**named, REST: rest})

    @property
    def per_ms(self) -> float:
        """Milliseconds from one start to the next of a value that is not named, at full rate; 0
        without a rate.
        """
        rate = self.rest_rate
        if rate is None:
            return 0.0
        assert rate > 0, "checked where it was declared"
        return 1000 * self.per.total_seconds() / rate

    @property
    def burst_tasks(self) -> int:
        """Number of tasks of a value that is not named which start at once after a pause."""
        rate = self.rest_rate
        if rate is None:
            return 0
        if self.burst is not None:
            assert self.burst >= 1, "checked where it was declared"
            return self.burst
        return 1 + math.floor(BURST_S * rate / self.per.total_seconds())

    def __str__(self) -> str:
        said = []
        if self.rate is not None:
            said.append(f"{self.rest_rate:g} per {self.per.total_seconds():g} s")
            said.append(f"burst {self.burst_tasks}")
            said += [f"{rate:g} of {shown(value)}" for value, rate in self.named_rates.items()]
        if self.concurrency is not None:
            said.append(f"{self.concurrency} at once")
        if self.key is not None:
            said.append(f"for each {self.key}")
        return ", ".join(said)


@public("hourhand")
@dataclass(frozen=True, slots=True, kw_only=True)
class FairShare:
    """Shares a kind's starts between the values of a key while more tasks are due than can run.

    ``key`` is a path into the data of a task, as for ``Limit``. A value has its weight in
    ``weights``, or 1. Raises InvalidExecutor for invalid values.
    """

    key: str
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.key is None:
            raise InvalidExecutor("a FairShare needs a key: the name of a field of the data")
        _refuse_key("a FairShare", self.key)
        weights: object = self.weights
        if not isinstance(weights, Mapping):
            raise InvalidExecutor(
                f"weights of a FairShare is {shown(weights)}, a mapping of values to numbers is"
                ' needed, such as {"big": 3}'
            )
        for value, weight in weights.items():
            if not _is_number(weight, WEIGHT_MIN, WEIGHT_MAX):
                raise InvalidExecutor(
                    f"the weight of {shown(value)} in a FairShare is {shown(weight)}, a number"
                    f" above 0, from {WEIGHT_MIN:g} to {WEIGHT_MAX:g}, is needed"
                )
        object.__setattr__(self, "weights", {value_text(v): w for v, w in weights.items()})


_RATE_NEEDED = f"a number above 0, from {RATE_MIN:g} to {RATE_MAX:g}, is needed"


def _is_number(number: object, least: float, most: float) -> bool:
    return type(number) in {int, float} and least <= number <= most  # type: ignore[operator]


def _checked_rates(rates: Mapping[str, object], key: object) -> Mapping[str, float]:
    if key is None:
        raise InvalidExecutor(
            "a Limit has a rate for each value and no key: name the field of the data that has the"
            ' values, such as key="plan"'
        )
    checked: dict[str, float] = {}
    for value, rate in rates.items():
        text = _rated_value(value)
        if text in checked:
            raise InvalidExecutor(f"a Limit has two rates for {shown(text)}: leave out one of them")
        if not _is_number(rate, RATE_MIN, RATE_MAX):
            raise InvalidExecutor(
                f"the rate of {shown(value)} in a Limit is {shown(rate)}, {_RATE_NEEDED}"
            )
        checked[text] = rate  # type: ignore[assignment]
    if REST not in checked:
        raise InvalidExecutor(
            f"the rates {shown(checked)} of a Limit leave out every other value, which the data"
            f' may have: give these a rate too, such as "{REST}": 5'
        )
    if len(checked) > RATES_MAX + 1:
        raise InvalidExecutor(
            f"a Limit has rates for {len(checked) - 1:,} values, {RATES_MAX} are allowed: schedule"
            " tasks with a field that decides the rate, such as a plan, and take that as the key"
        )
    return checked


def _rated_value(value: object) -> str:
    text = value_text(value)
    if type(value) not in {str, int, float, bool} or storable_text(text) != text:
        raise InvalidExecutor(
            f"a Limit has a rate for {shown(value)}, a text, number or bool of JSON is needed"
        )
    if text.startswith(MANY):
        raise InvalidExecutor(
            f"a Limit has a rate for {shown(value)}: what begins with {MANY} is the name of many"
            " values that share an allowance, and cannot have a rate of its own"
        )
    return text


def _refuse_key(whose: str, key: object) -> None:
    if key is not None and not (isinstance(key, str) and all(key.split("."))):
        raise InvalidExecutor(
            f"the key of {whose} is {shown(key)}, the name of a field of the data is needed, or a"
            " path such as customer.id"
        )


@dataclass(frozen=True, slots=True)
class FlowRule:
    """The declared flow control of one kind."""

    limits: tuple[Limit, ...] = ()
    priority: int | None = None
    """Among due tasks those with the highest priority start first. None counts as 0 but declares
    nothing; 0 is a rule, so that tasks may have a priority of their own."""
    fair: FairShare | None = None

    def __bool__(self) -> bool:
        """True if anything is declared."""
        return self != _NO_RULE

    @property
    def key(self) -> str | None:
        """The key whose values have a flow each: that of the fair share, or of a limit."""
        if self.fair is not None:
            return self.fair.key
        return next((each.key for each in self.limits if each.key is not None), None)

    @classmethod
    def of(cls, limits: object = (), priority: object = None, fair: object = None) -> "FlowRule":
        """Return a declaration; InvalidExecutor for invalid values.

        A single Limit may replace a list of them.
        """
        several = tuple(limits) if isinstance(limits, list | tuple) else (limits,)
        checked = []
        for each in several:
            if not isinstance(each, Limit):
                raise InvalidExecutor(
                    f"limits holds {shown(each)}, a Limit or a list of them is needed, such as"
                    " Limit(rate=50)"
                )
            checked.append(each)
        if priority is not None and not is_priority(priority):
            raise InvalidExecutor(
                f"priority is {shown(priority)}, a whole number from {-PRIORITY_MAX} to"
                f" {PRIORITY_MAX} is needed"
            )
        if fair is not None and not isinstance(fair, FairShare):
            raise InvalidExecutor(
                f'fair is {shown(fair)}, a FairShare is needed, such as FairShare(key="tenant")'
            )
        return cls(tuple(checked), priority, fair)

    @classmethod
    def declared(
        cls,
        executor: object,
        limits: object = None,
        priority: object = None,
        fair: object = None,
    ) -> "FlowRule":
        """Return the declaration at the registration of a kind, or else that of its executor's
        class.

        A user's own method with such a name declares nothing. Raises InvalidExecutor.
        """
        given = {"limits": limits, "priority": priority, "fair": fair}
        said = {
            name: _of_class(executor, name) if value is None else value
            for name, value in given.items()
        }
        return cls.of(**{name: value for name, value in said.items() if value is not None})


def _of_class(executor: object, name: str) -> object:
    declared: object = getattr(executor, name, None)
    return None if hasattr(declared, "__get__") else declared


_NO_RULE = FlowRule()


class LimitKey(NamedTuple):
    """The owner of an allowance: a limit, and a value of its key."""

    limit: str
    """The limit's name: its kind, ``#`` and its place among the limits of the kind, from 1."""
    value: str

    def __str__(self) -> str:
        return f"{self.limit} {self.value}" if self.value else self.limit


class FlowRules:
    """The rules of all kinds that a node runs; falsy if there are none."""

    NONE: ClassVar["FlowRules"]
    """The rules without any kind."""

    def __init__(self, rules: Mapping[str | None, FlowRule]) -> None:
        self._rules = {kind: KindFlow(kind, rule) for kind, rule in rules.items() if rule}
        self._by_bytes = {k.encode(): each for k, each in self._rules.items() if k is not None}
        self.limits: Mapping[str, Limit] = {
            name: limit for each in self._rules.values() for name, limit in each.limits.items()
        }
        """All limits by name."""

    def __bool__(self) -> bool:
        return bool(self._rules)

    @property
    def keys(self) -> frozenset[str]:
        """The paths into data that limits and fair shares have as keys."""
        shares = {each.rule.fair.key for each in self._rules.values() if each.rule.fair is not None}
        return frozenset(shares | {k for each in self.limits.values() if (k := each.key)})

    def of_task(self, task: StoredTask) -> "KindFlow | None":
        """Return the flow control of a task's kind; None if it has no rule."""
        text = task.body
        # Most rows end with their kind, and reading it as text costs more than all the rest.
        start = text.rfind(_KIND_OPENS, -_KIND_REACH_BYTES) + len(_KIND_OPENS)
        found = self._by_bytes.get(text[start:-2])
        if found is not None and text.endswith(b'"}'):
            return found
        kind = task.kind
        if kind is None and task.key.ordering_id.startswith(RESERVED):
            # A system task does not belong to the default executor.
            return None
        return self._rules.get(kind)

    def flow_of(self, task: StoredTask) -> str:
        """Return the flow of a task: its kind and a value, '' without a rule; and the task's own
        priority if that differs from its kind's.
        """
        found = self.of_task(task)
        flow = "" if found is None else found.flow_of(task)
        own = task.priority
        if own is None or own == (0 if found is None else found.priority):
            return flow
        kind, space, value = flow.partition(" ")
        return f"{kind}{_OWN}{own}{space}{value}"

    def priority_of(self, task: StoredTask) -> int:
        """Return a task's priority: its own, or else its kind's."""
        own = task.priority
        if own is not None:
            return own
        found = self.of_task(task)
        priority = 0 if found is None else found.priority
        assert is_priority(priority), "checked where it was declared"
        return priority

    def weight_of(self, flow: str) -> float:
        """Return the weight of a flow among those of its kind."""
        name, space, value = flow.partition(" ")
        found = self._rules.get(name.partition(_OWN)[0] or None) if space else None
        if found is None or found.rule.fair is None:
            return 1.0
        weight = found.rule.fair.weights.get(value, 1.0)
        assert weight > 0, "who weighs nothing would never start"
        return weight


class KindFlow:
    """One kind's rule, and the readers of its tasks' keys."""

    def __init__(self, kind: str | None, rule: FlowRule) -> None:
        assert kind is None or " " not in kind, "a space ends the kind in a flow's name"
        self.rule = rule
        self.limits = {f"{kind or ''}#{place}": limit for place, limit in enumerate(rule.limits, 1)}
        self.limit_values = [(name, value_reader(each.key)) for name, each in self.limits.items()]
        """Each limit's name, and the reader of its key's value."""
        self.priority = rule.priority or 0
        """Priority of its tasks without one of their own."""
        self._prefix = f"{kind or ''} "
        self._flow_value = value_reader(rule.key)

    def flow_of(self, task: StoredTask) -> str:
        """Return the flow of a task of this kind."""
        value_of = self._flow_value
        return self._prefix + (NO_VALUE if value_of is None else value_of(task.body))


FlowRules.NONE = FlowRules({})


def value_reader(key: str | None) -> Callable[[bytes], str] | None:
    """Return a function that reads the value of a key from a task's data, as a short text; None
    without a key.

    Only the fields on the path are decoded. A number reads as its text does.
    """
    if key is None:
        return None
    *outer, last = key.split(".")
    openers = [_field_decoder(name, msgspec.Raw, _MISSING) for name in outer]
    decode = _field_decoder(last, str | int | float | bool | None, None)

    def value_of(data: bytes) -> str:
        found: object = data
        try:
            for opened in openers:
                found = opened(found).value
            value = decode(found).value
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return NO_VALUE
        if type(value) is str and len(value) <= VALUE_CHARS_MAX:
            return value
        return NO_VALUE if value is None else value_text(value)

    return value_of


class _KeyField(Protocol):
    @property
    def value(self) -> object:
        """The value of the one decoded field."""


def _field_decoder(name: str, kind: object, default: object) -> Callable[[object], _KeyField]:
    """Return a decoder for only one field of a JSON object."""
    struct = msgspec.defstruct(
        "KeyField", [("value", kind, default)], rename={"value": name}, gc=False
    )
    return msgspec.json.Decoder(struct).decode  # type: ignore[return-value]


def value_text(value: object) -> str:
    """Return a value of a key as a short text; a long one is cut, and ends with a checksum."""
    if value is True or value is False:
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    if len(text) <= VALUE_CHARS_MAX:
        return text
    checksum = f"~{zlib.crc32(text.encode('utf-8', 'backslashreplace')):08x}"
    cut = text[: VALUE_CHARS_MAX - len(checksum)] + checksum
    assert len(cut) == VALUE_CHARS_MAX, "what is too long is cut to what may be"
    return cut
