"""The command line as a user meets it, over an embedded folder of its own."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import Result

from hourhand.scheduler.cli.cli import app
from tests import command_line

KEY = "2999-01-01T00:00:00Z,a,1"
COMMANDS = sorted(
    command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make every command work in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hourhand(*arguments: str, stdin: str | None = None) -> Result:
    """Run a command in this process."""
    return command_line.run(*arguments, stdin=stdin)


def scheduled(*arguments: str) -> str:
    """Schedule a task and return its key."""
    done = hourhand("schedule", "--ordering-id", "c,7", "--uniqueness-key", "ü/1", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def test_a_scheduled_task_prints_the_key_that_commands_take() -> None:
    """Whatever characters its ids have."""
    key = scheduled("--at", "2999-01-01T00:00:00+01:00", "--data", '{"n": 1}')

    assert key == "2998-12-31T23:00:00.000Z,c%2C7,%C3%BC%2F1"
    answer = hourhand("cancel", key, "--wait", "0", "-o", "json")
    assert json.loads(answer.stdout)["outcome"] == "undecided"
    assert "is one running?" in answer.stderr
    assert "hourhand outcome" in answer.stderr
    assert answer.exit_code == 0


def test_a_receipt_is_asked_for_again(folder: Path) -> None:
    """By partition and offset, as the command printed them."""
    key = scheduled("--in", "1h")
    receipt = json.loads(hourhand("drop", key, "--wait", "0", "-o", "json").stdout)["receipt"]

    asked = hourhand("outcome", f"{receipt['partition']}:{receipt['offset']}")

    assert asked.exit_code == 4
    assert asked.stdout == "sent, and not decided yet: no node has read the command\n"
    assert hourhand("outcome", "3").exit_code == 2


@pytest.mark.parametrize("place", ["99:0", "{partition}:99"])
def test_a_place_that_no_command_stands_at_is_not_undecided(place: str) -> None:
    """It will never have an outcome."""
    key = scheduled("--in", "1h")
    receipt = json.loads(hourhand("drop", key, "--wait", "0", "-o", "json").stdout)["receipt"]

    asked = hourhand("outcome", place.format(**receipt))

    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "there is no outcome of" in asked.stderr


def test_a_command_that_nobody_decided_ends_with_a_code_of_its_own() -> None:
    """Unless it was not to be waited for."""
    key = scheduled("--in", "1h")

    assert hourhand("cancel", key, "--wait", "0.000001").exit_code == 4
    assert hourhand("cancel", key, "--wait", "0").exit_code == 0


def test_a_file_is_scheduled_and_every_bad_line_is_named(folder: Path) -> None:
    """Good lines are not lost for the bad ones."""
    good = (
        '{"orderingId":"a","scheduledTime":"2999-01-01T00:00:00Z","uniquenessKey":"1",'
        '"taskData":{"n":1},"version":1}'
    )
    past = good.replace("2999", "1999")
    (folder / "tasks.jsonl").write_text(f"{good}\nnonsense\n\n{past}\n{good}\n")

    done = hourhand("schedule", "--from-file", "tasks.jsonl", "-o", "json")

    assert json.loads(done.stdout) == {"accepted": 2, "rejected": 2}
    assert "line 2 is not a task" in done.stderr
    assert "1999-01-01T00:00:00.000Z,a,1 is rejected" in done.stderr
    assert done.exit_code == 2


@pytest.mark.parametrize("option", ["--unique-for", "--debounce"])
def test_a_task_is_asked_for_in_a_window(folder: Path, option: str) -> None:
    """A node decides, so the key is that of a request; a file may ask for each of its tasks."""
    name = ("--ordering-id", "page 4", "--uniqueness-key", "index", "--at", "now")
    line = {"orderingId": "a", "scheduledTime": "2999-01-01T00:00:00Z", "uniquenessKey": "1"}
    (folder / "tasks.jsonl").write_text(json.dumps({**line, "taskData": {}, "version": 1}))

    asked = hourhand("schedule", *name, option, "1m")
    of_file = hourhand("schedule", "--from-file", "tasks.jsonl", option, "1m", "-o", "json")

    assert asked.exit_code == 0, asked.output
    assert asked.stdout.split(",")[1].startswith("hourhand%3A")
    assert "`hourhand list --ordering-id 'page 4'` shows the task" in asked.stderr
    assert json.loads(of_file.stdout) == {"accepted": 1, "rejected": 0}


def test_a_task_takes_the_place_of_another(folder: Path) -> None:
    """The owner decides what it does, so where to ask is printed."""
    name = ("--ordering-id", "page 4", "--uniqueness-key", "index", "--in", "1h")

    asked = hourhand("schedule", *name, "--replace")

    assert asked.exit_code == 0, asked.output
    assert asked.stdout.rstrip().endswith(",page%204,index")
    assert "`hourhand outcome 9:0` tells what the owner made of it" in asked.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--unique-for", "1h"), "--unique-for is for calls with the same uniqueness key: give"),
        (("--debounce", "1h"), "--debounce is for calls with the same uniqueness key: give --un"),
        (
            ("--uniqueness-key", "x", "--unique-for", "1h", "--debounce", "1m"),
            "--unique-for lets the first call win, --debounce the last one, and --replace moves",
        ),
        (("--replace",), "--replace is for calls with the same uniqueness key: give --uniqueness"),
        (("--uniqueness-key", "x", "--replace", "--debounce", "1m"), "give one of them"),
        (("--uniqueness-key", "x", "--debounce", "soon"), "'soon' is not a duration"),
        (("--uniqueness-key", "x", "--debounce", "0s"), "debounce is from a millisecond to 366"),
    ],
)
def test_a_window_that_means_nothing_is_refused(arguments: tuple[str, ...], complaint: str) -> None:
    """Before anything is sent."""
    asked = hourhand("schedule", "--ordering-id", "a", "--in", "1h", *arguments)

    assert (asked.exit_code, asked.stdout) == (2, "")
    assert complaint in asked.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("show", KEY),
        ("cancel", KEY),
        ("outcome", "0:1"),
        ("running",),
        ("top",),
        ("admin",),
        ("admin", "--port", "0"),
    ],
)
def test_a_folder_without_an_installation_stays_as_it_is(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    """Who looks in the wrong place is told so."""
    looked = hourhand(*arguments)

    assert (looked.exit_code, looked.stdout) == (3, "")
    assert "there is no installation here" in looked.stderr
    assert not (folder / "hourhand-data").exists()


def test_a_list_says_what_no_node_has_read() -> None:
    """A task that was scheduled is in the log alone until then."""
    scheduled("--in", "1h")

    listed = hourhand("list")

    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "1 record waits in the log, which no node has read yet" in listed.stderr
    assert json.loads(hourhand("list", "-o", "json").stdout) == {"tasks": [], "nextAfter": None}
    assert hourhand("list", "--from", "+1h", "--to", "now").exit_code == 2
    assert hourhand("list", "--from", "2999-01-01T00:00:00Z").exit_code == 0


def test_the_old_name_of_list_says_the_new_one() -> None:
    """And does the same."""
    scheduled("--in", "1h")

    renamed = hourhand("tasks", "-o", "json")

    assert json.loads(renamed.stdout) == {"tasks": [], "nextAfter": None}
    assert "`hourhand list`" in renamed.stderr


def test_a_key_that_is_not_stored_is_told_by_the_exit_code() -> None:
    """Standard output still holds the answer."""
    scheduled("--in", "1h")

    shown = hourhand("show", KEY, "-o", "json")

    assert json.loads(shown.stdout)["state"] == "unknown"
    assert shown.exit_code == 2


def test_settings_come_from_flag_environment_and_file_in_that_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each is shown under the name that --set takes."""
    (folder / "mine.toml").write_text(
        '[group]\nid = "file"\nsession_timeout_ms = 50000\ncommit_interval_ms = 900\n'
    )
    monkeypatch.setenv("HOURHAND_GROUP__ID", "environment")
    monkeypatch.setenv("HOURHAND_GROUP__SESSION_TIMEOUT_MS", "60000")

    shown = hourhand("settings", "--config", "mine.toml", "--set", "group.id=flag", "-o", "json")

    group = json.loads(shown.stdout)["group"]
    assert group["id"] == "flag"
    assert group["session_timeout_ms"] == 60_000
    assert group["commit_interval_ms"] == 900
    assert "HOURHAND_CONFIG" not in os.environ


@pytest.mark.parametrize("output", ["text", "json"])
def test_secrets_are_never_shown(output: str) -> None:
    """Wherever an operator put them."""
    shown = hourhand(
        "settings",
        "--output",
        output,
        "--set",
        "cassandra.username=someone",
        "--set",
        "cassandra.password=hunter2",
        "--set",
        "kafka.security_properties.sasl.password=hunter2",
        "--set",
        "kafka.producer_properties.someones.token=hunter2",
        "--set",
        "kafka.consumer_properties.fetch.min.bytes=7",
    )

    assert shown.exit_code == 0, shown.output
    assert "hunter2" not in shown.output
    assert "fetch.min.bytes" in shown.output


@pytest.mark.parametrize(
    "assignment",
    [
        "kafka.password:hunter2",
        "kafka.password hunter2",
        "kafka.pasword=hunter2",
        "kafka.password=hunter2",
        "kafka.tls=hunter2",
        "kafka.security_properties=hunter2",
        'kafka.security_properties={"sasl.password": "hunter2"',
        "kafka.producer_properties.ssl.key.password=hunter2",
        "kafka.tls.key_password=hunter2",
    ],
)
def test_a_secret_that_is_set_wrongly_is_not_quoted(assignment: str) -> None:
    """Whatever was wrong: the name, the sign, what else it needs."""
    refused = hourhand("settings", "--debug", "--set", assignment)

    assert refused.exit_code == 3
    assert "[settings-invalid]" in refused.stderr
    assert "hunter2" not in refused.output


def test_migrate_says_what_it_did() -> None:
    """For an embedded installation: that there is nothing to do."""
    assert len(json.loads(hourhand("migrate", "-o", "json").stdout)["done"]) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_by_example(command: str) -> None:
    """The help of a command shows how it is called."""
    shown = hourhand(command, "--help")

    assert "Example" in shown.stdout
    assert shown.exit_code == 0


def test_a_trace_is_shown_under_debug_only() -> None:
    """The exit code is the same."""
    plain, traced = hourhand("cancel", "x"), hourhand("cancel", "x", "--debug")

    assert "Traceback" not in plain.stderr
    assert "Traceback" in traced.stderr
    assert plain.exit_code == traced.exit_code == 2
