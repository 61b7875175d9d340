"""What a command says is a JSON line where its log is JSON, from its first line on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.scheduler.cli.line_format import (
    choose_line_format,
    line_text,
    says_json,
    use_line_format,
)

JSON = "observe.log_format=json"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOURHAND_CONFIG", raising=False)
    yield
    choose_line_format([])


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--set", JSON],
        ["run", f"--set={JSON}", "--executor", "a:B"],
        ["run", "--set", "observe.log_format=text", "--set", JSON],
        ["admin", "--set", JSON],
        ["relay", "--set", JSON],
        ["timers", "--port", "1", "--set", JSON],
    ],
)
def test_the_format_is_known_from_the_arguments(arguments: list[str]) -> None:
    """Of two settings of one name the last counts."""
    choose_line_format(arguments)

    assert says_json()


@pytest.mark.parametrize(
    "arguments",
    [[], ["run"], ["list", "--set", JSON], ["relay", "pending", "--set", JSON], ["run", "--set"]],
)
def test_other_commands_speak_to_people(arguments: list[str]) -> None:
    """They write no log; and by default it is text."""
    choose_line_format(arguments)

    assert not says_json()


def test_the_environment_says_it_where_no_argument_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for every setting."""
    monkeypatch.setenv("HOURHAND_OBSERVE__LOG_FORMAT", "json")
    choose_line_format(["run"])
    by_environment = says_json()
    choose_line_format(["run", "--set", "observe.log_format=text"])

    assert by_environment and not says_json()


@pytest.mark.parametrize("how", ["hourhand.toml", "HOURHAND_CONFIG", "--config"])
def test_the_settings_file_says_it(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the working folder, or named in either way."""
    path = Path("hourhand.toml" if how == "hourhand.toml" else "other.toml")
    path.write_text('[observe]\nlog_format = "json"\n[tree]\nwrong = 1\n', encoding="utf-8")
    if how == "HOURHAND_CONFIG":
        monkeypatch.setenv(how, str(path))
    choose_line_format(["run", *(["--config", str(path)] if how == "--config" else [])])

    assert says_json()


@pytest.mark.parametrize(
    "text", [b"\xff", b"[observe", b"observe = 7", b"[observe]\nlog_format = 7"]
)
def test_a_file_that_cannot_be_read_is_told_later(text: bytes) -> None:
    """As a line for a person: nobody knows what was meant."""
    Path("hourhand.toml").write_bytes(text)
    choose_line_format(["run"])

    assert not says_json()


def test_a_line_is_one_object_whatever_it_quotes() -> None:
    """With time, level, logger and message, as the log's lines have them."""
    use_line_format("json", process=2)
    line = line_text("a\nb \u2028 \x1b[31m", level="ERROR", code="usage")

    assert len(line.splitlines()) == 1 and line.isascii()
    told = json.loads(line)
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "ERROR",
        "logger": "hourhand.cli",
        "message": "a\nb \u2028 \x1b[31m",
        "process": 2,
        "code": "usage",
    }


def test_a_line_for_people_stands_after_the_name() -> None:
    """As before."""
    use_line_format("text")

    assert line_text("the node runs\x07") == "hourhand: the node runs\\x07"
