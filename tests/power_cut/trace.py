"""The trace that ``recorder.c`` writes: every change of the files below a folder, in order.

It reads the trace and decides nothing about what a disk keeps of it.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_EVENT = struct.Struct("=c7xQqIIQ")


class Event(NamedTuple):
    """One change; what a kind does not have is 0 or empty."""

    kind: str
    """``C`` create a file, ``W`` write, ``T`` truncate, ``S`` sync, ``D`` make a folder, ``R``
    rename, ``U`` remove a name."""
    inode: int
    place: int
    """Where in the file, or its new size, in bytes."""
    path: str
    """Below the recorded folder, as ``new_path``; "" is the folder itself."""
    new_path: str
    data: bytes


def read_trace(path: Path, root: Path) -> Iterator[Event]:
    """Yield the events of a trace; one that a kill tore off at its end is left out."""
    content = path.read_bytes()
    place = 0
    while place + _EVENT.size <= len(content):
        kind, inode, where, *lengths = _EVENT.unpack_from(content, place)
        place += _EVENT.size
        if place + sum(lengths) > len(content):
            return
        parts = []
        for length in lengths:
            parts.append(content[place : place + length])
            place += length
        first, second = (_below(each.decode(), root) for each in parts[:2])
        yield Event(kind.decode(), inode, where, first, second, parts[2])


def _below(path: str, root: Path) -> str:
    return path.removeprefix(str(root)).strip("/")
