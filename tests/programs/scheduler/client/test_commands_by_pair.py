"""Commands by pair right behind their task, at every door, over the embedded folder."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from hourhand import (
    CommandOutcome,
    Hourhand,
    Scheduler,
    SchedulerClient,
    Settings,
    Task,
    TaskExecutor,
    TaskState,
)
from hourhand.scheduler.admin.app import PREFIX
from hourhand.scheduler.cli.http_running import AdminRunning
from hourhand.scheduler.configuration.door_settings import AdminSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of

WAIT_S = 120.0
TASKS = 40
IN_AN_HOUR = timedelta(hours=1)
TOKEN = "a-token-of-an-operator"

app = Hourhand()


@app.task("mail")
def mail(of: dict[str, str]) -> None:
    """Do nothing."""


def _settings(folder: Path) -> Settings:
    return Settings(
        embedded=EmbeddedSettings(folder=folder),
        topic=TopicSettings(partitions=2),
        admin=AdminSettings(
            port=0, requests_per_s_max=0, write_tokens={"tester": SecretStr(TOKEN)}
        ),
    )


def _a_task(uniqueness_key: str, due_in: timedelta = IN_AN_HOUR) -> Task:
    return Task(
        ordering_id="c 7",
        scheduled_time=datetime.now(UTC) + due_in,
        uniqueness_key=uniqueness_key,
    )


def test_a_cancel_by_pair_behind_an_acknowledged_schedule_never_misses(tmp_path: Path) -> None:
    """Forty times on a node that runs, with no pause in between."""
    with Scheduler(_settings(tmp_path), executors=app) as node:
        commands = []
        for number in range(TASKS):
            pair = ("c", f"k{number}")
            mail.schedule({}, ordering_id=pair[0], after=IN_AN_HOUR, uniqueness_key=pair[1]).result(
                WAIT_S
            )
            commands.append(node.cancel_task(pair).result(WAIT_S))
        outcomes = [node.wait_outcome(each, WAIT_S) for each in commands]

        assert {each.outcome for each in outcomes} == {CommandOutcome.APPLIED}
        states = {each.key: each.state for each in node.list_tasks(ordering_id="c")}
        assert states == {each.key: TaskState.CANCELLED for each in outcomes}


def test_with_no_node_a_command_by_pair_waits_in_the_log(tmp_path: Path) -> None:
    """POST, then DELETE, in coroutines; the node that comes resolves both in their order."""

    async def main() -> None:
        await client.schedule_task(_a_task("cancelled", timedelta(0)))
        cancelled = await client.cancel_task(("c 7", "cancelled"))
        await client.schedule_task(_a_task("moved"))
        moved = await client.reschedule_task(("c 7", "moved"), datetime.now(UTC))
        unknown = await client.drop_task(("c 7", "never"))
        assert await client.aio.outcome(cancelled) is None

        with Scheduler(settings, executor=Noting):
            outcomes = [
                (await client.aio.wait_outcome(each, WAIT_S)).outcome
                for each in (cancelled, moved, unknown)
            ]
            found = await client.aio.wait_outcome(moved, WAIT_S)
            assert found.new_key is not None
            assert (await client.aio.wait_task(found.new_key, WAIT_S)).state is TaskState.SUCCESS

        applied = CommandOutcome.APPLIED
        assert outcomes == [applied, applied, CommandOutcome.UNKNOWN_PAIR]
        assert ran == ["moved"]

    ran: list[str] = []

    class Noting(TaskExecutor):
        def execute(self, task: Task) -> None:
            ran.append(task.uniqueness_key)

    settings = _settings(tmp_path)
    with SchedulerClient(settings) as client:
        asyncio.run(main())


def test_the_command_line_takes_a_pair(tmp_path: Path) -> None:
    """In the form that a key ends with."""
    settings = settings_of(tmp_path)
    with Scheduler(settings, executors=app) as node:
        node.schedule_task(_a_task("a/b")).result(WAIT_S)
        moved = invoke(tmp_path, "reschedule", "c%207,a%2Fb", "--in", "2h")
        assert moved.exit_code == 0
        said, _, new_key = moved.stdout.strip().rpartition(" ")
        assert said == "moved; its key is now" and new_key.endswith("Z,c%207,a%2Fb")

        cancelled = answer(tmp_path, "cancel", "c%207,a%2Fb")
        assert (cancelled["outcome"], cancelled["key"]) == ("applied", new_key)
        assert cancelled["receipt"]["key"] == "c%207,a%2Fb"
        closed = invoke(tmp_path, "cancel", "c%207,a%2Fb")
        assert closed.exit_code == 2 and "already closed" in closed.stdout
        unknown = invoke(tmp_path, "retry", "c%207,never")
        assert unknown.exit_code == 2 and "no task has both ids" in unknown.stdout
        assert "hourhand list --ordering-id 'c 7'" in unknown.stderr

        keys = [
            str(node.schedule_task(_a_task("twice", hours * IN_AN_HOUR)).result(WAIT_S).key)
            for hours in (1, 2)
        ]
        several = invoke(tmp_path, "drop", "c%207,twice")
        assert several.exit_code == 2
        assert several.stdout.splitlines()[1:] == keys


class _Api:
    """The admin API of a running installation."""

    def __init__(self, running: AdminRunning) -> None:
        self._address = running.address

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return status and answer."""
        answered = httpx.post(
            f"{self._address}{PREFIX}{path}",
            json=body,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=WAIT_S,
        )
        return answered.status_code, answered.json()

    def act(self, action: str, *keys: str, **more: Any) -> tuple[int, Any]:
        """Act on what the keys name, and wait for outcomes."""
        return self.post(f"/actions/{action}", {"keys": keys, "waitS": 30, **more})

    def schedule(self, task: Task) -> str:
        """Return the key of a task that was accepted."""
        body = {
            "orderingId": task.ordering_id,
            "scheduledTime": task.scheduled_time.isoformat(),
            "uniquenessKey": task.uniqueness_key,
        }
        key = self.post("/tasks", body)[1]["receipt"]["key"]
        assert isinstance(key, str)
        return key


@pytest.fixture
def api(tmp_path: Path) -> Iterator[_Api]:
    """An installation with a node and an admin API."""
    settings = _settings(tmp_path)
    with Scheduler(settings, executors=app), AdminRunning(settings) as running:
        yield _Api(running)


def test_the_admin_api_takes_a_pair(api: _Api) -> None:
    """One that names no task is not found, and one that names several is a conflict."""
    key = api.schedule(_a_task("one"))
    twice = [api.schedule(_a_task("twice", hours * IN_AN_HOUR)) for hours in (1, 2)]

    status, done = api.act("cancel", "c%207,one")
    assert (status, done["outcomes"]) == (200, {"applied": 1})
    (told,) = done["results"]
    assert (told["key"], told["receipt"]["key"], told["task"]) == ("c%207,one", "c%207,one", key)

    status, refused = api.act("drop", "c%207,never")
    assert (status, refused["code"]) == (404, "task-not-found")
    status, refused = api.act("run-now", "c%207,twice")
    assert (status, refused["code"]) == (409, "several-tasks")
    assert all(each in refused["detail"] for each in twice)
    assert api.act("cancel", "only-one-word")[0] == 400
    assert api.act("cancel", "c%207,twice", dryRun=True)[1]["first"] == ["c%207,twice"]


def test_the_admin_api_tells_of_each_of_many_names(api: _Api) -> None:
    """One answer has one status, so the report says what each came to."""
    key = api.schedule(_a_task("one"))
    twice = [api.schedule(_a_task("twice", hours * IN_AN_HOUR)) for hours in (1, 2)]

    status, mixed = api.act("drop", "c%207,never", "c%207,twice", key)

    assert status == 200
    assert mixed["outcomes"] == {"unknown_pair": 1, "several_tasks": 1, "applied": 1}
    assert mixed["results"][1]["several"] == twice
    assert all("task" not in each for each in mixed["results"])
