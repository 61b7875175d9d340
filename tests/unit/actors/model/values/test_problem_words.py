"""Whatever pydantic refuses is told in words of Hourhand's, at every door."""

import typing
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError, PydanticKnownError, core_schema

from hourhand.actors.model.values.errors import HourhandError, InvalidTask, SettingsInvalid
from hourhand.actors.model.values.problem_words import KINDS_KNOWN, problem_text, problems_text
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.services.recurring.rule import RecurringRule, read_rule
from tests.builders import a_task
from tests.pydantic_phrases import PHRASES

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
KINDS: tuple[Any, ...] = typing.get_args(core_schema.ErrorType)
_CONTEXT: dict[str, Any] = {
    **dict.fromkeys(("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length"), 3),
    **dict.fromkeys(("actual_length", "max_digits", "decimal_places", "whole_digits"), 3),
    **dict.fromkeys(("tz_expected", "tz_actual", "expected_version"), 3),
    **dict.fromkeys(("error", "expected", "pattern", "class_name", "class", "field_type"), "Word"),
    **dict.fromkeys(("discriminator", "tag", "expected_tags", "expected_schemes"), "Word"),
    **dict.fromkeys(("attribute", "method_name", "encoding", "encoding_error"), "Word"),
}


class Of(BaseModel):
    """A model with each kind of limit."""

    model_config = {"extra": "forbid"}

    number: int = Field(1, ge=1, le=5)
    word: typing.Literal["slow", "fast"] = "slow"
    text: str = Field("a", min_length=1, max_length=3)
    several: list[int] = Field([1, 2], min_length=2)


def _problems(judge: Callable[..., object], *given: object) -> list[Any]:
    with pytest.raises(ValidationError) as caught:
        judge(*given)
    return caught.value.errors(include_url=False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_problem_that_pydantic_knows_has_words(kind: Any) -> None:
    """One that a new version adds fails here, before a user reads it."""

    def refuse(_value: object) -> object:
        if kind in {"value_error", "assertion_error"}:
            raise (
                ValueError("the number is odd") if kind == "value_error" else AssertionError("odd")
            )
        raise PydanticKnownError(kind, _CONTEXT)

    class Refusing(BaseModel):
        field: Annotated[Any, BeforeValidator(refuse)]

    if kind not in {"value_error", "assertion_error"}:
        with pytest.raises(PydanticKnownError):
            refuse(None)
    told = problems_text(_problems(Refusing.model_validate, {"field": "x"}))

    assert kind in KINDS_KNOWN
    assert told.startswith("field: ")
    assert not PHRASES.search(told)


def test_a_problem_says_where_what_is_needed_and_what_was_given() -> None:
    """In one sentence each."""
    given = {"number": 9, "word": "fsat", "text": "", "several": [1]}

    told = problems_text(_problems(Of.model_validate, given))

    assert told.split("; ", 1)[0] == "number: at most 5 is needed, got 9"
    assert "word: 'slow' or 'fast' is needed; did you mean fast? got 'fsat'" in told
    assert "text: a text that is not empty is needed, got ''" in told
    assert told.endswith("several: at least 2 elements are needed, got [1]")


def test_a_name_that_is_not_there_is_told_with_the_closest() -> None:
    """Of those that are given."""
    [problem] = _problems(Of.model_validate, {"numbr": 1})

    assert problem_text(problem, names=Of.model_fields) == (
        "numbr: there is no such name here; did you mean number? got 1"
    )
    assert problem_text(problem, shows_value=False) == "numbr: there is no such name here"


def test_a_validators_own_words_are_told_as_they_are() -> None:
    """Those of a type, too, that a user made."""

    def refuse(value: object) -> object:
        raise PydanticCustomError("of_mine", "no {colour} please", {"colour": "red"})

    class Mine(BaseModel):
        field: Annotated[Any, BeforeValidator(refuse)]

    assert problems_text(_problems(Mine.model_validate, {"field": 1})) == (
        "field: no red please, got 1"
    )


def test_the_place_is_that_of_the_value_and_not_of_a_choice_that_was_tried() -> None:
    """Pydantic names the choices of a union among the names that lead to a value."""
    with pytest.raises(InvalidTask, match=r"data\.list\.0: a number that is not infinite"):
        a_task(data={"list": [float("nan")]})
    with pytest.raises(InvalidTask, match=r"data\.a\.1 as a name: a text is needed, got 1"):
        a_task(data={"a": {1: 2}})  # type: ignore[dict-item]


class _Odd:
    """A key whose text and comparison are user code."""

    def __hash__(self) -> int:
        return hash("x")

    def __eq__(self, other: object) -> bool:
        raise LookupError("not comparable")

    def __str__(self) -> str:
        raise LookupError("no text")

    __repr__ = __str__


def test_names_that_cannot_be_shown_or_compared_are_refused_all_the_same() -> None:
    """The caller gets the refusal, and not what its own object raised."""
    data: Any = {"x": float("nan"), "y": {_Odd(): 1}}
    with pytest.raises(InvalidTask, match="invalid task: data"):
        a_task(data=data)


def test_a_long_sentence_of_a_validator_is_told_whole() -> None:
    """It says what to do, and that comes last."""
    advice = "the number is odd; " + "write an even one, " * 20 + "such as 8"

    def refuse(value: object) -> object:
        raise ValueError(advice)

    class Mine(BaseModel):
        field: Annotated[Any, BeforeValidator(refuse)]

    assert advice in problems_text(_problems(Mine.model_validate, {"field": 1}))


def _fields(model: type[BaseModel], *groups: str) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _fields(annotation, *groups, name)
        yield (*groups, name)


def _refused(act: Callable[[], object]) -> str:
    """Return what is said, or nothing where a value is taken."""
    try:
        act()
    except HourhandError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("place", list(_fields(Settings)), ids=".".join)
def test_no_setting_speaks_of_pydantic(place: tuple[str, ...]) -> None:
    """Each gets values of every type; at least one of them is wrong."""
    told = []
    for wrong in ("\x00 no", -(10**30), 1.5, "", None, [], {"x": object()}, object(), b"\xff"):
        value: Any = wrong
        for name in reversed(place):
            value = {name: value}
        told.append(_refused(lambda value=value: Settings(**value)))  # type: ignore[misc]

    assert any(told)
    assert not [each for each in told if PHRASES.search(each)]
    assert any(f"{'.'.join(place)}: " in each for each in told)


@pytest.mark.parametrize("field", [*a_task().__class__.model_fields, "unknown"])
def test_no_field_of_a_task_speaks_of_pydantic(field: str) -> None:
    """Of the type users make most."""
    given: dict[str, Any] = {
        "ordering_id": "a",
        "scheduled_time": datetime(2026, 1, 1, tzinfo=UTC),
        "uniqueness_key": "b",
    }
    make = a_task().__class__
    told = [
        _refused(lambda wrong=wrong: make(**(given | {field: wrong})))  # type: ignore[misc]
        for wrong in (7.5, "", None, [], {1: 2}, object(), "\ud800", NAIVE)
    ]

    assert any(told)
    assert not [each for each in told if PHRASES.search(each)]
    assert all(f"{field}" in each for each in told if each)


@pytest.mark.parametrize("field", [*RecurringRule.model_fields, "unknown"])
def test_no_field_of_a_recurring_schedule_speaks_of_pydantic(field: str) -> None:
    """Whichever door it came through."""
    given: dict[str, Any] = {"cron": "0 0 * * *", "ordering_id": "a"}
    told = [
        _refused(lambda wrong=wrong: read_rule(**(given | {field: wrong})))  # type: ignore[misc]
        for wrong in (7.5, "", -1, [], {1: 2}, object(), "\ud800")
    ]

    assert any(told)
    assert not [each for each in told if PHRASES.search(each)]


def test_a_variable_that_is_not_a_setting_is_told_with_the_closest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group that is mistyped would change nothing, without a word."""
    monkeypatch.setenv("HOURHAND_EMBEDED__FOLDER", "x")

    with pytest.raises(SettingsInvalid, match="did you mean HOURHAND_EMBEDDED"):
        Settings()
