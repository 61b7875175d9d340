"""What the shape of the product is in numbers: ``python -m tests.tidy.house [CHECKOUT]``.

Measures actors/ and scheduler/ of a checkout, this one where none is named, so that two states
can be compared.  It lists the longest files and the classes with the most attributes, for a
reviewer to judge.  It only counts and never says what is good.
"""

import ast
import configparser
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.mirror import module_of
from tests.tidy.source import ROOT

_TOPS = ("actors", "hourhand", "scheduler")
_LISTED = 10
_PICKERS = ("wiring", "stores", "cli", "app", "system_registry", "own_kinds")
"""Modules that pick one of each kind: adapters, stores, commands, routes, executors of a kind.
What they pick has one importer by design, as has a role of the tree: its supervisor."""


def main() -> int:
    """Print one line for each measure."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for name, figure in measures(root).items():
        sys.stdout.write(f"{figure:>10}  {name}\n")
    for title, sizes in (("lines", file_lines(root)), ("attributes", class_attributes(root))):
        sys.stdout.write("\n")
        for name in sorted(sizes, key=lambda each: -sizes[each])[:_LISTED]:
            sys.stdout.write(f"{sizes[name]:>10}  {title}: {name}\n")
    return 0


def file_lines(root: Path) -> dict[str, int]:
    """Return how many lines each file of the product has."""
    return {
        path.relative_to(root).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for top in _TOPS
        for path in (root / top).rglob("*.py")
    }


def class_attributes(root: Path) -> dict[str, int]:
    """Return how many names each class of the product sets on ``self``."""
    return {
        f"{path.as_posix()}:{node.name}": len(_set_on_self(node))
        for path, tree in _trees(root).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def _set_on_self(node: ast.ClassDef) -> set[str]:
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


def _trees(root: Path) -> dict[Path, ast.Module]:
    return {
        path.relative_to(root): ast.parse(path.read_text(encoding="utf-8"))
        for top in _TOPS
        for path in sorted((root / top).rglob("*.py"))
    }


def measures(root: Path) -> dict[str, str]:
    """Return every measure of a checkout by its name."""
    trees = _trees(root)
    imports = _imports(trees)
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for module, imported in imports.items():
        for each in imported:
            importers[each].add(module)
    empty = {_module(path) for path, tree in trees.items() if len(tree.body) < 2}
    alone = [
        (module, *of) for module, of in importers.items() if len(of) == 1 and module not in empty
    ]
    rooms, arrows = _rooms(imports)
    functions, asserts = _asserts(trees)
    answers, untyped = _answers(root)
    lines = sum(len((root / path).read_text(encoding="utf-8").splitlines()) for path in trees)
    top = sum(len(path.parts) == 2 and path.parts[0] == "scheduler" for path in trees)
    return {
        "files": f"{len(trees)}",
        "lines": f"{lines:,}",
        "modules with exactly one importer": f"{len(alone)}",
        "of which neither picked nor a role": f"{sum(not _is_picked(*one) for one in alone)}",
        "import layers of scheduler/": f"{_layers(root)}",
        "modules at the top of scheduler/": f"{top}",
        "rooms of scheduler/": f"{rooms}",
        "arrows between them": f"{arrows}",
        "class names in more than one file": f"{_shared_names(trees)}",
        "answers of 2xx in OpenAPI": f"{answers}",
        "of which without a schema": f"{untyped}",
        "dict[str, Any] in scheduler/admin/": f"{_open_dicts(root)}",
        "asserts a function in actors/": f"{asserts / functions:.2f}",
    }


def _module(path: Path) -> str:
    return module_of(path.as_posix())


def _imports(trees: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """Return the modules of the product that each of them imports, whether at the top or not."""
    modules = {_module(path) for path in trees}
    return {
        _module(path): {each for each in _names(tree) if each in modules} - {_module(path)}
        for path, tree in trees.items()
    }


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            # The table of the wiring names what it imports when a port is opened.
            yield node.value.partition(":")[0]


def _is_picked(module: str, importer: str) -> bool:
    roles = module.startswith("hourhand.actors.") and module.count(".") == 2
    return roles or importer.rpartition(".")[2] in _PICKERS


def _rooms(imports: Mapping[str, set[str]]) -> tuple[int, int]:
    """Return how many folders and single files scheduler/ has, and which of them know others."""

    def room(module: str) -> str | None:
        parts = module.split(".")[1:]
        return parts[1] if parts[:1] == ["scheduler"] and len(parts) > 1 else None

    rooms = {found for module in imports if (found := room(module))}
    arrows = {
        (here, there)
        for module, imported in imports.items()
        for each in imported
        if (here := room(module)) and (there := room(each)) and here != there
    }
    return len(rooms), len(arrows)


def _layers(root: Path) -> int:
    """Return how many layers the contracts order the rooms of scheduler/ in."""
    contracts = configparser.ConfigParser()
    contracts.read(root / "setup.cfg", encoding="utf-8")
    for name in contracts.sections():
        if contracts[name].get("containers", "").strip() == "hourhand.scheduler":
            return len(contracts[name]["layers"].strip().splitlines())
    return 0


def _shared_names(trees: Mapping[Path, ast.Module]) -> int:
    files: defaultdict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                files[node.name.lstrip("_")].add(path)
    return sum(len(found) > 1 for found in files.values())


def _answers(root: Path) -> tuple[int, int]:
    """Return how many answers of 2xx the OpenAPI documents have, and those without a schema."""
    found = untyped = 0
    for file in sorted((root / "schema" / "http").glob("*.json")):
        for methods in json.loads(file.read_text(encoding="utf-8"))["paths"].values():
            for operation in methods.values():
                for status, answer in operation.get("responses", {}).items():
                    if status.startswith("2"):
                        found += 1
                        schemas = [
                            each.get("schema") for each in answer.get("content", {}).values()
                        ]
                        typed = schemas and all(_is_typed(each) for each in schemas)
                        untyped += status != "204" and not typed
    return found, untyped


def _is_typed(schema: Mapping[str, object] | None) -> bool:
    return bool(schema) and schema is not None and schema.get("additionalProperties") is not True


def _open_dicts(root: Path) -> int:
    return sum(
        path.read_text(encoding="utf-8").count("dict[str, Any]")
        for path in (root / "scheduler" / "admin").rglob("*.py")
    )


def _asserts(trees: Mapping[Path, ast.Module]) -> tuple[int, int]:
    functions = asserts = 0
    for path, tree in trees.items():
        if path.parts[0] == "actors":
            nodes = list(ast.walk(tree))
            functions += sum(_has_a_body(node) for node in nodes)
            asserts += sum(isinstance(n, ast.Assert) for n in nodes)
    return functions, asserts


def _has_a_body(node: ast.AST) -> bool:
    """True if it is a function that does anything, as a protocol's does not."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
        not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in node.body
    )


if __name__ == "__main__":
    raise SystemExit(main())
