"""What a kind declares of its flow, and what that makes of a task."""

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.flow import (
    NO_VALUE,
    VALUE_CHARS_MAX,
    FairShare,
    FlowRule,
    FlowRules,
    Limit,
    LimitKey,
    value_reader,
)
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.priority import with_priority
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import InvalidExecutor
from tests.builders import a_stored_task


def a_task_of(kind: str | None, data: bytes = b"{}") -> StoredTask:
    """Return a stored task of a kind."""
    return a_stored_task(data=data if kind is None else with_kind(data, kind))


def by_plan(rate: Any) -> Limit:
    """Return a limit by the plan of a task."""
    return Limit(rate=rate, key="plan")


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (Limit, "limits nothing.*give it rate="),
        (lambda: Limit(rate=0), "rate of a Limit is 0, a number above 0"),
        (lambda: Limit(rate=10**400), "rate of a Limit is 1000.*from 1e-12 to 1e.15"),
        (lambda: Limit(rate=1e-320), "rate of a Limit is 1e-320"),
        (lambda: Limit(rate=1e308, per=timedelta(microseconds=1)), r"rate of a Limit is 1e\+308"),
        (lambda: by_plan({"gold": 10**400, "*": 1}), "rate of 'gold' in a Limit is 1000"),
        (lambda: Limit(concurrency=10**400), "concurrency of a Limit is 1000.*64 bits"),
        (lambda: Limit(rate=1, burst=10**400), "burst of a Limit is 1000"),
        (lambda: FairShare(key="t", weights={"a": 1e-320}), "weight of 'a' in .* is 1e-320"),
        (lambda: Limit(rate=math.inf), "rate of a Limit is inf"),
        (lambda: Limit(rate=math.nan), "rate of a Limit is nan"),
        (lambda: Limit(rate=True), "rate of a Limit is True"),
        (lambda: Limit(rate="5"), "rate of a Limit is '5'"),  # type: ignore[arg-type]
        (lambda: Limit(rate=5, per=timedelta(0)), r"per of a Limit .*timedelta\(seconds=1\)"),
        (lambda: Limit(rate=5, per=1), "per of a Limit is 1"),  # type: ignore[arg-type]
        (lambda: Limit(concurrency=1, burst=5), "burst=5 and no rate"),
        (lambda: Limit(rate=5, burst=0), "burst of a Limit is 0, a whole number of 1"),
        (lambda: Limit(concurrency=1.5), "concurrency of a Limit is 1.5"),  # type: ignore[arg-type]
        (lambda: Limit(rate=5, key=""), "key of a Limit is '', the name of a field"),
        (lambda: Limit(rate=5, key="a..b"), "key of a Limit is 'a..b'.*customer.id"),
        (lambda: Limit(rate={"gold": 5, "*": 1}), "a rate for each value and no key.*key="),
        (lambda: Limit(rate={"gold": 5}, key="plan"), r"leave out every other value.*\"\*\": 5"),
        (lambda: Limit(rate={}, key="plan"), "leave out every other value"),
        (lambda: Limit(rate={"gold": 0, "*": 1}, key="plan"), "rate of 'gold' in a Limit is 0"),
        (lambda: Limit(rate={"*": math.nan}, key="plan"), r"rate of '\*' in a Limit is nan"),
        (lambda: by_plan({7: 1, "7": 2, "*": 1}), "two rates for '7'"),
        (lambda: by_plan({None: 1, "*": 1}), "a rate for None, a text"),
        (lambda: Limit(rate={"\ud800": 1, "*": 1}, key="plan"), "a rate for '.ud800', a text"),
        (lambda: Limit(rate={"~7": 1, "*": 1}, key="plan"), "a rate for '~7': what begins"),
        (
            lambda: Limit(rate={str(n): 1 for n in range(500)} | {"*": 1}, key="tenant"),
            "rates for 500 values, 200 are allowed: schedule tasks with a field",
        ),
        (lambda: by_plan(len), "rate of a Limit is <built-in function len>"),
        (lambda: FairShare(key=None), "FairShare needs a key"),  # type: ignore[arg-type]
        (lambda: FairShare(key=7), "key of a FairShare is 7"),  # type: ignore[arg-type]
        (lambda: FairShare(key="t", weights=7), "weights of a F"),  # type: ignore[arg-type]
        (lambda: FairShare(key="t", weights={"a": -1}), "weight of 'a' in a FairShare is -1"),
        (lambda: FairShare(key="t", weights={"a": 1e9}), "weight of 'a' in a FairShare is"),
        (lambda: FlowRule.of(limits=50), "limits holds 50, a Limit or a list"),
        (lambda: FlowRule.of(limits=[Limit(rate=1), 5]), "limits holds 5"),
        (lambda: FlowRule.of(priority=101), "priority is 101, a whole number from -100 to 100"),
        (lambda: FlowRule.of(priority=True), "priority is True"),
        (lambda: FlowRule.of(fair="tenant"), "fair is 'tenant', a FairShare is needed"),
    ],
)
def test_what_means_nothing_is_refused_with_the_value(
    declare: Callable[[], object], said: str
) -> None:
    """Where it is declared, and it says what to write."""
    with pytest.raises(InvalidExecutor, match=said):
        declare()


def test_a_limit_without_a_burst_lets_a_tenth_of_a_second_start_at_once() -> None:
    """And one more: one at least, however low its rate is."""
    assert Limit(rate=50).burst_tasks == 6
    assert Limit(rate=3, per=timedelta(hours=1)).burst_tasks == 1
    assert Limit(rate=50, burst=100).burst_tasks == 100
    assert Limit(rate=50).per_ms == 20
    assert str(Limit(rate=50, concurrency=3, key="tenant")) == (
        "50 per 1 s, burst 6, 3 at once, for each tenant"
    )


def test_a_value_that_is_named_has_its_rate_and_all_others_that_of_the_rest() -> None:
    """The rest's stands for the limit where no value is meant; numbers read as their texts do."""
    given = {"gold": 50, 7: 2, True: 3, "x" * 100: 4, "*": 5}
    limit = Limit(rate=given, key="plan")  # type: ignore[arg-type]
    given["gold"] = 1

    assert limit.of_value("gold") == Limit(rate=50, key="plan")
    assert limit.of_value("gold").burst_tasks == 6
    assert (limit.of_value("7").rate, limit.of_value("true").rate) == (2, 3)
    assert {limit.of_value(value).rate for value in ("silver", "*", "")} == {5}
    value_of = value_reader("plan")
    assert value_of is not None
    assert limit.of_value(value_of(b'{"plan":"%b"}' % (b"x" * 100))).rate == 4
    assert (limit.rest_rate, limit.per_ms, limit.burst_tasks) == (5, 200, 1)
    assert str(Limit(rate={"gold": 50, "*": 5}, key="plan")) == (
        "5 per 1 s, burst 1, 50 of 'gold', for each plan"
    )
    assert limit.of_value("gold").of_value("silver").rate == 50


@pytest.mark.parametrize(
    ("key", "data", "value"),
    [
        ("tenant", b'{"tenant":"acme","x":[1,{}]}', "acme"),
        ("customer.id", b'{"customer":{"id":7}}', "7"),
        ("tenant", b'{"tenant":true}', "true"),
        ("tenant", b'{"tenant":1.50}', "1.5"),
        ("tenant", b"{}", ""),
        ("tenant", b'{"tenant":null}', ""),
        ("tenant", b'{"tenant":["a"]}', ""),
        ("tenant", b'{"tenant":{"id":1}}', ""),
        ("customer.id", b'{"customer":"acme"}', ""),
        ("tenant", b"[1]", ""),
        ("tenant", b'{"tenant":"\\ud800"}', ""),
        ("tenant", b"not JSON", ""),
    ],
)
def test_the_value_of_a_key_is_read_from_the_data(key: str, data: bytes, value: str) -> None:
    """What is missing or odd has no value, and stops nothing."""
    value_of = value_reader(key)

    assert value_of is not None and value_of(data) == value
    assert value_reader(None) is None


def test_a_long_value_is_cut_and_keeps_what_tells_it_from_others() -> None:
    """Two that differ at their ends only are two."""
    value_of = value_reader("t")
    assert value_of is not None
    values = {value_of(b'{"t":"%b%d"}' % (b"x" * 1_000, number)) for number in range(100)}

    assert len(values) == 100 and {len(each) for each in values} == {VALUE_CHARS_MAX}


def limit_keys(rules: FlowRules, task: StoredTask) -> list[LimitKey]:
    """Return what has an allowance that a task needs."""
    found = rules.of_task(task)
    values = () if found is None else found.limit_values
    return [LimitKey(name, read(task.data) if read else "") for name, read in values]


def test_a_task_has_the_flow_of_its_kind_and_value() -> None:
    """The key of the fair share comes before that of a limit."""
    rules = FlowRules(
        {
            "mail": FlowRule(
                limits=(Limit(rate=5, key="host"), Limit(concurrency=2)),
                priority=3,
                fair=FairShare(key="tenant", weights={"big": 3}),
            ),
            "call": FlowRule.of(Limit(rate=5, key="host")),
            None: FlowRule(priority=-1),
            "plain": FlowRule(),
        }
    )
    mail = a_task_of("mail", b'{"tenant":"big","host":"a b"}')
    call = a_task_of("call", b'{"host":"a b"}')

    assert rules and [rules.flow_of(each) for each in (mail, call)] == ["mail big", "call a b"]
    assert limit_keys(rules, mail) == [LimitKey("mail#1", "a b"), LimitKey("mail#2", "")]
    assert set(rules.limits) == {"mail#1", "mail#2", "call#1"}
    assert [rules.weight_of(each) for each in ("mail big", "mail ", "call a b", "")] == [3, 1, 1, 1]
    assert [rules.priority_of(each) for each in (mail, call, a_task_of(None))] == [3, 0, -1]
    for plain in (a_task_of("plain"), a_task_of("other")):
        assert rules.flow_of(plain) == "" and not limit_keys(rules, plain)
        assert rules.of_task(plain) is None
    assert not FlowRules.NONE and not FlowRules({"plain": FlowRule()})
    assert FlowRules.NONE.flow_of(mail) == "" and not limit_keys(FlowRules.NONE, mail)


def test_a_task_with_a_priority_of_its_own_leaves_the_flow_of_its_kind() -> None:
    """It keeps the weight of its kind and value; its kind's own number changes nothing."""
    fair = FairShare(key="tenant", weights={"big": 3})
    rules = FlowRules({"mail": FlowRule(priority=2, fair=fair)})
    mail, other = a_task_of("mail", b'{"tenant":"big"}'), a_task_of("other")

    def flow(task: StoredTask, priority: int) -> tuple[str, int, float]:
        given = replace(task, body=with_priority(task.body, priority))
        name = rules.flow_of(given)
        return name, rules.priority_of(given), rules.weight_of(name)

    assert flow(mail, 2) == ("mail big", 2, 3)
    assert flow(mail, -7) == ("mail!-7 big", -7, 3)
    assert flow(mail, 0) == ("mail!0 big", 0, 3)
    assert flow(other, 9) == ("!9", 9, 1) and flow(other, 0) == ("", 0, 1)


def test_a_class_declares_and_what_is_given_goes_before() -> None:
    """A method of a user's own that has such a name declares nothing."""

    class Mail(TaskExecutor):
        limits = Limit(rate=5)
        priority = 2

        def fair(self) -> None:  # type: ignore[override]
            """Not a declaration."""

        def execute(self, task: Any) -> None:
            del task

    assert FlowRule.declared(Mail) == FlowRule((Limit(rate=5),), 2)
    assert FlowRule.declared(Mail, ()) == FlowRule((), 2)
    assert FlowRule.declared(Mail, (), 0) == FlowRule(priority=0) and FlowRule(priority=0)
    assert not FlowRule.declared(print)
    assert FlowRule.declared(print) == FlowRule()


def test_data_that_is_nested_too_deeply_for_this_stack_has_no_value() -> None:
    """It was read at intake, where fewer calls were under way; a node must not fail of it."""
    data = b'{"x":%s%s,"tenant":"a"}' % (b"[" * 900, b"]" * 900)
    read = value_reader("tenant")
    assert read is not None

    def below(calls: int) -> str:
        return read(data) if calls == 0 else below(calls - 1)

    assert below(100) in {NO_VALUE, "a"}
