"""``hourhand limits`` over an embedded folder whose node runs: what it prints and does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hourhand import Hourhand, Limit, Scheduler
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of

app = Hourhand()


@app.task("mail", limits=Limit(rate=50, burst=5, key="tenant"))
def mail(payload: dict[str, Any]) -> None:
    """Do nothing."""


@app.task("report", limits=Limit(concurrency=4))
def report(payload: dict[str, Any]) -> None:
    """Do nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An installation whose node has told what it declares."""
    folder = tmp_path_factory.mktemp("limited")
    with Scheduler(settings_of(folder), executors=app):
        while not answer(folder, "limits", "list")["limits"]:
            """The node has not reported yet."""
        yield folder


def of_mail(found: dict[str, Any]) -> dict[str, Any]:
    """Return the limit of the kind."""
    limit: dict[str, Any] = found["limits"][0]
    assert limit["limit"] == "mail#1"
    return limit


def test_a_limit_is_changed_listed_and_reset(folder: Path) -> None:
    """What is not named stays as it is, and who did it is written down."""
    done = invoke(folder, "limits", "set", "mail#1", "--rate", "20", "--reason", "slow")
    assert (done.exit_code, "50 per 1 s" in done.stderr, "20 per 1 s" in done.stdout) == (
        0,
        True,
        True,
    )
    changed = of_mail(answer(folder, "limits", "set", "mail#1", "--per", "1m"))
    assert (changed["effective"]["rate"], changed["effective"]["perMs"]) == (20, 60_000)
    assert changed["changed"]["who"].startswith("cli:")
    assert "changed" in invoke(folder, "limits", "list").stdout

    left = of_mail(answer(folder, "limits", "reset", "mail#1"))
    assert (left["state"], left["effective"]["rate"]) == ("declared", 50)
    entries = answer(folder, "audit-log")["entries"]
    assert [each["action"] for each in entries[:3]] == ["reset limit", "limit", "limit"]
    assert entries[2]["detail"]["reason"] == "slow"
    assert "nothing was changed" in invoke(folder, "limits", "reset", "mail#1").stderr


def test_a_value_gets_a_rate_of_its_own(folder: Path) -> None:
    """A value may hold an equals sign."""
    given = ("limits", "set", "mail#1", "--rate-of", "gold=80", "--rate-of", "a=b=2.5")
    assert "80 of gold, 2.5 of a=b" in invoke(folder, *given).stdout

    listed = invoke(folder, "limits", "list").stdout
    starts = [line.split() for line in listed.splitlines() if "all" in line.split()]
    assert ["mail#1", "gold", "all", "100.0%", "0.0%", "0.0%", "80", "per", "1", "s"] in starts
    assert of_mail(answer(folder, "limits", "reset", "mail#1"))["effective"]["rates"] == {}


def test_what_each_node_may_start_stands_below_the_limits(folder: Path) -> None:
    """And the sum; one node alone has everything, and lends nothing."""
    listed = invoke(folder, "limits", "list").stdout

    limits, rates = listed.split("\n\n")
    assert "report#1" in limits and "report#1" not in rates
    assert rates.splitlines()[0].split() == [
        "LIMIT",
        "VALUE",
        "NODE",
        "OWN",
        "LENT",
        "BORROWED",
        "STARTS",
    ]
    last = rates.splitlines()[-1]
    assert "any other" in last and "all" in last and "100.0%" in last and "50 per 1 s" in last
    (rate,) = of_mail(answer(folder, "limits", "list"))["rates"]
    assert (rate["value"], rate["own"], len(rate["nodes"])) == (None, 1, 1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("set", "mial#1", "--rate", "5"), "declared are: mail#1, report#1"),
        (("set", "mail#1", "--rate", "0"), "pause"),
        (("set", "mail#1"), "say what to change"),
        (("set", "report#1", "--rate", "5"), "declares no rate"),
        (("set", "mail#1", "--per", "soon"), "duration"),
        (("set", "mail#1", "--rate-of", "gold"), "such as gold=80"),
        (("set", "mail#1", "--rate-of", "80"), "such as gold=80"),
        (("set", "mail#1", "--rate-of", "a=1", "--rate-of", "a=2"), "names 'a' twice"),
        (("set", "mail#1", "--rate-of", "gold=nan"), "cannot be nan"),
        (("reset", "mial#1"), "declared are"),
        (("reset", "mail#1", "report#1"), "--yes"),
    ],
)
def test_what_cannot_be_done_is_one_line(folder: Path, given: tuple[str, ...], says: str) -> None:
    """And the caller's fault."""
    refused = invoke(folder, "limits", *given)

    assert (refused.exit_code, says in refused.stderr) == (2, True)
