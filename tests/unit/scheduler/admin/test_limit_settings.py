"""Limits at run time over HTTP: what is declared, what is changed, and what is written down."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from hourhand.actors.model.flow.flow import Limit
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import DeclaredLimit, RateShare
from hourhand.scheduler.admin.config_changes import ConfigChanges
from tests.unit.scheduler.admin.world import READ, WRITE, World

MAIL = Limit(rate=50, burst=5, key="tenant")
REPORT = Limit(concurrency=4)


def declaring(**limits: Limit) -> World:
    """Return an installation whose node declares a limit for each of these kinds."""
    world = World()
    report(world, limits)
    return world


def report(
    world: World, limits: Mapping[str, Limit], node: str = "node-1", started_ms: int = 0
) -> None:
    """Report what a node declares."""
    world.clock.advance(1)
    declared = [DeclaredLimit.named(f"{kind}#1", each) for kind, each in limits.items()]
    world.report(node, limits=msgspec.to_builtins(declared), startedMs=started_ms)


def by_name(settings: dict[str, Any]) -> dict[str, Any]:
    """Return limits by name."""
    return {each["limit"]: each for each in settings["limits"]}


@pytest.fixture(scope="module")
def untouched() -> World:
    """Have one installation refuse everything: it stays as it is."""
    return declaring(mail=MAIL, report=REPORT)


def test_limits_are_listed_as_declared_changed_and_reset() -> None:
    """What is not named stays; each act is written down with what held before and after."""
    world = declaring(mail=MAIL, report=REPORT)
    first = by_name(world.get("/limits")[1])
    assert {name: each["state"] for name, each in first.items()} == {
        "mail#1": "declared",
        "report#1": "declared",
    }

    status, told = world.post("/limits", {"limit": "mail#1", "rate": 20, "reason": "slow"})
    world.post("/limits", {"limit": "mail#1", "burst": 9})
    changed = by_name(world.get("/limits")[1])["mail#1"]
    assert (status, told["version"]) == (200, 1)
    assert (changed["state"], changed["key"]) == ("changed", "tenant")
    numbers: dict[str, object] = {
        "rate": 50,
        "perMs": 1_000,
        "burst": 5,
        "concurrency": None,
        "rates": {},
    }
    assert changed["declared"] == numbers
    assert changed["effective"] == {**numbers, "rate": 20, "burst": 9}
    assert changed["changed"]["perMs"] is None and changed["changed"]["since"]

    world.post("/limits/reset", {"limits": ["mail#1"]})
    assert by_name(world.get("/limits")[1]) == first
    entries = world.get("/audit")[1]["entries"]
    assert [(each["action"], each["target"]) for each in entries] == [
        ("reset limit", "mail#1"),
        ("limit", "mail#1"),
        ("limit", "mail#1"),
    ]
    assert entries[2]["detail"]["before"] == numbers
    assert entries[2]["detail"]["after"] == {**numbers, "rate": 20}
    assert entries[2]["result"] == (
        "50 per 1 s, burst 5, for each tenant -> 20 per 1 s, burst 5, for each tenant"
    )
    assert entries[0]["result"].startswith("mail#1: 20 per 1 s, burst 9")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"limit": "mial#1", "rate": 5}, "declared are: mail#1, report#1"),
        ({"limit": "mail#1", "rate": 0}, "pause"),
        ({"limit": "report#1", "concurrency": 0}, "pause"),
        ({"limit": "report#1", "rate": 5}, "declares no rate"),
        ({"limit": "mail#1", "concurrency": 5}, "declares no concurrency"),
        ({"limit": "mail#1"}, "say what to change"),
        ({"limit": "mail#1", "rate": -1}, "rate"),
        ({"limit": "mail#1", "rate": 1e300}, "rate"),
        ({"limit": "mail#1", "burst": 0}, "burst"),
        ({"limit": "mail#1", "rate": 5, "key": "x"}, "key"),
        ({"limit": "mail#1", "rates": {}}, "rates"),
        ({"limit": "mail#1", "rates": {"gold": 0}}, "pause"),
        ({"limit": "mail#1", "rates": {"~1": 5}}, "share an allowance"),
        ({"limit": "report#1", "rates": {"gold": 5}}, "declares no rate"),
    ],
)
def test_what_is_unknown_or_means_nothing_is_refused(
    untouched: World, body: dict[str, object], says: str
) -> None:
    """And changes nothing."""
    status, problem = untouched.post("/limits", body)

    unknown = body["limit"] == "mial#1"
    assert (status, says in str(problem)) == (404 if unknown else 400, True)
    assert untouched.group.data.config == OperatorConfig()
    assert untouched.post("/limits/reset", {"limits": ["mail#1", "mial#1"]})[0] == 404


def test_a_change_that_no_node_declares_is_unused_and_can_be_reset() -> None:
    """As after a kind went away, or declares another form of limit."""
    world = declaring(mail=MAIL, report=REPORT)
    world.post("/limits", {"limit": "mail#1", "rate": 20})
    world.post("/limits", {"limit": "report#1", "concurrency": 9})
    report(world, {"report": Limit(rate=1)})

    settings = by_name(world.get("/limits")[1])
    assert (settings["mail#1"]["state"], settings["mail#1"]["effective"]) == ("unused", None)
    assert settings["report#1"]["state"] == "unused"
    assert settings["report#1"]["effective"]["rate"] == 1

    status, left = world.post("/limits/reset", {"limits": ["mail#1", "report#1"]})
    assert (status, list(by_name(left))) == (200, ["report#1"])
    assert world.post("/limits/reset", {"limits": ["report#1"]})[0] == 200


def test_of_two_nodes_the_one_that_started_last_declares() -> None:
    """It has the newer code."""
    world = declaring(mail=MAIL)
    report(world, {"mail": Limit(rate=7)}, "node-2", 5)

    assert by_name(world.get("/limits")[1])["mail#1"]["declared"]["rate"] == 7


def rate(node: str, own: float, lent: float, borrowed: float, starts: float) -> dict[str, Any]:
    """Return what one node may start."""
    return {"node": node, "own": own, "lent": lent, "borrowed": borrowed, "rate": starts}


def report_rates(
    world: World, node: str, share: float, *shares: RateShare, mail: Limit = MAIL
) -> None:
    """Report what a node may start of its rates."""
    world.clock.advance(1)
    declared = [DeclaredLimit.named(*each) for each in (("mail#1", mail), ("all#1", Limit(rate=9)))]
    told = {"limits": declared, "rateShare": share, "rateShares": shares}
    world.report(node, **msgspec.to_builtins(told))


def test_who_may_start_how_much_of_a_rate_now() -> None:
    """A node with its share, a lender below it, a borrower above it, and what all may together."""
    world = World()
    report_rates(world, "a", 0.5, RateShare("mail#1", "acme", 0.05, 0.45, 0.0))
    report_rates(world, "b", 0.25, RateShare("mail#1", "acme", 0.25, 0.0, 0.45))
    report_rates(world, "c", 0.25)
    world.report("of an earlier version", limits=[])

    found = by_name(world.get("/limits")[1])
    others, acme = found["mail#1"]["rates"]
    (only,) = found["all#1"]["rates"]

    assert others == {
        "value": None,
        "own": 1,
        "lent": 0,
        "borrowed": 0,
        "rate": 50,
        "nodes": [rate("a", 0.5, 0, 0, 25), *(rate(n, 0.25, 0, 0, 12.5) for n in "bc")],
    }
    assert acme == {
        "value": "acme",
        "own": 0.55,
        "lent": 0.45,
        "borrowed": 0.45,
        "rate": 50,
        "nodes": [rate("a", 0.05, 0.45, 0, 2.5), rate("b", 0.25, 0, 0.45, 35)],
    }
    assert (only["value"], only["rate"], len(only["nodes"])) == ("", 9, 3)


def test_a_changed_limit_shows_what_its_rates_are_now() -> None:
    """And one without a rate, or that only another version of the code declares, shows none."""
    world = declaring(report=REPORT)
    assert by_name(world.get("/limits")[1])["report#1"]["rates"] == []
    report_rates(world, "a", 0.5)
    world.post("/limits", {"limit": "all#1", "rate": 4})

    assert by_name(world.get("/limits")[1])["all#1"]["rates"][0]["rate"] == 2


def test_a_rate_of_one_value_is_listed_changed_and_reset() -> None:
    """Beside that of the others; a change of one value leaves all others as they are."""
    world, limit = World(), Limit(rate={"gold": 50, "*": 5}, key="plan")
    report_rates(world, "b", 0.5, RateShare("mail#1", "acme", 0.05, 0.45, 0.0), mail=limit)
    assert by_name(world.get("/limits")[1])["mail#1"]["effective"] == {
        "rate": 5,
        "perMs": 1_000,
        "burst": 1,
        "concurrency": None,
        "rates": {"gold": 50},
    }

    world.post("/limits", {"limit": "mail#1", "rates": {"gold": 80}})
    status, told = world.post("/limits", {"limit": "mail#1", "rates": {"acme": 20}, "rate": 4})

    changed = by_name(told)["mail#1"]
    assert (status, changed["state"], changed["declared"]["rates"]) == (
        200,
        "changed",
        {"gold": 50},
    )
    assert (changed["effective"]["rate"], changed["effective"]["rates"]) == (
        4,
        {"gold": 80, "acme": 20},
    )
    assert changed["changed"]["rates"] == {"gold": 80, "acme": 20}
    rates = {each["value"]: each["rate"] for each in changed["rates"]}
    assert rates == {None: 2, "acme": 1, "gold": 40}
    entries = world.get("/audit")[1]["entries"]
    assert "80 of 'gold', 20 of 'acme'" in entries[0]["result"]
    world.post("/limits/reset", {"limits": ["mail#1"]})
    assert by_name(world.get("/limits")[1])["mail#1"]["effective"]["rates"] == {"gold": 50}


def test_who_may_only_look_changes_no_limit() -> None:
    """As with pauses."""
    world = World(read_tokens={"eve": READ}, write_tokens={"ann": WRITE})
    report(world, {"mail": MAIL})
    asked = {"limit": "mail#1", "rate": 5}
    assert world.http.post("/limits", json=asked).status_code == 401

    world.tokens = {"Authorization": f"Bearer {READ}"}
    assert world.get("/limits")[0] == 200
    assert world.post("/limits", asked)[0] == 403
    assert world.post("/limits/reset", {"limits": ["mail#1"]})[0] == 403
    world.tokens = {"Authorization": f"Bearer {WRITE}"}
    assert world.post("/limits", asked)[1]["limits"][0]["changed"]["who"] == "ann"


def test_of_two_operators_neither_undoes_the_other() -> None:
    """Who came second looks again."""
    world = declaring(mail=MAIL, report=REPORT)
    store = world.service.stores.oversight
    raced = False

    def changed(config: OperatorConfig) -> OperatorConfig:
        nonlocal raced
        if not raced:
            raced = True
            store.replace_config(config.with_limit(LimitChange("report#1", concurrency=9)))
        return config.with_limit(LimitChange("mail#1", rate=5))

    ConfigChanges(store).change(changed)

    assert [each.limit for each in world.group.data.config.limits] == ["mail#1", "report#1"]
