"""Opening a file: what is refused, and what the message says."""

import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import (
    FolderDamaged,
    LogUnavailable,
    SchemaMissing,
    StoreUnavailable,
)
from hourhand.scheduler.adapters.embedded.connection import open_connection
from hourhand.scheduler.adapters.embedded.folder import log_file, store_file
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.adapters.embedded.writer import EmbeddedWriter
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, settings_of


def test_a_new_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    """The default works without any preparation."""
    folder = tmp_path / "a" / "b"
    open_connection(store_file(folder)).close()

    assert (folder / "store.db").is_file()


@pytest.mark.parametrize("there", ["", "a", "a/b"])
def test_p1_each_name_on_the_way_to_a_file_is_synced_before_anybody_may_write_to_it(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the folder is there, also where a process made it and died at once."""
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    synced: set[Path] = set()
    real, folder = os.fsync, tmp_path / "a" / "b"

    def fsync(descriptor: int) -> None:
        real(descriptor)
        found = os.fstat(descriptor).st_ino
        for each in (tmp_path, tmp_path / "a", folder):
            if each.is_dir() and each.stat().st_ino == found:
                synced.update(each.iterdir())
        with sqlite3.connect(folder / "log.db") as beside:
            assert beside.execute("PRAGMA user_version").fetchone() == (0,)
        beside.close()

    monkeypatch.setattr(os, "fsync", fsync)
    open_connection(log_file(folder)).close()

    assert {tmp_path / "a", folder, folder / "log.db"} <= synced


def test_a_folder_that_cannot_be_one_is_named_with_its_setting(tmp_path: Path) -> None:
    """A file has its name, or a folder above it is a file."""
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreUnavailable, match=r"embedded\.folder must name a folder"):
            open_connection(store_file(folder))


def test_many_may_make_the_same_folder_at_once(tmp_path: Path) -> None:
    """Whoever comes second finds it made, not half made."""
    openers = 6

    def open_together(folder: Path) -> None:
        barrier.wait(WAIT_S)
        open_connection(store_file(folder)).close()

    with ThreadPoolExecutor(openers) as pool:
        for number in range(30):
            barrier = threading.Barrier(openers)
            folder = tmp_path / str(number)
            list(pool.map(open_together, [folder] * openers))


def test_a_file_can_be_opened_while_others_close_it(tmp_path: Path) -> None:
    """The last one that closes it removes the write-ahead file, at any moment."""
    file = store_file(tmp_path)
    open_connection(file).close()
    ahead, is_over = tmp_path / "store.db-wal", threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            ahead.touch()
            ahead.unlink(missing_ok=True)

    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(come_and_go)
        try:
            for _ in range(300):
                open_connection(file).close()
        finally:
            is_over.set()
        others.result(WAIT_S)


def test_a_committed_row_is_on_the_disk_before_the_commit_returns(tmp_path: Path) -> None:
    """Every connection syncs the write-ahead log at each commit."""
    connection = open_connection(store_file(tmp_path))
    modes = [
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    ]
    connection.close()

    assert modes == ["wal", 2]


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Downgrading by accident must not destroy anything."""
    file = store_file(tmp_path)
    connection = open_connection(file)
    connection.execute("PRAGMA user_version=99")
    connection.close()

    with pytest.raises(SchemaMissing, match=r"store\.db has schema version 99.*upgrade"):
        open_stores(settings_of(tmp_path))


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Not one table is added to it."""
    foreign = sqlite3.connect(tmp_path / "log.db")
    foreign.execute("CREATE TABLE mine (a)")
    foreign.commit()

    with pytest.raises(LogUnavailable, match=r"choose another embedded\.folder"):
        open_connection(log_file(tmp_path))
    assert foreign.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]
    foreign.close()


def test_garbage_is_no_file_of_ours(tmp_path: Path) -> None:
    """The message names the file and what to do."""
    (tmp_path / "log.db").write_bytes(b"garbage " * 1_000)

    with pytest.raises(FolderDamaged, match=r"log\.db is damaged.*backup"):
        EmbeddedWriter(settings_of(tmp_path))


def test_a_truncated_file_is_noticed(tmp_path: Path) -> None:
    """A file cut in the middle answers nothing, rather than half of what it held."""
    settings = settings_of(tmp_path)
    writer = EmbeddedWriter(settings)
    for number in range(500):
        last = writer.append(0, b"k", b"%d" % number * 100)
    last.result(WAIT_S)
    writer.close()
    path = tmp_path / "log.db"
    os.truncate(path, path.stat().st_size // 2)

    with pytest.raises(FolderDamaged, match="damaged"):
        EmbeddedWriter(settings)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """What the operating system says is passed on, with the path."""
    (tmp_path / "data").write_text("no folder", encoding="utf-8")

    with pytest.raises(StoreUnavailable, match=r"data.store\.db is not available"):
        open_stores(settings_of(tmp_path / "data"))
