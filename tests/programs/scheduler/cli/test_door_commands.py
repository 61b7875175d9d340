"""Twins of the admin API for schedules, timers, messages and single tasks, over a folder."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hourhand import RetryPolicy, Scheduler, Settings
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import format_instant, from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.log import MemoryLog
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.relay.intake import IntakePorts, RelayIntake
from hourhand.scheduler.services.timers.service import TimerService
from hourhand.scheduler.services.timers.timer import TimerRule
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of
from tests.waiting import until

HOUR_MS = 3_600_000
TIMERS = [f"{number:016x}-2" for number in range(3)]
MESSAGES = [f"order-{number}" for number in range(4)]
SCHEDULES = ("hourly", "nightly", "weekly")


class Stubborn(TaskExecutor):
    """Fails for good where the task says so, and blocks its ordering id."""

    retry = RetryPolicy(attempts_max=1, on_exhausted="block")

    def execute(self, task: Task) -> None:
        """Fail, or do nothing."""
        if task.data.get("fails"):
            raise ValueError("as its data says")


def a_task(ordering_id: str, due: datetime, name: str = "u", **data: Any) -> Task:
    """Return a task."""
    return Task(ordering_id=ordering_id, scheduled_time=due, uniqueness_key=name, data=data)


def relay(node: Scheduler, settings: Settings) -> None:
    """Let messages wait as the relay does, read from an in-topic in memory."""
    dependencies = node.dependencies
    in_topic = MemoryBroker(1, dependencies.clock)
    for each in MESSAGES:
        deadline = format_instant(dependencies.clock.now_ms() + HOUR_MS)
        headers = [
            (settings.relay.id_header, each.encode()),
            (settings.relay.deadline_header, deadline.encode()),
        ]
        in_topic.partitions[0].append(dependencies.clock.now_ms(), b"k", b"v", headers)
    ports = IntakePorts(
        MemoryLog(in_topic, settings, dependencies.clock),
        MemoryWriter(in_topic).dead_letter,
        dependencies.appender,
        dependencies.definitions,
        dependencies.clock,
        dependencies.telemetry,
    )
    intake = RelayIntake(ports, settings.relay, lambda _topic: True)
    for _ in range(5):
        intake.step(0)
    intake.drain(30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An installation whose node runs, with some of everything."""
    folder = tmp_path_factory.mktemp("doors")
    with Scheduler(settings_of(folder), executor=Stubborn) as node:
        now: datetime = from_millis(SystemClock().now_ms())
        for name in SCHEDULES:
            node.schedule_recurring(name, every=timedelta(hours=1)).result(30)
        dependencies = node.dependencies
        rule = TimerRule(HOUR_MS, 2 * HOUR_MS, "http://localhost:1/", "o", tags=(("CALL", 1),))
        for each in TIMERS:
            service = TimerService(
                dependencies.appender, dependencies.definitions, dependencies.clock
            )
            asyncio.run(service.put(each.partition("-")[0], rule))
        relay(node, settings_of(folder))
        for each in ("stuck", "stuck-too"):
            node.schedule_task(a_task(each, now, fails=True)).result(30)
            node.schedule_task(a_task(each, now, "v")).result(30)
        for number in range(5):
            node.schedule_task(a_task(f"later-{number}", now + timedelta(hours=1))).result(30)
        until(lambda: len(answer(folder, "relay", "pending")["messages"]) == len(MESSAGES))
        until(lambda: len(answer(folder, "recurring", "list")["recurring"]) == len(SCHEDULES))
        until(lambda: answer(folder, "blocked")["blocked"]["count"] == 2)
        yield folder


def last_entry(folder: Path) -> tuple[str, str, str]:
    """Return what the audit log says of the last act."""
    entry = answer(folder, "audit-log", "--limit", "1")["entries"][0]
    assert entry["who"].startswith("cli:")
    return entry["action"], entry["target"], entry["result"]


def test_single_commands_are_written_down(folder: Path) -> None:
    """Each of them, with what came of it; what is refused too."""
    found = answer(folder, "list", "--ordering-id", "later-0", "--to", "+2h")["tasks"]
    key = found[0]["key"]
    moved = answer(folder, "reschedule", key, "--in", "3h", "--reason", "late")["newKey"]
    action, target, result = last_entry(folder)
    assert (action, target, result) == ("reschedule", key, "applied 1")
    detail = answer(folder, "audit-log", "--limit", "1")["entries"][0]["detail"]
    assert (detail["reason"], detail["to"][-6:]) == ("late", "+00:00")
    now = answer(folder, "run-now", moved)["newKey"]
    assert last_entry(folder)[:2] == ("run-now", moved)
    until(lambda: answer(folder, "show", now)["state"] == "success")
    assert invoke(folder, "cancel", moved).exit_code == 2
    assert last_entry(folder)[0] == "cancel"
    past = invoke(folder, "reschedule", now, "--to", "1999-01-01T00:00:00Z")
    assert (past.exit_code, "task-in-the-past" in past.stderr) == (2, True)
    assert last_entry(folder)[2] == "task-in-the-past 1"


@pytest.mark.parametrize("command", ["drop", "cancel"])
def test_what_waits_is_closed_and_that_is_written_down(folder: Path, command: str) -> None:
    """By whom, and why."""
    chosen = f"later-{1 if command == 'drop' else 2}"
    (task,) = answer(folder, "list", "--ordering-id", chosen, "--to", "+2h")["tasks"]

    assert answer(folder, command, task["key"])["outcome"] == "applied"
    assert last_entry(folder) == (command, task["key"], "applied 1")


def test_what_failed_says_why(folder: Path) -> None:
    """Class and message of the last error, wherever tasks are listed."""
    for command in (
        ("blocked",),
        ("list", "--state", "blocked"),
        ("list", "--error", "ValueError"),
    ):
        lines = invoke(folder, *command).stdout.splitlines()
        assert len(lines) == 3, command
        assert all(each.endswith("ValueError: as its data says") for each in lines[1:]), command


def test_tasks_of_hourhand_itself_are_hidden(folder: Path) -> None:
    """They are listed where they are asked for."""
    users = answer(folder, "list", "--to", "+4h")["tasks"]
    all_of_them = answer(folder, "list", "--to", "+4h", "--internal")["tasks"]
    one = answer(folder, "list", "--to", "+4h", "--ordering-id", "hourhand:recurring:hourly")

    internal = [each["key"] for each in all_of_them if each["orderingId"].startswith("hourhand:")]
    assert internal
    assert {each["key"] for each in users}.isdisjoint(internal)
    assert one["tasks"]


def test_blocked_ordering_ids_are_unblocked_after_a_look(folder: Path) -> None:
    """How many wait behind each is told; two at once are agreed to first."""
    key = answer(folder, "blocked")["blocked"]["blocked"][0]["key"]
    assert answer(folder, "waiting", key)["waiting"] == 1
    assert "1 waits behind it" in invoke(folder, "waiting", key).stdout
    refused = invoke(folder, "unblock", "stuck", "stuck-too", "--drop")
    assert (refused.exit_code, "(2)" in refused.stderr) == (2, True)

    told = invoke(folder, "unblock", "stuck", "stuck-too", "free", "--drop", "--yes")

    assert (told.exit_code, told.stdout.strip()) == (2, "2: closed for good without running")
    assert "'free'" in told.stderr
    assert last_entry(folder) == ("drop", "2 tasks", "applied 2")
    until(lambda: answer(folder, "blocked")["blocked"]["count"] == 0)


def test_recurring_schedules_are_changed(folder: Path) -> None:
    """One without a question, several after one; what became of them is told."""
    assert answer(folder, "recurring", "pause", "hourly")["outcomes"] == {"applied": 1}
    assert last_entry(folder) == ("recurring pause", "hourly", "applied 1")
    assert invoke(folder, "recurring", "delete", "hourly", "nightly").exit_code == 2
    both = ("recurring", "resume", "hourly", "nightly")
    assert answer(folder, *both, "--yes")["outcomes"] == {"applied": 2}
    assert answer(folder, "recurring", "trigger", "weekly")["outcomes"] == {"applied": 1}
    until(
        lambda: answer(folder, "recurring", "show", "weekly")["lastRuns"][0]["state"] == "success"
    )
    shown = invoke(folder, "recurring", "show", "weekly", "--next", "2").stdout
    assert (shown.count("next time "), shown.count("last run ")) == (2, 1)
    assert invoke(folder, "recurring", "set", "fresh", "--every", "9h").exit_code == 0
    assert last_entry(folder)[:2] == ("recurring set", "fresh")


def test_timers_are_listed_shown_and_ended(folder: Path) -> None:
    """By tag, and by the id of their Location."""
    assert len(answer(folder, "timers", "list", "--tag", "CALL")["timers"]) == len(TIMERS)
    assert answer(folder, "timers", "list", "--tag", "NONE")["timers"] == []
    shown = answer(folder, "timers", "show", TIMERS[0])
    assert (shown["intervalMs"], len(shown["open"])) == (HOUR_MS, 1)
    assert TIMERS[0] in invoke(folder, "timers", "show", TIMERS[0]).stdout
    assert invoke(folder, "timers", "delete", *TIMERS[:2]).exit_code == 2

    assert answer(folder, "timers", "delete", *TIMERS[:2], "--yes")["outcomes"] == {"deleted": 2}

    assert last_entry(folder) == ("timer delete", "2 timers", "deleted 2")
    assert invoke(folder, "timers", "show", TIMERS[1]).exit_code == 2
    assert TIMERS[2] in invoke(folder, "timers", "list").stdout


def test_messages_are_shown_moved_and_cancelled(folder: Path) -> None:
    """By the ids that they were sent with."""
    shown = answer(folder, "relay", "show", MESSAGES[0])
    assert (shown["messageKey"], shown["messageValue"]) == ({"text": "k"}, {"text": "v"})
    assert "hourhand-relay-out" in invoke(folder, "relay", "show", MESSAGES[0]).stdout
    moved = answer(folder, "relay", "reschedule", MESSAGES[0], "--in", "5h")
    assert moved["outcomes"] == {"applied": 1}
    assert answer(folder, "relay", "show", MESSAGES[0])["due"] > shown["due"]
    refused = invoke(folder, "relay", "cancel", *MESSAGES[:2])
    assert (refused.exit_code, "(2)" in refused.stderr) == (2, True)

    told = invoke(folder, "relay", "cancel", *MESSAGES[:2], "unknown", "--yes")

    assert (told.exit_code, told.stdout.strip()) == (2, "2: cancelled, and will not be sent")
    assert last_entry(folder) == ("relay cancel", "2 messages", "applied 2")
    first = answer(folder, "relay", "pending", "--limit", "1")
    assert [each["id"] for each in first["messages"]] == [MESSAGES[2]]
    rest = answer(folder, "relay", "pending", "--after", first["nextAfter"])["messages"]
    assert [each["id"] for each in rest] == [MESSAGES[3]]
