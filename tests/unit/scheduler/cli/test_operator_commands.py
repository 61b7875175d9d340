"""Operators' commands over an embedded folder: what they print, ask, do and write down."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from actors.model.instant import from_millis
from actors.model.task import Task
from actors.model.task_executor import TaskExecutor
from scheduler import Scheduler
from scheduler.adapters.clock import SystemClock
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of

IDS = ("a", "b")


class Nothing(TaskExecutor):
    """Succeeds at once."""

    def execute(self, task: Task) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An installation whose node runs, with ten tasks due in an hour."""
    folder = tmp_path_factory.mktemp("operated")
    with Scheduler(settings_of(folder), executor=Nothing) as scheduler:
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
        *("nodes", "blocked", "ahead", "buckets", "audit-log", "top", "list", "dead-letters"),
        *("pause", "running", "settings"),
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

    assert (done.exit_code, done.stdout) == (0, "applied 2\n")
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


def test_pauses_are_made_listed_and_lifted(folder: Path) -> None:
    """An ordering id without a question, everything only after one."""
    paused = answer(folder, "pause", "--ordering-id", "b", "--reason", "bad address")["pauses"]
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
