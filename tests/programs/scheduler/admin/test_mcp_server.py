"""``hourhand mcp`` as an assistant meets it: asked by the protocol's own client, over stdio."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from hourhand import RetryPolicy, Scheduler, Task, TaskExecutor
from hourhand.scheduler.tasks.task_state import TaskState
from tests.unit.scheduler.cli.commands import PARTITIONS, settings_of
from tests.waiting import until

Asked = Callable[..., tuple[bool, Any]]


class Refuse(TaskExecutor):
    """Fails for good."""

    retry = RetryPolicy(attempts_max=1)

    def execute(self, task: Task) -> None:
        """Fail."""
        raise ValueError("nothing to pay")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an installation with a task that failed, one that waits, and a schedule."""
    folder = tmp_path_factory.mktemp("mcp") / "data"
    now = datetime.now(UTC)
    with Scheduler(settings_of(folder), executor=Refuse) as node:
        for name, in_s in (("failed", 0), ("waits", 600)):
            at = now + timedelta(seconds=in_s)
            task = Task(
                ordering_id=name, scheduled_time=at, uniqueness_key="1", data={"secret": name}
            )
            node.schedule_task(task).result(timeout=60)
        node.schedule_recurring("nightly", cron="0 3 * * *").result(timeout=60)
        until(lambda: node.find_recurring("nightly") is not None)
        until(lambda: [each.state for each in node.list_tasks(ordering_id="failed")] == [_FAILED])
    return folder


_FAILED = TaskState.FAILURE


def talk(folder: Path, *calls: tuple[str, dict[str, Any]], **settings: str) -> list[Any]:
    """Return the tools, and whether each call is refused with what it answers."""
    chosen = {"embedded.folder": str(folder), "topic.partitions": str(PARTITIONS), **settings}
    given = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "hourhand", "mcp", *given], cwd=folder.parent
    )

    async def ask() -> list[Any]:
        async with Client(program) as client:
            told: list[Any] = [(await client.list_tools()).tools]
            for name, arguments in calls:
                answer = await client.call_tool(name, arguments)
                (content,) = answer.content
                assert content.type == "text"
                told.append(
                    (
                        answer.is_error,
                        json.loads(content.text) if content.text[:1] == "{" else content.text,
                    )
                )
            return told

    return asyncio.run(asyncio.wait_for(ask(), 120))


def test_an_assistant_reads_what_the_admin_api_answers(folder: Path) -> None:
    """Each path that reads is a tool, nothing that acts is; the API judges the values."""
    tools, *told = talk(
        folder,
        ("status", {}),
        ("tasks", {"state": ["failure"], "from": _ago(1), "to": _ago(-1)}),
        ("tasks_open", {"limit": 5}),
        ("dead_letters", {"limit": 5}),
        ("recurring", {}),
        ("limits", {}),
        ("task", {"key": "nonsense"}),
        ("task", {"keys": "x"}),
        ("actions_retry", {}),
    )
    by_name = {each.name: each for each in tools}
    assert {"status", "tasks", "task", "dead_letters", "recurring", "limits"} <= by_name.keys()
    assert not any(word in name for name in by_name for word in ("action", "replay", "groups"))
    assert all(each.annotations.read_only_hint for each in tools)
    assert by_name["task"].input_schema["required"] == ["key"]
    assert "$ref" not in json.dumps([each.input_schema for each in tools])

    (bad, status), (_, failed), (_, still), letters, (_, recurring), limits, *refused = told
    assert not bad and "verdict" in status
    assert [each["orderingId"] for each in failed["tasks"]] == ["failed"]
    assert {each["orderingId"] for each in still["tasks"]} == {"waits", "nightly"}
    assert not letters[0] and not limits[0]
    assert [each["name"] for each in recurring["recurring"]] == ["nightly"]
    assert [is_error for is_error, _ in refused] == [True] * 3
    assert refused[0][1]["code"] == "invalid-key"
    assert "task has no argument 'keys'" in refused[1][1] and "key" in refused[1][1]
    assert "there is no tool 'actions_retry'" in refused[2][1]


def test_data_that_is_hidden_is_not_told(folder: Path) -> None:
    """By the setting of the admin API."""
    asked = ("tasks", {"state": ["failure"], "from": _ago(1), "to": _ago(-1), "data": True})
    _, (_, shown) = talk(folder, asked)
    _, (_, hidden) = talk(folder, asked, **{"admin.show_data": "false"})

    assert "secret" in json.dumps(shown) and "secret" not in json.dumps(hidden)


def _ago(hours: int) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
