"""A damaged folder is whole or refused: never a driver's error, never less than was acknowledged.

Every file is emptied, cut, removed, and has single bits flipped at places drawn from a seed.
The one damage that nobody can notice has a test of its own, and a line in docs/promises.md.
"""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.errors import FolderDamaged, OperatorError
from tests.unit.scheduler.adapters.embedded.contents import PARTITIONS, READ, contents, fill

FLIPS = 40
"""Of each file and kind of folder."""
DATABASES = ("log.db", "store.db")
FOLDERS = ("stopped", "killed")
PAGE_BYTES = 4096
_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24


class Folders:
    """One folder of a node that stopped, one of a node that was killed, and what they hold."""

    def __init__(self, place: Path) -> None:
        self._place = place
        fill(place / "stopped", place / "killed")
        self.expected = {name: contents(self.copy(name)) for name in FOLDERS}

    def copy(self, name: str) -> Path:
        """Return a fresh copy to damage."""
        shutil.rmtree(self._place / "copy", ignore_errors=True)
        ignored = shutil.ignore_patterns("node.bell")
        return shutil.copytree(self._place / name, self._place / "copy", ignore=ignored)

    def is_refused(self, name: str, folder: Path) -> bool:
        """True if a damaged copy is refused; fails where other than what was there is found."""
        try:
            found = contents(folder)
        except OperatorError as error:
            complaint = str(error)
        else:
            assert found == self.expected[name]
            return False
        # It names the file, or the two numbers that do not agree, and says what to do.
        assert f"{folder}/" in complaint or "partitions" in complaint, complaint
        assert any(word in complaint for word in ("backup", "choose", "use a topic")), complaint
        return True


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The folders to damage copies of."""
    return Folders(tmp_path_factory.mktemp("folders"))


def flip(path: Path, rng: random.Random, within_bytes: int | None = None) -> str:
    """Flip one bit of a file, or of its first bytes; return which."""
    with path.open("r+b") as file:
        place, bit = rng.randrange(within_bytes or path.stat().st_size), rng.randrange(8)
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))
    return f"bit {bit} of byte {place} of {path.name}"


def live_bytes(ahead: Path) -> int:
    """Return how much of a write-ahead file counts: behind it stand frames that were moved into
    the database before, as their salts say.
    """
    content = ahead.read_bytes()
    salts, end = content[16:24], _WAL_HEADER_BYTES
    while content[end + 8 : end + 16] == salts:
        end += _FRAME_HEADER_BYTES + PAGE_BYTES
    return end


def refused_flips(
    folders: Folders,
    name: str,
    file: str,
    is_refused: Callable[[str, Path], bool],
    within_bytes: int | None = None,
) -> int:
    """Flip bits, one in each copy of a folder; return how many of the copies are refused."""
    rng = random.Random(f"{name} {file}")
    refused = 0
    for _ in range(FLIPS):
        folder = folders.copy(name)
        what = flip(folder / file, rng, within_bytes)
        try:
            refused += is_refused(name, folder)
        except BaseException as error:
            error.add_note(f"{name}: {what}")
            raise
    return refused


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("file", DATABASES)
def test_a_flipped_bit_is_harmless_or_told(folders: Folders, name: str, file: str) -> None:
    """In a header, a page, a key, a value, wherever; after a kill most of it stands ahead."""
    refused = refused_flips(folders, name, file, folders.is_refused)
    assert refused > FLIPS / 6 or name == "killed"


ROWS = {
    "a record": ("log.db", b"record 100 "),
    "a dead letter": ("log.db", b"put aside 3 "),
    "the data of a task": ("store.db", b"data 20 "),
    "the data of a moved task": ("store.db", b"moved data"),
    "a straggler": ("store.db", b"blocked"),
    "an error of an attempt": ("store.db", b"Crash"),
    "a segment of completions": ("store.db", b"in segment 1"),
}


@pytest.mark.parametrize("what", ROWS)
def test_a_flipped_bit_in_a_row_is_told(folders: Folders, what: str) -> None:
    """SQLite finds nothing wrong with a value that is another one."""
    name, text = ROWS[what]
    folder = folders.copy("stopped")
    content = bytearray((folder / name).read_bytes())
    place = content.find(text)
    assert place > 0
    while place > 0:
        # What was removed may stand in a free place of a page, too.
        content[place] ^= 1
        place = content.find(text)
    (folder / name).write_bytes(content)

    with pytest.raises(FolderDamaged, match=rf"{name} is damaged: .*backup"):
        contents(folder)


@pytest.mark.parametrize("file", DATABASES)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_zeroed_page_is_harmless_or_told(folders: Folders, name: str, file: str) -> None:
    """Whatever stood in it; after a kill the page may stand in the write-ahead file as well."""
    pages = (folders.copy(name) / file).stat().st_size // PAGE_BYTES
    refused = 0
    for page in range(pages):
        folder = folders.copy(name)
        with (folder / file).open("r+b") as damaged:
            damaged.seek(page * PAGE_BYTES)
            damaged.write(bytes(PAGE_BYTES))
        refused += folders.is_refused(name, folder)

    assert refused > pages / 4 or name == "killed"


def test_a_flipped_bit_ahead_of_the_store_is_told(folders: Folders) -> None:
    """SQLite forgets what stands behind it; the log knows how far the store was at its last commit
    of offsets, which is the last thing that was written: so every one is told.
    """
    file = "store.db-wal"
    live = live_bytes(folders.copy("killed") / file)

    refused = refused_flips(folders, "killed", file, folders.is_refused, live)

    assert live > PAGE_BYTES and refused == FLIPS


def test_a_flipped_bit_ahead_of_the_log_loses_no_record_that_was_read(folders: Folders) -> None:
    """Records that no node has read yet may be lost with what SQLite forgets, but not some of
    them: all up to one.  This is the one loss that is not told.
    """

    def is_refused(name: str, folder: Path) -> bool:
        try:
            return folders.is_refused(name, folder)
        except AssertionError:
            found = contents(folder)
        for partition in range(PARTITIONS):
            all_values = values(folders.expected[name], partition)
            left = values(found, partition)
            assert left == all_values[: len(left)]
            assert len(left) >= READ
        return False

    assert refused_flips(folders, "killed", "log.db-wal", is_refused) > FLIPS / 4


def values(found: dict[str, object], partition: int) -> list[bytes | None]:
    """Return the values of a partition's records."""
    records = found["records"]
    assert isinstance(records, list)
    return [
        record.value
        for record in records
        if isinstance(record, LogRecord) and record.partition == partition
    ]


@pytest.mark.parametrize("kept", ["nothing", "half", "one page", "all but a page"])
@pytest.mark.parametrize("file", DATABASES)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_truncated_file_is_told(folders: Folders, name: str, file: str, kept: str) -> None:
    """Also one that was emptied, which SQLite takes for a new one."""
    folder = folders.copy(name)
    size_bytes = (folder / file).stat().st_size
    kept_bytes = {"nothing": 0, "half": size_bytes // 2, "one page": PAGE_BYTES}
    os.truncate(folder / file, kept_bytes.get(kept, size_bytes - PAGE_BYTES))

    # After a kill the lost page may stand in the write-ahead file, which was to replace it.
    assert folders.is_refused(name, folder) or name == "killed"


@pytest.mark.parametrize("kept", [0.0, 0.25, 0.5])
def test_a_truncated_file_ahead_of_the_store_is_told(folders: Folders, kept: float) -> None:
    """What is left is a store as it once was, which SQLite finds nothing wrong with."""
    folder = folders.copy("killed")
    ahead = folder / "store.db-wal"
    os.truncate(ahead, int(live_bytes(ahead) * kept))

    with pytest.raises(
        FolderDamaged, match=r"store\.db is damaged: it .*transactions, but log\.db"
    ):
        contents(folder)


@pytest.mark.parametrize("file", DATABASES)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_file_that_is_gone_is_told(folders: Folders, name: str, file: str) -> None:
    """The other one knows that it was there, and nothing is made in its place."""
    folder = folders.copy(name)
    (folder / file).unlink()

    with pytest.raises(FolderDamaged, match=rf"{file} is damaged: it is missing or empty.*backup"):
        contents(folder)
    assert not (folder / file).exists()


@pytest.mark.parametrize("file", ["log.db-shm", "store.db-shm", "node.lock"])
def test_what_holds_nothing_may_be_damaged(folders: Folders, file: str) -> None:
    """The index of the write-ahead file is recreated, and nobody believes the lock's text."""
    for damage in (lambda path: os.truncate(path, 0), lambda path: path.write_bytes(b"x" * 9_999)):
        folder = folders.copy("killed")
        damage(folder / file)
        assert not folders.is_refused("killed", folder)
