"""A typed payload arrives as it was sent, or is refused when it is scheduled: one rule for all."""

# ruff: noqa: D101 - payloads as users write them

import dataclasses
import enum
import json
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict
from zoneinfo import ZoneInfo

import msgspec
import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    SecretStr,
    computed_field,
    field_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from hourhand import Hourhand, RetryPolicy
from hourhand.actors.model.values.errors import CallerError, InvalidExecutor, PayloadInvalid
from hourhand.scheduler.executors.payload import Payload
from hourhand.scheduler.testing import VirtualScheduler

AT = datetime(2026, 2, 9, 1, 41, tzinfo=UTC)


class Camel(BaseModel):
    """The usual base class of a JSON API."""

    model_config = ConfigDict(alias_generator=to_camel)


class Line(Camel):
    unit_price: int


class Order(Camel):
    lines: list[Line] = []
    express_delivery: bool = False


class Aliases(BaseModel):
    cents: int = Field(0, alias="amountInCents")
    read: int = Field(0, validation_alias="in")
    written: int = Field(0, serialization_alias="out")
    chosen: int = Field(0, validation_alias=AliasChoices("one", "other"))


class Swapped(BaseModel):
    first: int = Field(alias="second")
    second: int = Field(alias="first")


class ByAlias(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, serialize_by_alias=True, extra="forbid")
    order_id: int


class Card(BaseModel):
    kind: Literal["card"] = "card"
    card_no: str = Field(alias="cardNo")


class Cash(BaseModel):
    kind: Literal["cash"] = "cash"


class Pay(BaseModel):
    how: Annotated[Card | Cash, Field(discriminator="kind")]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime
    number: uuid.UUID
    price: Decimal
    every: timedelta
    names: tuple[str, ...] = ()


class Parsed(BaseModel):
    rule: Json[dict[str, int]]


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    net: int

    @computed_field
    def gross(self) -> int:
        return self.net * 2


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Base(BaseModel):
    a: int


class Sub(Base):
    b: int = 0


class Holds(BaseModel):
    inner: Base


class Secret(BaseModel):
    password: SecretStr


class Masked(BaseModel):
    iban: str

    @field_serializer("iban")
    def mask(self, value: str) -> str:
        return "…" + value[-4:]


class Left(BaseModel):
    a: int
    left_out: int = Field(0, exclude=True)


class Twice(BaseModel):
    cents: Annotated[int, BeforeValidator(lambda value: value * 100)]


class Score(BaseModel):
    value: float


class Anything(BaseModel):
    value: Any


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Data:
    at: datetime
    color: Color = Color.RED
    parts: dict[int, Decimal] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class SubData(Data):
    more: int = 0


@dataclasses.dataclass(eq=False)
class Same:
    a: int


@dataclasses.dataclass
class Derived:
    cents: int
    express: dataclasses.InitVar[bool] = False
    fee: int = dataclasses.field(init=False)
    seen: list[int] = dataclasses.field(init=False, compare=False, default_factory=list)

    def __post_init__(self, express: bool) -> None:
        self.fee = 500 if express else 100


@pydantic_dataclass(config=ConfigDict(alias_generator=to_camel))
class CamelData:
    order_id: int


class Struct(msgspec.Struct, rename="camel"):
    order_id: int
    at: datetime = AT
    raw: bytes = b""


class SubStruct(Struct):
    more: int = 0


class Outer(msgspec.Struct):
    inner: Struct


class Typed(TypedDict):
    at: datetime
    price: Decimal


def arrived(annotation: Any, payload: object) -> Any:
    """Return what code gets: what is scheduled goes through JSON."""
    data = Payload(annotation).to_data(payload)
    return Payload(annotation).from_data(json.loads(json.dumps(data, allow_nan=False)))


KEPT: list[tuple[Any, object]] = [
    (Order, Order.model_validate({"expressDelivery": True, "lines": [{"unitPrice": 5}]})),
    (Aliases, Aliases.model_validate({"amountInCents": 990, "in": 1, "written": 2, "other": 3})),
    (Swapped, Swapped.model_validate({"second": 1, "first": 2})),
    (ByAlias, ByAlias.model_validate({"orderId": 7})),
    (Pay, Pay.model_validate({"how": {"kind": "card", "cardNo": "4111"}})),
    (
        Strict,
        Strict(
            at=AT,
            number=uuid.UUID(int=7),
            price=Decimal("0.10"),
            every=timedelta(seconds=1),
            names=("a",),
        ),
    ),
    (Parsed, Parsed.model_validate({"rule": '{"a": 1}'})),
    (Computed, Computed(net=5)),
    (Extra, Extra.model_validate({"a": 1, "b": [1, "x"]})),
    (Holds, Holds(inner=Base(a=1))),
    (Anything, Anything(value={"a": [1, None, "x", 2**80]})),
    (Data, Data(AT, Color.RED, {7: Decimal("1.10")})),
    (CamelData, CamelData(orderId=7)),  # type: ignore[call-arg]
    (Struct, Struct(7, AT, b"\xff\0")),
    (Outer, Outer(Struct(7))),
    (Typed, {"at": AT, "price": Decimal("0.10")}),
    (dict, {"a": [1, None, {"b": 1.5}], "hourhand.kind": "refund"}),
    (dict[str, Any], {}),
    (dict[str, float], {"a": 1.5}),
    (dict[int, str], {7: "x"}),
    (Derived, Derived(1)),
]


@pytest.mark.parametrize(("annotation", "payload"), KEPT, ids=lambda each: str(each)[:40])
def test_what_can_be_kept_arrives_as_it_was_sent(annotation: Any, payload: object) -> None:
    """Equal, and of the same type."""
    found = arrived(annotation, payload)

    assert found == payload and type(found) is type(payload)


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("day", [datetime(2026, 10, 25), datetime(2026, 3, 29)])  # noqa: DTZ001
def test_a_time_at_which_clocks_change_arrives(day: datetime, fold: int) -> None:
    """Such a time of Berlin equals no time of another zone, also not the same instant."""
    at = day.replace(hour=2, minute=30, fold=fold, tzinfo=ZoneInfo("Europe/Berlin"))

    for found in (
        arrived(Data, Data(at)).at,
        arrived(Struct, Struct(7, at)).at,
        arrived(Typed, {"at": at, "price": Decimal(1)})["at"],
    ):
        assert found.timestamp() == at.timestamp()


def test_a_dict_in_the_form_of_an_api_is_the_model() -> None:
    """By alias or by name, as another producer may write it too."""
    wanted = Order(express_delivery=True)
    by_name = Payload(Order).from_data({"express_delivery": True})

    assert arrived(Order, {"expressDelivery": True}) == by_name
    assert Payload(Order).from_data({"expressDelivery": True}) == by_name != wanted


REFUSED: list[tuple[Any, object]] = [
    (Secret, Secret(password=SecretStr("x"))),
    (Masked, Masked(iban="DE1234567890")),
    (Left, Left(a=1, left_out=2)),
    (Twice, Twice(cents=1)),
    (Base, Sub(a=1, b=2)),
    (Holds, Holds(inner=Sub(a=1, b=2))),
    (Data, SubData(AT)),
    (Struct, SubStruct(7, more=1)),
    (Outer, Outer(SubStruct(7, more=1))),
    (Typed, {"at": AT, "price": Decimal(1), "more": 1}),
    (Anything, Anything(value=AT)),
    (Anything, Anything(value=Decimal("1.5"))),
    (Anything, Anything(value=b"x")),
    (Anything, Anything(value={1})),
    (Anything, Anything(value=(1, 2))),
    (Anything, Anything(value={1: "x"})),
    (Score, Score(value=float("nan"))),
    (Derived, Derived(1, True)),
    (dict[str, float], {"a": float("inf")}),
    (dict[str, datetime | str], {"a": "2026-02-09T01:41:00Z"}),
    (list[int], [1]),
]


@pytest.mark.parametrize(("annotation", "payload"), REFUSED, ids=lambda each: str(each)[:40])
def test_p1_what_would_arrive_as_another_value_is_refused(annotation: Any, payload: object) -> None:
    """When it is scheduled, by whichever library it is of."""
    with pytest.raises(CallerError):
        arrived(annotation, payload)


@pytest.mark.parametrize(
    "value", [float("nan"), AT, Decimal(1), b"x", {1}, (1, 2), Same(1), "\ud800"]
)
@pytest.mark.parametrize("annotation", [None, dict, dict[str, Any]])
def test_a_dict_without_a_type_holds_json_and_nothing_else(annotation: Any, value: object) -> None:
    """As ``Task(data=…)``: nothing becomes null or a text in silence."""
    app = Hourhand()

    def score(row: Any) -> None:
        raise AssertionError("it is refused")

    score.__annotations__ = {} if annotation is None else {"row": annotation}
    task = app.task("score", retry=RetryPolicy(attempts_max=1))(score)

    with VirtualScheduler(executors=app) as scheduler, pytest.raises(CallerError):
        scheduler.schedule_task(
            task.make_task({"a": value}, ordering_id="o", at=scheduler.now)
        ).result(0)


def test_objects_that_say_nothing_of_equality_are_compared_by_what_they_hold() -> None:
    """A dataclass without ``__eq__`` is not equal to its copy."""
    found = arrived(Same, Same(5))

    assert isinstance(found, Same) and found.a == 5


def test_a_refusal_says_where_and_shows_nothing_that_is_masked() -> None:
    """The field, and what would arrive there."""
    with pytest.raises(PayloadInvalid) as refused:
        Payload(Masked).to_data(Masked(iban="DE1234567890"))
    with pytest.raises(PayloadInvalid, match=r"lines\.0\.unitPrice"):
        Payload(Order).to_data({"lines": [{"unitPrice": "x"}]})

    assert "iban would arrive as '…7890'" in str(refused.value)
    assert "DE12" not in str(refused.value)


@pytest.mark.parametrize("error", [ValueError, RuntimeError, KeyError])
def test_code_of_the_type_that_raises_is_told_as_a_refusal(error: type[Exception]) -> None:
    """A serializer, or a comparison."""

    class Raises(BaseModel):
        a: int

        @field_serializer("a")
        def write(self, value: int) -> int:
            raise error(value)

    with pytest.raises(PayloadInvalid, match="cannot be written as JSON"):
        Payload(Raises).to_data(Raises(a=1))


class Plain:
    def __init__(self, cents: int) -> None:
        self.cents = cents


@dataclasses.dataclass
class DataPlain:
    inner: Plain


@pytest.mark.parametrize(("annotation", "payload"), [(Plain, Plain(1)), (DataPlain, Plain(1))])
def test_a_class_of_no_library_is_not_a_payload(annotation: Any, payload: object) -> None:
    """When it is scheduled and when it runs; the error says what is one."""
    with pytest.raises(InvalidExecutor, match="is not a type of payloads: write it as a dataclass"):
        Payload(annotation).to_data(payload)
    with pytest.raises(InvalidExecutor, match="is not a type of payloads"):
        Payload(annotation).from_data({"cents": 1})
