"""Users' names come from ``hourhand`` and its public modules alone, wherever they are shown.

A name that a traceback, a help text, a message or a page shows is one that a user may import.
"""

import ast
import importlib
import inspect
import pickle
import re
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.mirror import module_of
from tests.tidy.source import ROOT, documents, report, sources

PUBLIC = ("hourhand", "hourhand.errors", "hourhand.outbox", "hourhand.payloads", "hourhand.testing")
NEEDS = {"hourhand.admin": "fastapi", "hourhand.pipeline": "pyspark"}
"""The public modules that need an extra, and a package it brings."""
FOR_CONTRIBUTORS = ("CONTRIBUTING.md", "docs/architecture.md", "docs/design/", "docs/adr/")
_MODULES = {
    module_of(source.name).removeprefix("hourhand.") for source in sources("actors", "scheduler")
}
_PATH = re.compile(r"(?<![\w/`-])(?:hourhand\.)?((?:actors|scheduler)(?:\.[A-Za-z_]\w*)+)(?!\()")


def inner_paths(text: str) -> list[str]:
    """Return the paths in a text that lead below the public modules."""
    found = []
    for match in _PATH.finditer(text.replace("`", " ")):
        parts = match[1].split(".")
        # A user's variable `scheduler` has a client, and so has the room.
        if ".".join(parts[:2]) in _MODULES and parts != ["scheduler", "client"]:
            found.append(match[0])
    return found


def test_an_inner_path_is_seen_in_a_text() -> None:
    """And a call of a user's scheduler is none."""
    assert inner_paths("see scheduler.services.relay for it") == ["scheduler.services.relay"]
    assert inner_paths("a hourhand.actors.model.task.key.TaskKey") == [
        "hourhand.actors.model.task.key.TaskKey"
    ]
    assert not inner_paths("call scheduler.stop(), or scheduler.client, of scheduler.py")


def _modules() -> Iterator[ModuleType]:
    yield from map(importlib.import_module, PUBLIC)
    for name, package in NEEDS.items():
        if importlib.util.find_spec(package) is not None:
            yield importlib.import_module(name)


def _public() -> list[tuple[str, str, Any]]:
    """Return module, name and object of everything that users import."""
    return [
        (module.__name__, name, getattr(module, name))
        for module in _modules()
        for name in module.__all__
    ]


def test_every_public_module_is_walked() -> None:
    """A new one beside them is looked at as well."""
    files = {module_of(source.name) for source in sources("hourhand")}
    others = {"hourhand.__main__", "hourhand.testing_plugin"}
    django = {
        each for each in files if each.startswith(("hourhand.django", "hourhand.outbox.django"))
    }

    assert files - others - django == {*PUBLIC, *NEEDS}


def test_what_users_import_is_shown_under_the_name_they_import() -> None:
    """By ``repr``, in a traceback, in a pickle and in help."""
    places: dict[int, set[str]] = {}
    for module, _, member in _public():
        places.setdefault(id(member), set()).add(module)
    report(
        f"{module}.{name} is shown as {member.__module__}.{member.__qualname__}"
        for module, name, member in _public()
        if inspect.isclass(member) or inspect.isfunction(member)
        if member.__module__ not in places[id(member)] or member.__qualname__ != name
    )


def test_public_docstrings_name_nothing_below() -> None:
    """Docstrings of a class's members count too; help shows them."""
    report(
        f"{module}.{name}: the docstring names {path}"
        for module, name, member in _public()
        for text in _docstrings(member)
        for path in inner_paths(text)
    )


def _docstrings(member: Any) -> Iterator[str]:
    yield inspect.getdoc(member) or ""
    if inspect.isclass(member):
        for name, inner in inspect.getmembers(member):
            if not name.startswith("_"):
                yield inspect.getdoc(inner) or ""


def test_signatures_name_hourhand_alone() -> None:
    """A path of theirs begins at the one name that is installed."""
    report(
        f"{module}.{name}: {found}"
        for module, name, member in _public()
        for signature in _signatures(member)
        for found in re.findall(r"(?<![\w.])(?:actors|scheduler)\.\w+", signature)
    )


def _signatures(member: Any) -> Iterator[str]:
    inner = [each for _, each in inspect.getmembers(member)] if inspect.isclass(member) else []
    for each in (member, *inner):
        try:
            yield str(inspect.signature(each))
        except (TypeError, ValueError):
            continue


def test_no_message_names_an_inner_path() -> None:
    """Errors, log lines and help are sentences: strings with a space, docstrings left aside."""
    report(
        f"{source.name}:{node.lineno} names {path} in a text for users"
        for source in sources("actors", "hourhand", "scheduler")
        for node in _texts(source.tree)
        for path in inner_paths(str(node.value))
    )


def _texts(tree: ast.Module) -> Iterator[ast.Constant]:
    beside = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in beside and " " in str(node.value):
            yield node


def test_no_page_for_users_names_an_inner_path() -> None:
    """Pages for contributors name files and modules."""
    names = {path: path.relative_to(ROOT).as_posix() for path in documents()}
    report(
        f"{name} names {found}"
        for path, name in names.items()
        if not name.startswith((*FOR_CONTRIBUTORS, "CHANGELOG.md"))
        for found in inner_paths(path.read_text(encoding="utf-8"))
    )


def test_a_traceback_names_the_error_as_users_catch_it() -> None:
    """``except hourhand.errors.InvalidTask`` is what they write."""
    from hourhand import Task

    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the name is what is judged
        Task(ordering_id="")  # type: ignore[call-arg]

    last = traceback.format_exception_only(raised.value)[-1]
    assert last.startswith("hourhand.errors.InvalidTask: ")


def test_a_pickle_holds_no_inner_path() -> None:
    """It can be read by a version whose folders are others."""
    from hourhand import Drop, TaskKey
    from hourhand.errors import InvalidTask

    for value in (TaskKey(0, "a", "b"), Drop("x"), InvalidTask("y")):
        written = pickle.dumps(value, 0).decode("ascii")

        assert not inner_paths(written), written
