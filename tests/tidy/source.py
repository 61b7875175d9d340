"""The project's own files, read once, as the style tests look at them.

Decides what belongs to the project: everything that is neither hidden, built nor downloaded.
"""

import ast
import gc
import os
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.mirror import module_of

ROOT = Path(__file__).parents[2]

CODE_FOLDERS = ("actors", "hourhand", "scheduler", "schema", "tests", "examples", "benchmarks")

ROLES = {
    "topic_supervisor": ("partition_supervisor",),
    "partition_supervisor": (
        "task_persistence",
        "throughput_controller",
        "partition_scheduler",
        "completion_tracker",
        "partition_executor",
    ),
    "task_persistence": (),
    "throughput_controller": (),
    "partition_scheduler": (),
    "completion_tracker": (),
    "partition_executor": ("ordering_executor",),
    "ordering_executor": ("task_executor",),
    "task_executor": (),
}
"""The nine roles of the tree, each with the children it spawns."""

_SKIPPED = {"build", "dist", "__pycache__", "hourhand-data", "node_modules"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """A function or method, and the classes and functions it stands in."""

    node: FunctionNode
    owners: tuple[str, ...]

    @property
    def name(self) -> str:
        """Dotted name within its module."""
        return ".".join((*self.owners, self.node.name))

    @property
    def code_lines(self) -> int:
        """Lines from ``def`` to the end, docstring left out."""
        assert self.node.end_lineno is not None
        return self.node.end_lineno - self.node.lineno + 1 - _docstring_lines(self.node)


@dataclass(frozen=True)
class Source:
    """One Python file of the project."""

    path: Path

    @property
    def name(self) -> str:
        """Path from the root, with slashes."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """Dotted name it is imported by."""
        return module_of(self.name)

    @cached_property
    def text(self) -> str:
        """The whole file."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file, which lives as long as the process."""
        # The collector would look at all trees again and again: two thirds of the time.
        gc.disable()
        try:
            return ast.parse(self.text, self.name)
        finally:
            gc.freeze()
            gc.enable()

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function and method, nested ones included."""
        return tuple(_functions(self.tree, ()))

    @cached_property
    def imports(self) -> frozenset[str]:
        """Every module or member this file imports, at any depth, by its dotted name."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
        return frozenset(found)

    def calls(self) -> Iterator[tuple[int, str]]:
        """Yield line and full dotted name of everything called, imports resolved."""
        meaning = _imported_names(self.tree)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and (name := _dotted(node.func)):
                first, dot, rest = name.partition(".")
                yield node.lineno, meaning.get(first, first) + dot + rest


def _imported_names(tree: ast.Module) -> dict[str, str]:
    meaning: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                meaning[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                meaning[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return meaning


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return None


def _functions(node: ast.AST, owners: tuple[str, ...]) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode):
            yield Function(child, owners)
        if isinstance(child, FunctionNode | ast.ClassDef):
            yield from _functions(child, (*owners, child.name))
        else:
            yield from _functions(child, owners)


def _docstring_lines(node: FunctionNode) -> int:
    first = node.body[0]
    if ast.get_docstring(node) is None or first.end_lineno is None:
        return 0
    return first.end_lineno - first.lineno + 1


def _is_ours(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return not any(
        part in _SKIPPED or part.endswith(".egg-info") or (part.startswith(".") and part != ".ci")
        for part in parts
    )


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Return the Python files below these folders, or below all of them, by name."""
    found = [
        Source(path)
        for folder in folders or CODE_FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if _is_ours(path)
    ]
    assert found, f"no Python file below {folders}"
    return tuple(found)


def class_named(name: str) -> ast.ClassDef:
    """Return the class of the product that has this name.

    ``inspect`` looks for it in the module that a public class is shown under, in vain.
    """
    (found,) = (
        node
        for source in sources("actors", "hourhand", "scheduler")
        if f"class {name}" in source.text
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    return found


@cache
def documents() -> tuple[Path, ...]:
    """Return every Markdown file of the project; an entry of ``changes/`` is a part of one."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if _is_ours(Path(folder, name))]
        found += [Path(folder, name) for name in names if name.endswith(".md")]
    return tuple(path for path in sorted(found) if _is_ours(path) and path.name[0] != "+")


@cache
def project_metadata() -> dict[str, object]:
    """Return the table ``project`` of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        metadata: dict[str, object] = tomllib.load(file)["project"]
    return metadata


def dependency_group(name: str) -> list[str]:
    """Return the requirements of a dependency group of pyproject.toml, without those of others."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        entries = tomllib.load(file)["dependency-groups"][name]
    return [each for each in entries if isinstance(each, str)]


def class_name(role: str) -> str:
    """Return the class of a role's file: ``task_executor`` holds ``TaskExecutor``."""
    return "".join(word.capitalize() for word in role.split("_"))


def report(complaints: Iterable[str]) -> None:
    """Fail with one line for each complaint, if there is any."""
    found = sorted(complaints)
    assert not found, "\n" + "\n".join(found)
