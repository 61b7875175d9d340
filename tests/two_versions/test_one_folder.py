"""One folder that nodes of both versions use in turn, as an upgrade and a way back do."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scheduler import SchedulerClient, Settings, Task
from tests.tidy.source import ROOT
from tests.two_versions.versions import NodeProcess, notes_in, unpacked, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the version before kinds is unpacked."""
    return unpacked(tmp_path_factory.mktemp("old"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Name a folder that no other test uses."""
    return Settings(embedded={"folder": tmp_path / "data"})


@pytest.fixture
def client(settings: Settings) -> Iterator[SchedulerClient]:
    """Open a client of today's version."""
    with SchedulerClient(settings) as client:
        yield client


def schedule(client: SchedulerClient, key: str, due_in_s: float, kind: str | None = None) -> None:
    """Schedule one task, whose uniqueness key tells it from all others."""
    client.schedule_task(
        Task(
            ordering_id=f"customer-{key}",
            scheduled_time=datetime.now(UTC) + timedelta(seconds=due_in_s),
            uniqueness_key=key,
            data={"key": key},
            kind=kind,
        )
    ).result(timeout=30)


def test_an_upgrade_and_the_way_back_lose_nothing_and_run_nothing_by_another_executor(
    old: Path, settings: Settings, client: SchedulerClient, tmp_path: Path
) -> None:
    """Nodes first, then kinds; on the way back no task with a kind is open."""
    with NodeProcess("old", old, settings, tmp_path) as node:
        schedule(client, "ran by the old", 0)
        schedule(client, "left by the old", 12)
        wait_for(tmp_path, ["ran by the old"])
        node.stop()
    with NodeProcess("new", ROOT, settings, tmp_path, "mail") as node:
        schedule(client, "mail", 0, "mail")
        schedule(client, "left by the new", 20)
        wait_for(tmp_path, ["left by the old", "mail"])
        node.stop()
    with NodeProcess("back", old, settings, tmp_path) as node:
        wait_for(tmp_path, ["left by the new"])
        node.stop()

    assert [(each.node, each.executor, each.key) for each in notes_in(tmp_path)] == [
        ("old", "", "ran by the old"),
        ("new", "mail", "mail"),
        ("new", "", "left by the old"),
        ("back", "", "left by the new"),
    ]
    assert all(each.data == {"key": each.key} for each in notes_in(tmp_path))


def test_a_node_from_before_kinds_runs_every_kind_by_its_one_executor(
    old: Path, settings: Settings, client: SchedulerClient, tmp_path: Path
) -> None:
    """Why kinds come last: it ignores a record's kind, and takes a row's for data."""
    with NodeProcess("new", ROOT, settings, tmp_path, "mail") as node:
        schedule(client, "in a row", 15, "mail")
        schedule(client, "ready", 0)
        wait_for(tmp_path, ["ready"])
        node.stop()
    with NodeProcess("old", old, settings, tmp_path) as node:
        schedule(client, "in the log", 0, "mail")
        ran = wait_for(tmp_path, ["in the log", "in a row"])
        node.stop()

    assert ran["in the log"].node == ran["in a row"].node == "old"
    assert ran["in the log"].data == {"key": "in the log"}
    assert ran["in a row"].data == {"key": "in a row", "hourhand.kind": "mail"}
