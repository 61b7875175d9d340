"""The rules of docs/style.md that a program can check.

Where a limit is passed on purpose, the file or function stands in a ratchet list with its
size.  The list may only shrink: an entry that could be smaller, or is needed no longer, fails.
"""

import ast
import re
from collections.abc import Mapping

import pytest

from hourhand.scheduler.node.workers.process_thread import GUARDIAN
from hourhand.scheduler.wiring import ADAPTERS
from tests.tidy.source import ROOT, Function, Source, project_metadata, report, sources

FUNCTION_LINES_MAX = 40
LINE_COLUMNS_MAX = 100
PARAMETERS_MAX = 8
PORT_METHODS_MAX = 7
MODULE_DOCSTRING_LINES_MAX = 15

LONG_FUNCTIONS: dict[str, int] = {}
"""``file:function`` above the limit, with their number of lines; never above 70.  Statements to
prepare, options of a command, ports to put together: lists, not logic."""
WIDE_CONSTRUCTORS: dict[str, int] = {}
"""``file:class`` above the limit, with their number of parameters."""

CATCH_ALL_NAMES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "base",
    "manager",
    "managers",
    "core",
    "impl",
    "misc",
    "stuff",
    "lib",
    "tools",
    "shared",
}


def _check_ratchet(
    what: str, limit: int, hard_limit: int, sizes: Mapping[str, int], ratchet: Mapping[str, int]
) -> None:
    too_big = {name: size for name, size in sizes.items() if size > limit}
    complaints = []
    for name in sorted(too_big.keys() | ratchet.keys()):
        size, listed = too_big.get(name), ratchet.get(name)
        if size is None:
            complaints.append(f"{name} is within the limit now: take it off the ratchet list")
        elif size > hard_limit:
            complaints.append(f"{name} has {size} {what}, {hard_limit} is the hard limit")
        elif listed is None:
            complaints.append(f"{name} has {size} {what}, {limit} are allowed: split it")
        elif size != listed:
            complaints.append(f"{name} has {size} {what}, the ratchet list says {listed}")
    assert not complaints, "\n" + "\n".join(complaints)


def test_functions_are_short() -> None:
    """A function fits a screen: 40 lines, 70 on the ratchet list."""
    sizes = {
        f"{source.name}:{function.name}": function.code_lines
        for source in sources()
        for function in source.functions
    }

    _check_ratchet("lines", FUNCTION_LINES_MAX, 70, sizes, LONG_FUNCTIONS)


def test_constructors_take_few_parameters() -> None:
    """What belongs together is grouped into a frozen value."""
    sizes = {
        f"{source.name}:{function.name}": len(function.node.args.args)
        + len(function.node.args.kwonlyargs)
        - 1
        for source in sources("actors", "hourhand", "scheduler")
        for function in source.functions
        if function.node.name == "__init__"
    }

    _check_ratchet("parameters", PARAMETERS_MAX, 12, sizes, WIDE_CONSTRUCTORS)


def test_lines_are_at_most_100_columns_wide() -> None:
    """The formatter breaks code; strings and comments are ours to break."""
    report(
        f"{source.name}:{number} has {len(line)} columns"
        for source in sources()
        for number, line in enumerate(source.text.splitlines(), start=1)
        if len(line) > LINE_COLUMNS_MAX
    )


def test_no_file_is_named_after_nothing() -> None:
    """The least meaningful names would carry the most weight."""
    report(
        f"{source.name}: name it after what it decides"
        for source in sources()
        if CATCH_ALL_NAMES & set(source.path.stem.strip("_").split("_"))
        or CATCH_ALL_NAMES & set(source.path.relative_to(ROOT).parts)
    )


def test_nothing_is_left_for_later() -> None:
    """What is not done is an issue, not a comment."""
    marker = re.compile(r"\b(FIX" r"ME|TO" r"DO|X" r"XX|HA" r"CK)\b")
    report(
        f"{source.name}:{number}: {line.strip()}"
        for source in sources()
        for number, line in enumerate(source.text.splitlines(), start=1)
        if marker.search(line)
    )


def test_every_module_says_what_it_decides() -> None:
    """One to fifteen lines of theory, drawings not counted."""
    complaints = []
    for source in sources():
        docstring = ast.get_docstring(source.tree)
        if docstring is None:
            complaints.append(f"{source.name} has no docstring")
            continue
        prose = [line for line in docstring.splitlines() if line and not line.startswith(" ")]
        if len(prose) > MODULE_DOCSTRING_LINES_MAX:
            complaints.append(f"{source.name} has a docstring of {len(prose)} lines")
    report(complaints)


def _documented_in_a_contract() -> set[str]:
    """Methods that a port or the kernel's base describes for all that implement them."""
    return {
        function.node.name
        for source in sources("actors/ports", "scheduler/ports", "actors/kernel")
        for function in source.functions
        if len(function.owners) == 1 and ast.get_docstring(function.node)
    }


def _is_public(function: Function) -> bool:
    names = (*function.owners, function.node.name)
    return not any(name.startswith("_") for name in names)


def _is_member_of_class_or_module(source: Source, function: Function) -> bool:
    functions = {other.node.name for other in source.functions}
    return not any(owner in functions for owner in function.owners)


def _is_overload(function: Function) -> bool:
    """True if it only says a type; the function itself is described behind it."""
    return any(ast.unparse(each) == "overload" for each in function.node.decorator_list)


def test_every_public_name_is_described() -> None:
    """A method may leave the description to the port or kernel class it fills."""
    contracts = _documented_in_a_contract()
    complaints = []
    for source in sources("actors", "hourhand", "scheduler"):
        for node in ast.walk(source.tree):
            if (
                isinstance(node, ast.ClassDef)
                and not node.name.startswith("_")
                and ast.get_docstring(node) is None
            ):
                complaints.append(f"{source.name}:{node.lineno} {node.name} has no docstring")
        complaints += [
            f"{source.name}:{function.node.lineno} {function.name} has no docstring"
            for function in source.functions
            if _is_public(function)
            and _is_member_of_class_or_module(source, function)
            and not _is_overload(function)
            and ast.get_docstring(function.node) is None
            and not (function.owners and function.node.name in contracts)
        ]
    report(complaints)


def test_ports_are_narrow() -> None:
    """Seven methods at most, so that a fake can be honest."""
    complaints = []
    for source in sources("actors/ports", "scheduler/ports", "scheduler/kafka_only"):
        if source.path.parent.name != "ports" and source.path.stem != "ports":
            continue
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases
            ):
                methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
                if len(methods) > PORT_METHODS_MAX:
                    complaints.append(f"{source.name}: {node.name} has {len(methods)} methods")
    report(complaints)


def test_every_module_is_used() -> None:
    """Another module than tests imports it, or an entry point or the wiring's table names it."""
    imported = {
        name for source in sources("actors", "hourhand", "scheduler") for name in source.imports
    }
    scripts, plugins = (project_metadata()[key] for key in ("scripts", "entry-points"))
    named = set(re.findall(r"'(hourhand[\w.]*)", f"{scripts} {plugins}"))
    named |= {place.partition(":")[0] for place in ADAPTERS.values()} | {GUARDIAN}
    report(
        f"{source.name} is imported by nothing"
        for source in sources("actors", "hourhand", "scheduler")
        if source.path.stem not in {"__init__", "__main__"}
        # Django finds them by place.
        and not source.name.startswith(("hourhand/django/", "hourhand/outbox/django/"))
        and source.name not in {"hourhand/admin.py", "hourhand/errors.py", "hourhand/pipeline.py"}
        and source.module not in imported | named
    )


@pytest.mark.parametrize("folder", ["actors", "hourhand", "scheduler"])
def test_no_module_has_a_global_that_changes(folder: str) -> None:
    """Two schedulers in one process share nothing."""
    report(
        f"{source.name}:{node.lineno} changes a global"
        for source in sources(folder)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Global)
    )
