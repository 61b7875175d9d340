"""Operators' commands over an embedded folder: what they print, ask, do and write down."""

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from hourhand import Scheduler
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of
from tests.waiting import until

IDS = ("a", "b")


class Nothing(TaskExecutor):
    """Succeeds at once, or once it is released where the task says so."""

    released: ClassVar = threading.Event()

    def execute(self, task: Task) -> None:
        """Do nothing."""
        if task.data:
            if "total" in task.data:
                self.checkpoint(task.data)
            self.released.wait(60)


class Watched(Nothing):
    """The same, and stuck where it makes no checkpoint for a second."""

    stuck_after = timedelta(seconds=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An installation whose node runs, with ten tasks due in an hour."""
    folder = tmp_path_factory.mktemp("operated")
    executors = {"watched": Watched}
    with Scheduler(settings_of(folder), executor=Nothing, executors=executors) as scheduler:
        due: datetime = from_millis(SystemClock().now_ms()) + timedelta(hours=1)
        futures = [
            scheduler.schedule_task(
                Task(
                    ordering_id=IDS[number % 2],
                    scheduled_time=due,
                    uniqueness_key=str(number),
                    data={},
                )
            )
            for number in range(10)
        ]
        for future in futures:
            future.result(60)
        while len(answer(folder, "list", "--to", "+2h")["tasks"]) < len(futures):
            """The node has not stored them yet."""
        yield folder


@pytest.mark.parametrize(
    "command",
    [
        "nodes",
        "blocked",
        "ahead",
        "buckets",
        "audit-log",
        "top",
        "list",
        "dead-letters",
        "pause",
        "running",
        "limited",
        "settings",
    ],
)
def test_each_looks_as_text_and_as_json(folder: Path, command: str) -> None:
    """One JSON value, or lines for people."""
    assert isinstance(answer(folder, command), dict)
    assert invoke(folder, command).exit_code == 0


def test_nothing_is_done_in_bulk_before_its_count_was_agreed_to(folder: Path) -> None:
    """Without a terminal --yes is needed; with it, all are done and written down."""
    chosen = ("list", "--ordering-id", "a", "--to", "+2h", "--state", "pending")
    refused = invoke(folder, *chosen, "--act", "cancel")
    assert (refused.exit_code, "5" in refused.stderr, "--yes" in refused.stderr) == (2, True, True)
    assert len(answer(folder, *chosen)["tasks"]) == 5

    assert answer(folder, *chosen, "--act", "cancel", "--yes")["outcomes"] == {"applied": 5}
    assert answer(folder, *chosen)["tasks"] == []
    entry = answer(folder, "audit-log")["entries"][0]
    assert (entry["action"], entry["result"]) == ("cancel", "applied 5")
    assert entry["who"].startswith("cli:")


def test_an_act_concerns_no_task_that_was_not_listed(folder: Path) -> None:
    """``--limit`` and ``--after`` bound the act, its question and the audit log as the listing."""
    chosen = ("list", "--ordering-id", "b", "--to", "+2h", "--state", "pending")
    keys = [each["key"] for each in answer(folder, *chosen)["tasks"]]
    narrowed = (*chosen, "--limit", "2", "--after", keys[0])

    refused = invoke(folder, *narrowed, "--act", "cancel")
    assert (refused.exit_code, "(2)" in refused.stderr) == (2, True)
    done = invoke(folder, *narrowed, "--act", "cancel", "--yes")

    assert (done.exit_code, done.stdout) == (0, "2: cancelled, and will not run\n")
    assert f"--after {keys[2]}" in done.stderr
    left = [each["key"] for each in answer(folder, *chosen)["tasks"]]
    assert left == [keys[0], *keys[3:]]
    entry = answer(folder, "audit-log")["entries"][0]
    assert (entry["detail"]["count"], entry["detail"]["keys"]) == (2, keys[1:3])


def test_a_time_to_move_to_belongs_to_reschedule_alone(folder: Path) -> None:
    """Given with another act or none, or missing, it is refused before anything is sent."""
    chosen = ("list", "--ordering-id", "b", "--to", "+2h", "--state", "pending")
    for extra in (("--reschedule-to", "+3h"), ("--act", "reschedule", "--yes")):
        refused = invoke(folder, *chosen, *extra)
        assert (refused.exit_code, "--reschedule-to" in refused.stderr) == (2, True)


def test_resume_says_what_it_did(folder: Path) -> None:
    """What was paused, and what was not."""
    assert "c: paused" in invoke(folder, "pause", "--ordering-id", "c").stderr
    assert "c: was paused already" in invoke(folder, "pause", "--ordering-id", "c").stderr
    assert "c: resumed" in invoke(folder, "resume", "--ordering-id", "c").stderr
    assert "c: was not paused" in invoke(folder, "resume", "--ordering-id", "c").stderr
    assert "c: paused" in invoke(folder, "pause", "c").stderr
    assert "c: resumed" in invoke(folder, "resume", "c").stderr


def test_a_reason_is_listed_with_the_act(folder: Path) -> None:
    """It is why the log is read."""
    invoke(folder, "pause", "--ordering-id", "d", "--reason", "a bad address")
    invoke(folder, "resume", "--ordering-id", "d")

    listed = invoke(folder, "audit-log", "--limit", "2").stdout.splitlines()

    assert listed[0].split()[-1] == "REASON"
    assert listed[2].endswith("a bad address")


def test_top_into_a_pipe_waits_for_rates(folder: Path) -> None:
    """A single report has none."""
    (node,) = answer(folder, "top")["nodes"]

    assert node["executionsPerS"] is not None


def test_a_letter_that_is_not_there_is_told_by_the_exit_code(folder: Path) -> None:
    """As is a command that did nothing."""
    replayed = invoke(folder, "dead-letters", "--replay", "0:99", "-o", "json")

    assert (replayed.exit_code, '"outcome":"unknown"' in replayed.stdout) == (2, True)


def test_a_kind_is_scheduled_listed_and_shown(folder: Path) -> None:
    """It is not a part of the data."""
    made = invoke(folder, "schedule", "--ordering-id", "k", "--in", "1h", "--kind", "mail")
    chosen = ("list", "--kind", "mail", "--to", "+2h")
    until(lambda: len(answer(folder, *chosen)["tasks"]) == 1)

    (task,) = answer(folder, *chosen)["tasks"]
    assert (task["key"], task["kind"], task["taskData"]) == (made.stdout.strip(), "mail", {})
    assert answer(folder, "list", "--kind", "other", "--to", "+2h")["tasks"] == []
    assert "kind            mail" in invoke(folder, "show", task["key"]).stdout.splitlines()
    answer(folder, "cancel", task["key"])


def test_what_runs_is_listed_as_running_and_cancelled_as_cancelling(folder: Path) -> None:
    """Of a first attempt the store knows nothing; its node does."""
    made = invoke(folder, "schedule", "--ordering-id", "r", "--in", "0s", "--data", '{"waits": 1}')
    key = made.stdout.strip()
    chosen = ("list", "--state", "running")
    try:
        until(lambda: len(answer(folder, *chosen)["tasks"]) == 1)
        (task,) = answer(folder, *chosen)["tasks"]
        assert (task["key"], task["running"]["attempt"]) == (key, 1)
        assert answer(folder, "show", key)["state"] == "running"
        assert answer(folder, "list", "--state", "pending", "--ordering-id", "r")["tasks"] == []
        (told,) = answer(folder, "running")["running"]
        assert (told["key"], told["kind"], told["attempt"]) == (key, None, 1)
        assert told["where"] == "thread"
        assert told["started"] >= key.partition(",")[0]
        heading, row = invoke(folder, "running").stdout.splitlines()
        assert heading.split() == ["STARTED", "FOR", "KIND", "NODE", "WHERE", "ATTEMPT", "KEY"]
        assert row.endswith(key)
        told = invoke(folder, "cancel", key)
        assert told.stdout.startswith("cancelled while an attempt runs: it may end")
        assert (told.exit_code, "`hourhand running`" in told.stderr) == (0, True)
        (cancelled,) = answer(folder, "list", "--state", "cancelling")["tasks"]
        assert (cancelled["key"], cancelled["running"]["attempt"]) == (key, 1)
        shown = invoke(folder, "show", key).stdout
        assert shown.startswith("state           cancelling\n")
        assert "running         attempt 1 on" in shown and " in a thread, for " in shown
        assert "cancelled while attempt 1 runs, at" in shown
        asked = invoke(folder, "cancel", key, "--running", "--wait", "0.3")
        assert asked.stdout.startswith("cancelled and asked to end: its code still runs")
        assert (asked.exit_code, "`hourhand running`" in asked.stderr) == (0, True)
    finally:
        Nothing.released.set()
    until(lambda: answer(folder, "show", key)["state"] == "cancelled")
    (attempt,) = answer(folder, "show", key)["attempts"]
    assert (attempt["attempt"], attempt["result"]) == (1, "dropped")
    assert "cancelled after 1 attempt, at" in invoke(folder, "show", key).stdout


def test_what_runs_shows_how_far_it_is_and_that_it_is_stuck(folder: Path) -> None:
    """By its last checkpoint, in words and as JSON, beside code that makes none."""
    Nothing.released.clear()
    new = ("schedule", "--kind", "watched", "--in", "0s", "--ordering-id")
    keys = [
        invoke(folder, *new, of, "--data", data).stdout.strip()
        for of, data in (("far", '{"done": 1, "total": 4}'), ("unsaid", '{"waits": 1}'))
    ]
    try:
        until(lambda: sum(e["stuck"] for e in answer(folder, "running")["running"]) == 2)
        told = {each["key"]: each for each in answer(folder, "running")["running"]}
        made = told[keys[0]]["checkpoint"]
        assert made == {"attempt": 1, "made": made["made"], "done": 1, "total": 4}
        assert "checkpoint" not in told[keys[1]]
        heading, *rows = sorted(invoke(folder, "running").stdout.splitlines(), reverse=True)
        assert heading.split()[-3:] == ["ATTEMPT", "CHECKPOINT", "KEY"]
        far, unsaid = sorted(rows, key=lambda row: ",unsaid," in row)
        assert "25 %, 1 of 4, " in far and " ago, stuck" in far
        assert unsaid.split()[-2] == "stuck"
        assert " in a thread, for " in (shown := invoke(folder, "show", keys[0]).stdout)
        assert "s, stuck\n" in shown
    finally:
        Nothing.released.set()


def test_pauses_are_made_listed_and_lifted(folder: Path) -> None:
    """An ordering id without a question, everything only after one."""
    paused = answer(folder, "pause", "b", "--reason", "bad address")["pauses"]
    assert [(each["orderingId"], each["reason"]) for each in paused] == [("b", "bad address")]
    assert invoke(folder, "pause", "--all").exit_code == 2
    assert len(answer(folder, "pause", "--all", "--yes")["pauses"]) == 2

    left = answer(folder, "resume", "--all", "--ordering-id", "b", "--yes")["pauses"]
    assert left == []
    assert invoke(folder, "resume").exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("ahead", "--unit", "day", "--bars", "1000"),
        ("buckets", "--from", "-90d"),
        ("unblock", "a"),
        ("waiting", "junk"),
        ("audit-log", "--before", "junk"),
        ("dead-letters", "--before", "junk"),
        ("dead-letters", "--replay", "junk"),
        ("pause", "--partition", "7", "--yes"),
        ("list", "--from", "now", "--to", "-1h"),
    ],
)
def test_what_cannot_be_done_is_one_line(folder: Path, arguments: tuple[str, ...]) -> None:
    """Exit code 2, and what to do next."""
    result = invoke(folder, *arguments)

    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
