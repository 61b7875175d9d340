"""One folder that nodes of both versions use in turn, as an upgrade and a way back do."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hourhand import SchedulerClient, Settings, Task
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.embedded.connection import open_connection, version_of
from hourhand.scheduler.adapters.embedded.folder import store_file
from hourhand.scheduler.adapters.embedded.schema import STORE
from hourhand.scheduler.configuration.settings import EmbeddedSettings
from tests.tidy.source import ROOT
from tests.two_versions.versions import NodeProcess, notes_in, unpacked, wait_for

pytestmark = pytest.mark.long


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


def due_now(keys: Sequence[str]) -> list[Task]:
    """Return a task for each uniqueness key, all due at once."""
    now = datetime.now(UTC)
    return [
        Task(
            ordering_id=f"customer-{key}", scheduled_time=now, uniqueness_key=key, data={"key": key}
        )
        for key in keys
    ]


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


def test_a_folder_with_segments_opens_again_once_they_are_rows(old: Path, tmp_path: Path) -> None:
    """Until then the old version refuses it; afterwards it knows all that was done."""
    settings = Settings(
        embedded={"folder": tmp_path / "data"},
        topic={"partitions": 1},
        client={"grace_ms": 600_000},
    )
    store = store_file(settings.embedded.folder)
    many = [f"{number:04d}" for number in range(2_000)]
    with SchedulerClient(settings) as client:
        tasks = due_now(many)
        client.schedule_tasks(tasks).raise_if_rejected()
        schedule(client, "left by the new", 25)
        with NodeProcess("new", ROOT, settings, tmp_path) as node:
            wait_for(tmp_path, many)
            node.stop()
        with closing(open_connection(store)) as connection:
            assert version_of(connection) == STORE.version_max, "no segment was written"
        refused = NodeProcess("refused", old, settings, tmp_path)
        with pytest.raises(AssertionError, match="schema version"):
            refused.stop()
        refused.__exit__()

        as_rows = Settings(
            embedded=EmbeddedSettings(folder=settings.embedded.folder, completion_segments=False)
        )
        wiring.migrate(as_rows)
        client.schedule_tasks(tasks).raise_if_rejected()
        schedule(client, "ran by the old", 0)
        with NodeProcess("back", old, settings, tmp_path) as node:
            wait_for(tmp_path, ["left by the new", "ran by the old"])
            node.stop()

    by_old = ["left by the new", "ran by the old"]
    assert sorted(note.key for note in notes_in(tmp_path)) == [*many, *by_old]
    assert sorted(note.key for note in notes_in(tmp_path) if note.node == "back") == by_old


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
