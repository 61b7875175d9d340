"""The two files of a folder: which of them belong together, and which came from elsewhere."""

import contextlib
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hourhand.actors.model.operations.ownership import Watermark
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.values.errors import FolderDamaged
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded.connection import open_connection
from hourhand.scheduler.adapters.embedded.dead_letters import EmbeddedLogView
from hourhand.scheduler.adapters.embedded.folder import log_file, store_file
from hourhand.scheduler.adapters.embedded.log import EmbeddedLog
from hourhand.scheduler.adapters.embedded.pair import check_pair
from hourhand.scheduler.adapters.embedded.schema import LOG, STORE
from hourhand.scheduler.adapters.embedded.seal import sealed
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.adapters.embedded.writer import EmbeddedWriter
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, Listener, settings_of


def run_a_node(folder: Path) -> None:
    """Have a node and a client use a folder: one record, read, stored and committed."""
    settings = settings_of(folder)
    with contextlib.ExitStack() as closing:
        writer = EmbeddedWriter(settings)
        closing.callback(writer.close)
        stores = open_stores(settings)
        closing.callback(stores.close)
        log = EmbeddedLog(settings, SystemClock())
        closing.callback(log.close)
        offset = writer.append(0, b"k", b"v").result(WAIT_S).offset
        log.subscribe(Listener())
        log.poll(0, 0)
        epoch = stores.ownership.claim(0, 5).result(WAIT_S).epoch
        reached = Watermark(5, 5, offset + 1)
        stores.ownership.save_watermark(0, epoch, reached).result(WAIT_S)
        log.commit({0: offset + 1})
        assert log._committing is not None
        log._committing.result(WAIT_S)


def identities(folder: Path) -> list[int | None]:
    """Return what log and store hold."""
    found = []
    for name in ("log.db", "store.db"):
        with contextlib.closing(sqlite3.connect(folder / name)) as connection:
            found += connection.execute("SELECT identity FROM pair").fetchone()
    return found


def test_the_files_of_a_used_folder_know_each_other(tmp_path: Path) -> None:
    """And go on doing so."""
    run_a_node(tmp_path)
    first = identities(tmp_path)
    run_a_node(tmp_path)

    assert first[0] is not None
    assert identities(tmp_path) == [first[0], first[0]]


def test_a_folder_that_only_clients_used_waits_for_its_store(tmp_path: Path) -> None:
    """A log without a store is how every folder begins."""
    for _ in range(2):
        writer = EmbeddedWriter(settings_of(tmp_path))
        writer.append(0, b"k", b"v").result(WAIT_S)
        writer.close()

    assert not (tmp_path / "store.db").exists()
    run_a_node(tmp_path)


def test_files_of_two_folders_are_refused(tmp_path: Path) -> None:
    """By whoever opens either: a client would append to a log that nobody may read."""
    for name in ("a", "b"):
        run_a_node(tmp_path / name)
    shutil.copy(tmp_path / "b" / "log.db", tmp_path / "a" / "log.db")
    settings = settings_of(tmp_path / "a")

    for opening in (EmbeddedWriter, open_stores, EmbeddedLogView, check_pair):
        with pytest.raises(FolderDamaged, match=r"log\.db is damaged: it does not belong to"):
            opening(settings)
    with pytest.raises(FolderDamaged):
        EmbeddedLog(settings, SystemClock())


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("log.db", r"log\.db is damaged: partition 0 ends at 1"), ("store.db", r"store\.db is damag")],
)
def test_an_older_copy_of_one_file_is_refused(tmp_path: Path, name: str, complaint: str) -> None:
    """Restoring one of the two is not a backup."""
    run_a_node(tmp_path)
    shutil.copy(tmp_path / name, tmp_path / "kept")
    run_a_node(tmp_path)
    shutil.copy(tmp_path / "kept", tmp_path / name)

    with pytest.raises(FolderDamaged, match=complaint):
        EmbeddedWriter(settings_of(tmp_path))


def test_an_older_copy_of_both_is_a_backup(tmp_path: Path) -> None:
    """They agree with each other."""
    run_a_node(tmp_path / "folder")
    shutil.copytree(tmp_path / "folder", tmp_path / "kept", ignore=shutil.ignore_patterns("*.bell"))
    run_a_node(tmp_path / "folder")
    shutil.rmtree(tmp_path / "folder")
    shutil.copytree(tmp_path / "kept", tmp_path / "folder")

    run_a_node(tmp_path / "folder")


def test_a_folder_of_the_first_version_is_paired(tmp_path: Path) -> None:
    """Its rows have no checksums, and are read."""
    for name, schema in (("log.db", LOG), ("store.db", STORE)):
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as connection:
            for statement in schema.scripts[0]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={schema.application_id}")
            connection.execute("PRAGMA user_version=1")
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        connection.execute("INSERT INTO record VALUES (0, 5, x'01', x'02', NULL)")
        connection.execute("INSERT INTO log_end VALUES (0, 1)")
        connection.commit()
    run_a_node(tmp_path)

    log = EmbeddedLog(settings_of(tmp_path), SystemClock())
    log.subscribe(Listener())
    log.poll(0, 0)
    log.start(0, None)
    log.seek(0, 0)
    assert [record.value for record in log.poll(10, 0).records] == [b"\x02", b"v"]
    log.close()


def test_outcomes_of_the_fourth_version_are_read(tmp_path: Path) -> None:
    """Their checksums cover a column less."""
    outcome = (0, 7, "applied", 1, "id", "", 2, "id", "", 1)
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        for script in STORE.scripts[:4]:
            for statement in script:
                connection.execute(statement)
        insert = "INSERT INTO command_outcome VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        connection.execute(insert, sealed(outcome))
        connection.execute(f"PRAGMA application_id={STORE.application_id}")
        connection.execute("PRAGMA user_version=4")
        connection.commit()
    stores = open_stores(settings_of(tmp_path))

    found = stores.ownership.find_outcome(0, 7).result(WAIT_S)

    stores.close()
    key = TaskKey(1, "id", "")
    moved_to = TaskKey(2, "id", "")
    assert found == RecordedOutcome(CommandOutcome.APPLIED, key, moved_to)


def test_many_may_pair_the_same_folder_at_once(tmp_path: Path) -> None:
    """Whoever is slower takes what the faster one drew."""
    openers = 6

    def check_together(folder: Path) -> None:
        barrier.wait(WAIT_S)
        check_pair(settings_of(folder))

    with ThreadPoolExecutor(openers) as pool:
        for number in range(20):
            barrier = threading.Barrier(openers)
            folder = tmp_path / str(number)
            open_connection(log_file(folder)).close()
            open_connection(store_file(folder)).close()
            list(pool.map(check_together, [folder] * openers))
            of_log, of_store = identities(folder)
            assert of_log == of_store is not None
