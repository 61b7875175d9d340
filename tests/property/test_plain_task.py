"""A task made of plain values is what the validator makes of them."""

import copy
import math
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.task.task import ID_BYTES_MAX, Task
from hourhand.actors.model.values.errors import InvalidTask
from tests.builders import NOW, NOW_MS
from tests.property.strategies import any_text, json_objects


class _Text(str):
    """A string that is none exactly."""

    __slots__ = ()


class _Number(IntEnum):
    SEVEN = 7


class _Moment(datetime):
    """A time that is none exactly."""


class _ValidatedTask(Task):
    """Takes the validator's way always, as every class that is derived from Task."""


class _Prioritized(Task):
    priority: int


class _Mapping(dict[str, Any]):
    """A dictionary that is none exactly."""


_ODD_TEXTS = ["", "é", "\ud800", "a" * ID_BYTES_MAX, "a" * (ID_BYTES_MAX + 1), _Text("a"), 7, None]
_LATE = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))
_ODD_TIMES = [
    NOW.replace(microsecond=123_456),
    NOW.replace(fold=1),
    NOW.replace(fold=1, microsecond=1),
    NOW.replace(tzinfo=None),
    NOW.astimezone(timezone(timedelta(0), "mine")),
    NOW.astimezone(timezone(timedelta(hours=14))),
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    _LATE,
    _Moment(2026, 2, 9, tzinfo=UTC),
    NOW.isoformat(),
    NOW_MS,
    NOW.date(),
    None,
]
_ODD_VALUES = [
    1.5,
    math.nan,
    math.inf,
    [1, {"a": None}],
    {"a": [math.inf]},
    ("a",),
    b"bytes",
    NOW,
    10**400,
    _Number.SEVEN,
    _Text("a"),
    "\ud800",
]
_ODD_DATA: list[object] = [
    {},
    None,
    [],
    "{}",
    _Mapping(a=1),
    MappingProxyType({"a": 1}),
    {7: 1},
    {None: 1},
    {_Text("a"): 1},
    {"\ud800": 1},
    *({"a": 1, "b": value} for value in _ODD_VALUES),
]
_ODD_KINDS = [None, "mail", "a" * 64, "a" * 65, "", "-", "mail\n", "é", _Text("mail"), 7]
_ODD_FIELDS = [
    *(("ordering_id", text) for text in _ODD_TEXTS),
    *(("uniqueness_key", text) for text in _ODD_TEXTS),
    *(("scheduled_time", time) for time in _ODD_TIMES),
    *(("data", data) for data in _ODD_DATA),
    *(("kind", kind) for kind in _ODD_KINDS),
    ("other", 1),
]

_plain_fields = st.fixed_dictionaries(
    {
        "ordering_id": st.text(st.characters(codec="ascii"), min_size=1),
        "scheduled_time": st.datetimes(timezones=st.just(UTC)),
        "uniqueness_key": st.text(st.characters(codec="ascii")),
        "data": st.dictionaries(
            any_text, any_text | st.integers() | st.booleans() | st.none(), max_size=4
        ),
    },
    optional={"kind": st.just("mail")},
)
_any_fields = st.builds(
    lambda plain, odd, data: {**plain, **dict(odd), **data},
    _plain_fields,
    st.lists(st.sampled_from(_ODD_FIELDS), max_size=2),
    st.just({}) | st.fixed_dictionaries({"data": json_objects}),
)


def _made(kind: type[Task], fields: dict[str, Any]) -> tuple[object, ...]:
    """Return all there is of the task that a class makes of these fields, or what it raises."""
    try:
        task = kind(**fields)
    except InvalidTask as error:
        return (str(error),)
    values = dict(task)
    return (
        [(name, type(value), value) for name, value in values.items()],
        [(type(name), type(value)) for name, value in task.data.items()],
        task.scheduled_time.tzinfo,
        task.scheduled_time.fold,
        task.model_fields_set,
        (task.model_extra, task.__pydantic_private__),
        task.data is fields.get("data"),
    )


@given(_any_fields)
def test_a_task_is_what_the_validator_makes_of_its_fields(fields: dict[str, Any]) -> None:
    """Values, their types and their order, or the words of the refusal."""
    assert _made(Task, fields) == _made(_ValidatedTask, fields)


@pytest.mark.parametrize(("name", "odd"), _ODD_FIELDS)
def test_a_field_that_is_odd_alone_is_what_the_validator_makes_of_it(
    name: str, odd: object
) -> None:
    """Each condition of the short way, met by itself; and without the field."""
    plain = {"ordering_id": "a", "scheduled_time": NOW, "uniqueness_key": "b", "data": {"c": 1}}
    without = {each: value for each, value in plain.items() if each != name}

    assert _made(Task, {**plain, name: odd}) == _made(_ValidatedTask, {**plain, name: odd})
    assert _made(Task, without) == _made(_ValidatedTask, without)


def test_what_a_derived_class_adds_is_validated() -> None:
    """It takes the short way never."""
    added: dict[str, Any] = {
        "ordering_id": "a",
        "scheduled_time": NOW,
        "uniqueness_key": "b",
        "priority": "high",
    }

    with pytest.raises(InvalidTask, match="priority: a whole number is needed"):
        _Prioritized(**added)


@given(_plain_fields)
def test_plain_values_are_not_validated(fields: dict[str, Any]) -> None:
    """They are the usual ones, and the validator takes half as long again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "__pydantic_validator__", None)

        assert Task(**fields).ordering_id == fields["ordering_id"]


@given(_plain_fields)
def test_a_task_of_plain_values_is_a_model_like_any(fields: dict[str, Any]) -> None:
    """It can be copied, compared, printed and written, and not be changed."""
    task, validated = Task(**fields), _ValidatedTask(**fields)

    assert copy.deepcopy(task) == task.model_copy() == task
    assert task.model_dump() == validated.model_dump()
    assert repr(task) == repr(validated).replace("_ValidatedTask", "Task")
    with pytest.raises(ValueError, match="frozen"):
        task.kind = "other"  # type: ignore[misc]
