"""``hourhand recurring``, ``relay`` and ``timers`` as a user meets them, over a folder."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from hourhand import Scheduler, Settings
from tests import command_line
from tests.waiting import until


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make every command work in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hourhand(*arguments: str) -> Result:
    """Run a command in this process."""
    return command_line.run(*arguments)


def applied(seen: Callable[[], bool], *begin: Callable[[Scheduler], object]) -> None:
    """Run a node, with what ``begin`` asks of it, until something is seen."""
    with Scheduler(Settings(), executors={}) as node:
        for ask in begin:
            ask(node)
        until(seen)


def test_a_recurring_schedule_is_set_listed_shown_and_deleted() -> None:
    """A node applies what the log holds."""
    made = hourhand(
        "recurring",
        "set",
        "nightly",
        "--cron",
        "30 2 * * *",
        "--time-zone",
        "Europe/Berlin",
        "--data",
        '{"a": 1}',
        "--times",
        "3",
        "--kind",
        "mail",
        "--priority",
        "0",
    )
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("accepted: a node that runs applies it")
    applied(lambda: hourhand("recurring", "show", "nightly").exit_code == 0)

    shown = json.loads(hourhand("recurring", "show", "nightly", "--next", "2", "-o", "json").stdout)
    assert (shown["rule"]["cron"], shown["rule"]["kind"]) == ("30 2 * * *", "mail")
    assert shown["rule"]["priority"] == 0
    assert len(shown["nextTimes"]) == 2
    assert all("T02:30:00+0" in each["local"] for each in shown["nextTimes"])
    listed = hourhand("recurring", "list")
    assert listed.stdout.splitlines()[1].endswith("nightly")

    assert hourhand("recurring", "pause", "nightly", "--wait", "0").exit_code == 0
    applied(lambda: "paused" in hourhand("recurring", "list").stdout)
    assert hourhand("recurring", "delete", "nightly", "--wait", "0").exit_code == 0
    applied(lambda: hourhand("recurring", "show", "nightly").exit_code == 2)


def test_a_task_and_a_file_are_scheduled_with_priorities(folder: Path) -> None:
    """0 is one; a line without it has that of its kind."""
    line = '{"orderingId":"f","scheduledTime":"2999-01-01T00:00:00Z","uniquenessKey":"%s"%s}\n'
    written = line % ("low", ',"priority":-5') + line % ("none", "")
    (folder / "tasks.jsonl").write_text(written)
    given = ("--in", "1h", "--priority", "0", "--expires", "30m")
    made = hourhand("schedule", "--ordering-id", "a", *given)
    wrong = hourhand("schedule", "--ordering-id", "a", "--in", "1h", "--expires", "soon")
    assert wrong.exit_code != 0 and "soon" in wrong.output
    assert hourhand("schedule", "--from-file", "tasks.jsonl").exit_code == 0
    keys = (
        made.stdout.strip(),
        *(f"2999-01-01T00:00:00.000Z,f,{name}" for name in ("low", "none")),
    )

    def shown() -> list[object]:
        found = [json.loads(hourhand("show", key, "-o", "json").stdout) for key in keys]
        assert all(each["state"] in {"unknown", "pending"} for each in found)
        return [each.get("priority") for each in found if each["state"] == "pending"]

    applied(lambda: len(shown()) == len(keys))

    assert shown() == [0, -5, None]
    assert "\nexpires " in hourhand("show", keys[0]).stdout
    by_pair = json.loads(hourhand("show", "f,low", "-o", "json").stdout)
    nothing = hourhand("show", "f,never")
    assert (by_pair["key"], nothing.exit_code) == (keys[1], 2)
    assert "task-not-found" in nothing.output


FOLLOWER = '{"orderingId":"%s",\n"scheduledTime":"2999-01-01T00:00:00Z","uniquenessKey":"may"}'


def test_a_task_and_a_file_bring_followers(folder: Path) -> None:
    """Those of the file one, once all have ended."""
    at = "2999-01-01T00:00:00.000Z"
    line = '{"orderingId":"page-%d","scheduledTime":"2999-01-01T00:00:00Z","uniquenessKey":"may"}\n'
    pages = "".join(line % number for number in (1, 2))
    (folder / "report.json").write_text(FOLLOWER % "report")
    then = ("--then", "@report.json", "--on", "any")
    made = command_line.run("schedule", "--from-file", "-", *then, "-o", "json", stdin=pages)
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    keys = [each["key"] for each in told["receipts"]]
    assert keys == [f"{at},page-1,may", f"{at},page-2,may"]
    assert told["then"] == f"{at},report,may"
    given = ("--ordering-id", "page-3", "--uniqueness-key", "may", "--at", at)
    one = hourhand("schedule", *given, "--then", FOLLOWER % "mail", "--on", "any")
    keys.append(one.stdout.strip())
    for key in keys:
        assert hourhand("cancel", key, "--wait", "0").exit_code == 0

    def shown(name: str) -> Any:
        return json.loads(hourhand("show", f"{at},{name},may", "-o", "json").stdout)

    applied(lambda: all(shown(name)["state"] == "pending" for name in ("mail", "report")))

    ends = [(each["key"], each["state"]) for each in shown("report")["after"]]
    assert ends == [(key, "cancelled") for key in keys[:2]]
    assert [each["key"] for each in shown("mail")["after"]] == keys[2:]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--on", "any"], "--then, which is missing"),
        (["--then", "nonsense"], "--then is not a task"),
        (["--then", FOLLOWER % "\udcff"], "--then is not a task"),
        (["--then", ""], "--then is empty"),
        (["--then", "@gone.json"], "cannot read gone.json"),
        (["--then", "@-"], "read once"),
        (["--then", FOLLOWER % "r", "--on", "never"], "on is 'success' or 'any', got 'never'"),
        (["--then", FOLLOWER % "r", "--replace"], "leave out --then"),
        (["--then", FOLLOWER % "r"], "line 2 is not a task, and nothing was scheduled"),
    ],
)
def test_a_group_that_cannot_be_is_refused_before_anything_is_sent(
    arguments: list[str], says: str
) -> None:
    """No line of the file is scheduled then."""
    good = '{"orderingId":"a","scheduledTime":"2999-01-01T00:00:00Z","uniquenessKey":"1"}'
    made = command_line.run("schedule", "--from-file", "-", *arguments, stdin=f"{good}\nnonsense\n")

    assert (made.exit_code, made.stdout) == (2, "")
    assert says in made.stderr
    log = Settings().embedded.folder / "log.db"
    if log.exists():
        with closing(sqlite3.connect(log)) as database:
            assert database.execute("SELECT count(*) FROM record").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["recurring", "set", "n"],
        ["recurring", "set", "n", "--cron", "x"],
        ["recurring", "set", "n", "--every", "10"],
        ["recurring", "set", "n", "--every", "10s", "--overlap", "explode"],
        ["recurring", "set", "n", "--every", "10s", "--time-zone", "Mars"],
        ["recurring", "set", "n", "--every", "10s", "--until", "2020-01-01T00:00:00Z"],
        ["recurring", "pause", ""],
        ["recurring", "pause", "unknown"],
        ["recurring", "show", "unknown"],
        ["recurring", "list", "--after", "junk"],
        ["timers", "show", "junk"],
        ["timers", "delete", "0123456789abcdef-2"],
        ["timers", "list", "--after", "junk"],
        ["relay", "show", "unknown"],
        ["relay", "cancel", "unknown"],
        ["relay", "pending", "--after", "junk"],
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(
    folder: Path, arguments: list[str]
) -> None:
    """It says what is wrong."""
    (folder / "hourhand-data").mkdir(mode=0o700)

    answer = hourhand(*arguments)

    assert answer.exit_code == 2
    assert len(answer.stderr.splitlines()) == 1


def test_what_waits_for_its_time_is_listed_earliest_first() -> None:
    """Messages of the relay and of ``send_later``; a long one does not show its topic."""
    sizes = {3: 10, 1: 500_000, 2: 10}

    def send(node: Scheduler) -> None:
        for hours, size in sizes.items():
            node.send_later(b"k", b"x" * size, f"topic-{hours}", timedelta(hours=hours)).result(30)

    def listed() -> list[dict[str, str | None]]:
        answer = hourhand("relay", "pending", "-o", "json")
        assert answer.exit_code == 0, answer.output
        found: list[dict[str, str | None]] = json.loads(answer.stdout)["messages"]
        return found

    applied(lambda: len(listed()) == 3, send)

    topics = [each["topic"] for each in listed()]
    assert topics == [None, "topic-2", "topic-3"]
    assert len(hourhand("relay", "pending", "--limit", "2").stdout.splitlines()) == 3


def test_a_service_that_would_be_open_to_all_is_refused() -> None:
    """Before a node starts."""
    answer = hourhand("timers", "--host", "0.0.0.0")  # noqa: S104 - that is the point

    assert answer.exit_code == 3
    assert "write_tokens" in answer.stderr


def test_a_relay_without_a_broker_says_so() -> None:
    """One line, not a trace."""
    answer = hourhand(
        "relay",
        "--set",
        "kafka.bootstrap_servers=127.0.0.1:1",
        "--set",
        "kafka.connect_timeout_ms=200",
    )

    assert answer.exit_code == 3
    assert "127.0.0.1:1" in answer.stderr
