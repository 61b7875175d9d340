"""Dead letters of used-up attempts, brought back over an embedded folder whose node runs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand import Hourhand, RetryPolicy, Scheduler
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of
from tests.waiting import until

app = Hourhand()
UP: set[str] = set()
DELIVERED: list[str] = []


@app.task("hook", retry=RetryPolicy(attempts_max=1, on_exhausted="dead_letter"))
def hook(of: dict[str, str]) -> None:
    """Deliver, where the service is up."""
    if of["to"] not in UP:
        raise ConnectionError("down")
    DELIVERED.append(of["to"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An installation in which five deliveries failed."""
    folder = tmp_path_factory.mktemp("night")
    with Scheduler(settings_of(folder), executors=app):
        for name in "abcde":
            hook.schedule({"to": name}, ordering_id=name).result(60)
        until(lambda: len(answer(folder, "dead-letters")["letters"]) == 5)
        until(lambda: len(answer(folder, "list", "--state", "failure")["tasks"]) == 5)
        yield folder


def letter(folder: Path, name: str) -> dict[str, object]:
    """Return the letter of a task."""
    letters = answer(folder, "dead-letters")["letters"]
    return next(each for each in letters if each["key"].split(",")[1] == name)


def test_a_replay_runs_the_task_and_says_so(folder: Path) -> None:
    """The second one says that it ran already, by exit code 2 too."""
    UP.add("a")
    place = str(letter(folder, "a")["place"])

    first = invoke(folder, "dead-letters", "--replay", place)
    until(lambda: "a" in DELIVERED)
    until(lambda: letter(folder, "a").get("ended") == "success")
    second = invoke(folder, "dead-letters", "--replay", place)
    listed = invoke(folder, "dead-letters").stdout
    audited = invoke(folder, "audit-log").stdout

    assert (first.exit_code, "replayed" in first.stdout) == (0, True)
    assert (second.exit_code, "ran_already" in second.stdout) == (2, True)
    assert DELIVERED.count("a") == 1
    assert next(line.split()[3] for line in listed.splitlines() if line.startswith(place)) == "no"
    assert "replayed 1" in audited and "ran_already 1" in audited


def test_letters_are_brought_back_by_query(folder: Path) -> None:
    """The preview counts them; without a terminal nothing is done that was not agreed to."""
    UP.update("bcd")
    chosen = ("dead-letters", "--kind", "hook", "--error", "ConnectionError", "--from", "-1h")
    count = answer(folder, *chosen, "--dry-run")["count"]
    other = answer(folder, "dead-letters", "--error", "ValueError", "--dry-run")["count"]

    refused = invoke(folder, *chosen, "--replay-all")
    done = invoke(folder, *chosen, "--replay-all", "--yes", "-o", "json")

    assert (refused.exit_code, f"({count})" in refused.stderr) == (2, True)
    assert (done.exit_code, other) == (0, 0)
    told = json.loads(done.stdout)
    assert (told["asked"], told["outcomes"]) == (count, {"replayed": count})
    until(lambda: {"b", "c", "d"} <= set(DELIVERED))
    until(lambda: bool(letter(folder, "e")["replayable"]))


def test_failed_tasks_are_retried_by_query(folder: Path) -> None:
    """Whatever follows their last attempt: their rows are kept."""
    until(lambda: letter(folder, "e").get("ended") == "failure")
    UP.add("e")
    chosen = ("list", "--state", "failure", "--kind", "hook", "--error", "ConnectionError")

    done = invoke(folder, *chosen, "--act", "retry", "--yes")

    assert done.exit_code == 0
    until(lambda: "e" in DELIVERED)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--replay", "0:1", "--replay-all"),
        ("--from", "-1h", "--to", "-2h"),
        ("--from", "soon"),
        ("--replay", "junk"),
    ],
)
def test_what_is_not_clear_is_refused(folder: Path, arguments: tuple[str, ...]) -> None:
    """Before anything is sent."""
    assert invoke(folder, "dead-letters", *arguments).exit_code == 2
