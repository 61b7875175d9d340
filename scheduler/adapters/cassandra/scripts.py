"""The numbered CQL files that make up the schema, as the program that runs brought them."""

import importlib.util
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

_PACKAGE = "scheduler.schema"
_META_PREFIX = "migration:"


class Script(NamedTuple):
    """One file under ``schema/cassandra``."""

    number: int
    name: str
    statements: tuple[str, ...]

    @property
    def meta_name(self) -> str:
        """The row of ``schedule_meta`` that says this file was applied."""
        return f"{_META_PREFIX}{self.number:03d}"


def schema_scripts() -> list[Script]:
    """Return all files in order; raises ValueError where their numbers have a gap."""
    scripts = sorted(_script(each) for each in _folder().iterdir() if each.name.endswith(".cql"))
    numbers = [script.number for script in scripts]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise ValueError(f"the files of schema/cassandra are numbered {numbers}, not 1, 2, 3, …")
    return scripts


def statements_of(text: str) -> tuple[str, ...]:
    """Cut CQL into statements at each semicolon; comments are lines that begin with ``--``."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    pieces = (piece.strip() for piece in "\n".join(lines).split(";"))
    return tuple(piece for piece in pieces if piece)


def _script(file: Traversable) -> Script:
    return Script(int(file.name[:3]), file.name, statements_of(file.read_text(encoding="utf-8")))


def _folder() -> Traversable:
    # A wheel ships the files as a package; a checkout has them in its root folder.
    if importlib.util.find_spec(_PACKAGE) is not None:
        return files(_PACKAGE) / "cassandra"
    return Path(__file__).resolve().parents[3] / "schema" / "cassandra"
