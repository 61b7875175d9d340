"""A disk that keeps what was synced, and of the rest what a draw says.

It decides which states a disk may be in after a power cut; what writes to it and what must be found
on it is not its concern.

- A sync of a file makes its content and its size durable; a sync of a folder makes its names so.
- What was not synced may be there or not, in any order: for each block of 4,096 bytes the disk has
  one of the contents that the block had since the last sync.  A block may be torn: then that holds
  for each of its sectors of 512 bytes.  Bytes that were not written keep what was synced, as SQLite
  assumes ("powersafe overwrite").
- A file has one of the sizes that it had; where nothing was written in it are zeros, or what
  another file had left there.
- A name that was made, changed or removed is so, or as it was; a rename takes place whole.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.power_cut.trace import Event

BLOCK_BYTES, SECTOR_BYTES = 4096, 512
_TORN = 0.3
"""Share of the cuts that tear blocks, and of the blocks torn then."""
_LEFT_BEHIND = 0.2
"""Share of the cuts that show what another file had left."""


@dataclass(frozen=True, slots=True)
class _Write:
    place: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Truncation:
    size: int


@dataclass(slots=True, eq=False)
class File:
    """A file: what is durable, and what came since."""

    content: bytearray = field(default_factory=bytearray)
    unsynced: list[_Write | _Truncation] = field(default_factory=list)

    def sync(self) -> None:
        """Make all of it durable."""
        for change in self.unsynced:
            _apply(self.content, change)
        self.unsynced.clear()

    def latest(self) -> bytes:
        """Return what a program reads."""
        content = bytearray(self.content)
        for change in self.unsynced:
            _apply(content, change)
        return bytes(content)


@dataclass(slots=True, eq=False)
class Folder:
    """A folder: its durable names, and the changes since, each of several names at once."""

    names: "dict[str, File | Folder]" = field(default_factory=dict)
    unsynced: "list[dict[str, File | Folder | None]]" = field(default_factory=list)

    def change(self, **names: "File | Folder | None") -> None:
        """Give names to what they shall stand for, None for nothing, together."""
        self.unsynced.append(names)

    def sync(self) -> None:
        """Make all of it durable."""
        self.names = self.latest()
        self.unsynced.clear()

    def latest(self) -> "dict[str, File | Folder]":
        """Return what a program sees."""
        return _named(self.names, self.unsynced)


@dataclass(frozen=True, slots=True)
class Draw:
    """How a cut is drawn: the chance of each unsynced change, and what else may happen."""

    rng: random.Random
    kept: float
    torn: float
    left_behind: float

    @classmethod
    def of(cls, rng: random.Random) -> "Draw":
        """Return a kind of cut: nothing of what was unsynced, all of it, or some."""
        kept = rng.choice((0.0, 1.0, 0.1, 0.5, 0.9, rng.random(), rng.random()))
        torn = _TORN if rng.random() < _TORN else 0.0
        return cls(rng, kept, torn, float(rng.random() < _LEFT_BEHIND))

    def version(self, newest: int) -> int:
        """Return which of the versions 0 to ``newest`` of something the disk has."""
        if self.rng.random() < self.kept:
            return newest
        return self.rng.randint(0, newest) if 0 < self.kept < 1 else 0


class Disk:
    """All below one folder, as it was found and as a trace changes it."""

    def __init__(self, root: Path) -> None:
        self._by_inode: dict[int, File | Folder] = {}
        self.root = self._read(root)

    def take(self, event: Event) -> None:
        """Take one change."""
        match event.kind:
            case "C":
                self._make(event, File())
            case "D":
                self._make(event, Folder())
            case "W":
                self._file(event).unsynced.append(_Write(event.place, event.data))
            case "T":
                self._file(event).unsynced.append(_Truncation(event.place))
            case "S":
                self._by_inode[event.inode].sync()
            case "U":
                folder, name = self._place_of(event.path)
                folder.change(**{name: None})
            case "R":
                self._rename(event)
            case other:
                raise ValueError(f"the trace has an event {other!r}")

    def write(self, place: Path) -> None:
        """Make files of what a program sees."""
        _write(self.root, place, None)

    def write_cut(self, place: Path, draw: Draw) -> None:
        """Make files of what a power cut leaves, as drawn."""
        _write(self.root, place, draw)

    def files(self) -> Iterator[tuple[str, File]]:
        """Yield what a program sees, with paths below the root."""
        yield from _files(self.root, "")

    def _read(self, place: Path) -> Folder:
        found = Folder()
        self._by_inode[place.stat().st_ino] = found
        for each in place.iterdir():
            if each.is_dir():
                found.names[each.name] = self._read(each)
            elif each.is_file():
                file = File(bytearray(each.read_bytes()))
                found.names[each.name] = self._by_inode[each.stat().st_ino] = file
        return found

    def _make(self, event: Event, made: File | Folder) -> None:
        self._by_inode[event.inode] = made
        folder, name = self._place_of(event.path)
        folder.change(**{name: made})

    def _rename(self, event: Event) -> None:
        folder, name = self._place_of(event.path)
        new_folder, new_name = self._place_of(event.new_path)
        moved = folder.latest()[name]
        if folder is new_folder:
            folder.change(**{name: None, new_name: moved})
        else:
            new_folder.change(**{new_name: moved})
            folder.change(**{name: None})

    def _file(self, event: Event) -> File:
        found = self._by_inode[event.inode]
        assert isinstance(found, File)
        return found

    def _place_of(self, path: str) -> tuple[Folder, str]:
        *above, name = path.split("/")
        folder = self.root
        for each in above:
            found = folder.latest()[each]
            assert isinstance(found, Folder)
            folder = found
        return folder, name


def _files(folder: Folder, above: str) -> Iterator[tuple[str, File]]:
    for name, found in folder.latest().items():
        if isinstance(found, Folder):
            yield from _files(found, f"{above}{name}/")
        else:
            yield f"{above}{name}", found


def _write(folder: Folder, place: Path, draw: Draw | None) -> None:
    place.mkdir()
    names = folder.latest() if draw is None else _names_after(folder, draw)
    for name, found in names.items():
        if isinstance(found, Folder):
            _write(found, place / name, draw)
        else:
            content = found.latest() if draw is None else content_after(found, draw)
            (place / name).write_bytes(content)


def _names_after(folder: Folder, draw: Draw) -> dict[str, File | Folder]:
    kept = [change for change in folder.unsynced if draw.rng.random() < draw.kept]
    return _named(folder.names, kept)


def _named(
    names: dict[str, File | Folder], changes: list[dict[str, File | Folder | None]]
) -> dict[str, File | Folder]:
    found: dict[str, File | Folder | None] = dict(names)
    for change in changes:
        found.update(change)
    return {name: each for name, each in found.items() if each is not None}


def _apply(content: bytearray, change: _Write | _Truncation) -> None:
    if isinstance(change, _Write):
        _resize(content, max(len(content), change.place))
        content[change.place : change.place + len(change.data)] = change.data
    else:
        _resize(content, change.size)


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def content_after(file: File, draw: Draw) -> bytes:
    """Return what a power cut leaves of a file, as drawn."""
    if not file.unsynced:
        return bytes(file.content)
    content, sizes = bytearray(file.content), [len(file.content)]
    # A block that a truncation took away is one more version, of zeros.
    versions: dict[int, list[bytes]] = {}
    for change in file.unsynced:
        before = len(content)
        _apply(content, change)
        sizes.append(len(content))
        first, last = _touched(change, before)
        for block in range(first // BLOCK_BYTES, -(-last // BLOCK_BYTES)):
            known = versions.setdefault(block, [_block_of(file.content, block)])
            known.append(_block_of(content, block))
    size = sizes[draw.version(len(sizes) - 1)]
    found = bytearray(file.content)
    if draw.left_behind:
        found.extend(draw.rng.randbytes(max(0, size - len(found))))
    _resize(found, size)
    for block, known in versions.items():
        start = block * BLOCK_BYTES
        if start >= size or (version := _drawn(known, draw)) is None:
            continue
        found[start : min(start + BLOCK_BYTES, size)] = version[: size - start]
    return bytes(found)


def _drawn(known: list[bytes], draw: Draw) -> bytes | None:
    """Return one of the contents of a block, None for what it was before all of them."""
    newest = len(known) - 1
    if draw.rng.random() >= draw.torn:
        version = draw.version(newest)
        return known[version] if version else None
    return b"".join(
        known[draw.rng.randint(0, newest)][start : start + SECTOR_BYTES]
        for start in range(0, BLOCK_BYTES, SECTOR_BYTES)
    )


def _touched(change: _Write | _Truncation, size_before: int) -> tuple[int, int]:
    if isinstance(change, _Write):
        return change.place, change.place + len(change.data)
    return min(change.size, size_before), max(change.size, size_before)


def _block_of(content: bytearray, block: int) -> bytes:
    start = block * BLOCK_BYTES
    return bytes(content[start : start + BLOCK_BYTES]).ljust(BLOCK_BYTES, b"\0")


def differences(disk: Disk, root: Path, ignored: str) -> list[str]:
    """Return the files that are not as the trace says: what the recorder did not see.

    Names that end in ``ignored`` are left out.
    """
    seen = {path: file.latest() for path, file in disk.files() if not path.endswith(ignored)}
    there = {
        str(each.relative_to(root)): each.read_bytes()
        for each in root.rglob("*")
        if each.is_file() and not each.name.endswith(ignored)
    }
    return sorted(path for path in seen.keys() | there.keys() if seen.get(path) != there.get(path))
