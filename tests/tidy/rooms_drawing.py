"""Draws the rooms of the product as layers: the picture of docs/architecture.md.

The layers are those of the import contracts, and the words in a room are the first sentence of
its own docstring.  So the picture says who may import whom, and draws no single import.
"""

import ast
import configparser
import re
import textwrap
from collections.abc import Sequence
from functools import cache

from tests.tidy.drawings import LETTER, Picture
from tests.tidy.source import ROOT

_LEFT = 40
_WIDTH = 940
_GAP = 8
_LINE = 15


@cache
def layers_of(contract: str) -> tuple[tuple[str, ...], ...]:
    """Return the modules of each layer of an import contract, the highest layer first."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = contracts[f"importlinter:contract:{contract}"]["layers"].strip().splitlines()
    return tuple(tuple(re.findall(r"\w+", line)) for line in lines)


def rooms_drawing() -> str:
    """Return the layers from the names for users down to the values of the tree."""
    picture = Picture("The rooms: each imports only from the layers below it")
    names = [name for layer in layers_of("arrow")[:2] for name in layer]
    y = _heading(picture, 12, "hourhand/: what users import")
    y = _layer(picture, y, [("hourhand", ", ".join(sorted(names)))], kind="wait")
    y = _heading(picture, y, "scheduler/: input and output, one folder or file for each room")
    for layer in layers_of("layers"):
        y = _layer(picture, y, [(room, _purpose("scheduler", room)) for room in layer])
    y = _heading(picture, y, "actors/: decisions")
    y = _layer(picture, y, [("nine roles", _purpose("hourhand", "actors"))], kind="end")
    for (room,) in layers_of("tree")[-4:]:
        y = _layer(picture, y, [(room, _purpose("actors", room))], kind="end")
    picture.words(12, 28, "imports", small=True)
    picture.line((24, 36), (24, y - _GAP))
    return picture.svg()


def _heading(picture: Picture, y: int, text: str) -> int:
    picture.words(_LEFT + 24, y + 16, text)
    return y + 26


def _layer(picture: Picture, y: int, rooms: Sequence[tuple[str, str]], *, kind: str = "") -> int:
    """Draw the rooms of one layer side by side; return where the next layer begins."""
    width = (_WIDTH - _GAP * (len(rooms) - 1)) // len(rooms)
    told = [textwrap.wrap(text, (width - 16) // LETTER) for _, text in rooms]
    height = 28 + _LINE * max(map(len, told))
    for column, ((name, _), lines) in enumerate(zip(rooms, told, strict=True)):
        x = _LEFT + column * (width + _GAP)
        picture.box(x, y, name, width=width, height=height, kind=kind)
        for row, line in enumerate(lines):
            foot = y + 38 + row * _LINE
            picture.words(x + width // 2, foot, line, anchor="middle", small=True)
    return y + height + _GAP


def _purpose(folder: str, room: str) -> str:
    """Return the first sentence of a room's docstring."""
    place = ROOT / folder / room
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first, _, _ = " ".join(told.split()).replace("``", "").partition(". ")
    return first.rstrip(".")
