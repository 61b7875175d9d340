"""Help, version and usage errors of the command line, as a person reads them."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import Result

from hourhand.scheduler.cli.cli import app
from hourhand.scheduler.demo.demo import TASKS_MAX, TASKS_MIN
from tests import command_line

_TERMINAL_COLUMNS = 80


def hourhand(*arguments: str) -> Result:
    """Run a command in this process."""
    return command_line.run(*arguments)


@cache
def help_of(path: str) -> str:
    """Return the help of a command, or of a group."""
    return hourhand(*path.split(), "-h").stdout


def paths() -> Iterator[str]:
    """Yield each command's path, groups too."""
    pending: list[tuple[Any, list[str]]] = [(typer.main.get_command(app), [])]
    while pending:
        command, path = pending.pop()
        yield " ".join(path)
        if isinstance(command, TyperGroup):
            pending += [(below, [*path, name]) for name, below in command.commands.items()]


def test_the_version_is_shown_by_option_and_by_command() -> None:
    """Most programs take the option."""
    shown = hourhand("--version")

    assert shown.exit_code == 0
    assert shown.stdout.startswith("hourhand ")
    assert shown.stdout == hourhand("version").stdout


def test_commands_are_listed_in_groups_each_in_one_line() -> None:
    """The first sentence of each help fits a terminal."""
    text = help_of("")

    titles = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles[1:] == [
        "Run a node:",
        "Tasks:",
        "When something is stuck:",
        "The whole cluster:",
        "More:",
    ]
    listed = text[text.index("Run a node:") :].splitlines()
    assert max(map(len, listed)) < _TERMINAL_COLUMNS
    assert all(line[2] != " " for line in listed if line.startswith("  "))


@pytest.mark.parametrize("path", [*paths()])
def test_help_names_values_as_a_person_types_them(path: str) -> None:
    """Not as Python calls their types."""
    assert "<" not in help_of(path).replace("<=", "")
    assert "..." not in help_of(path).split("\n", 1)[1]


def test_the_demo_says_how_many_tasks_it_takes() -> None:
    """The same bounds as it refuses others by."""
    assert f"{TASKS_MIN} to {TASKS_MAX}" in help_of("demo")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("lst",), "did you mean"),
        (("list", "--limit", "many"), "--limit"),
        (("list", "--form", "now"), "--from"),
        (("show",), "TASK"),
        (("list", "--state", "lost"), "--state"),
        (("recurring", "shwo"), "did you mean"),
    ],
)
def test_what_is_typed_wrong_is_one_line_like_every_error(
    arguments: tuple[str, ...], told: str
) -> None:
    """With exit code 2, a code, and the help to read next."""
    refused = hourhand(*arguments)

    assert (refused.exit_code, refused.stdout) == (2, "")
    (line,) = refused.stderr.splitlines()
    assert line.startswith("hourhand: ")
    assert told.lower() in line.lower()
    assert " -h` [usage]" in line


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("list", "--limit", "many", "-o", "json"), "usage", 2),
        (("show", "junk", "--output=json"), "invalid-key", 2),
        (("settings", "--set", "grupp.id=x", "-ojson"), "settings-invalid", 3),
    ],
)
def test_a_program_reads_errors_as_json(
    arguments: tuple[str, ...], code: str, exit_code: int
) -> None:
    """On standard error, so that standard output holds results alone."""
    refused = hourhand(*arguments)

    error = json.loads(refused.stderr)["error"]
    assert (error["code"], error["exitCode"]) == (code, exit_code)
    assert error["message"]
    assert (refused.exit_code, refused.stdout) == (exit_code, "")


def test_an_unread_settings_file_is_named_by_the_option() -> None:
    """Not by a variable that nobody set."""
    refused = hourhand("settings", "--config", "none.toml")

    assert refused.exit_code == 3
    assert "--config 'none.toml'" in refused.stderr


def test_without_a_command_the_help_is_shown() -> None:
    """And the exit code says that nothing was done."""
    shown = hourhand()

    assert (shown.exit_code, shown.stdout) == (2, help_of(""))


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("list --state runing", "running"),
        ("list --state DONE", "success"),
        ("list --act cancle", "cancel"),
        ("ahead --unit hours", "hour"),
        ("list -o jsn", "json"),
        ("list --orderingid x", "--ordering-id"),
        ("dead-letters --replya 0:1", "--replay"),
    ],
)
def test_what_is_nearly_right_is_told_what_was_meant(arguments: str, meant: str) -> None:
    """Values and options, as commands and settings."""
    told = hourhand(*arguments.split())

    assert told.exit_code == 2
    assert f"did you mean {meant}? see `" in told.stderr


def test_what_is_far_from_everything_is_told_without_a_guess() -> None:
    """A list of what there is, and where to look."""
    assert "did you mean" not in hourhand("list", "--state", "xyz").stderr


@pytest.mark.parametrize("typed", ["RUNNING", "Running"])
def test_one_of_a_few_values_may_be_in_upper_case(typed: str, tmp_path: Path) -> None:
    """There is no other one that it could be; errors are JSON where that is asked for so."""
    folder = f"embedded.folder={tmp_path / 'none'}"
    told = hourhand("list", "--state", typed, "-o", "JSON", "--set", folder)

    assert json.loads(told.stderr)["error"]["code"] == "settings-invalid"
