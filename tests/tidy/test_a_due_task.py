"""The page that follows a due task names files that exist, and classes that are in them."""

import ast
import re

import pytest

from tests.tidy.source import ROOT, Source

PAGE = (ROOT / "docs" / "a-due-task.md").read_text(encoding="utf-8")
STEPS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
TITLES = [step.split("\n")[0] for step in STEPS]
_FILE = re.compile(r"^- `([\w/]+\.py)`: (.+)$", re.MULTILINE)
_NAME = re.compile(r"`([A-Z]\w+)`")


def _classes(path: str) -> set[str]:
    return {node.name for node in Source(ROOT / path).tree.body if isinstance(node, ast.ClassDef)}


def _known(path: str, name: str) -> bool:
    """True if a file defines a class, or imports it from the file that does."""
    if name in _classes(path):
        return True
    modules = [
        each.removesuffix(f".{name}")
        for each in Source(ROOT / path).imports
        if each.endswith(f".{name}")
    ]
    return any(name in _classes(module.replace(".", "/") + ".py") for module in modules)


def test_there_are_ten_steps_in_their_order() -> None:
    """As the title says."""
    assert [title.split(".")[0] for title in TITLES] == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize("step", STEPS, ids=TITLES)
def test_a_step_names_files_and_the_classes_in_them(step: str) -> None:
    """A message is imported from where all messages are."""
    files = _FILE.findall(step)

    assert files, "a step names the file that decides it"
    unknown = [
        f"{path}: {name}"
        for path, names in files
        for name in _NAME.findall(names)
        if not _known(path, name)
    ]
    assert unknown == []


@pytest.mark.parametrize("step", STEPS, ids=TITLES)
def test_a_class_in_the_text_of_a_step_stands_in_its_list(step: str) -> None:
    """So that no name escapes the comparison with the code."""
    text, listed = step.split("\n- ", 1)

    assert set(_NAME.findall(text)) - set(_NAME.findall(listed)) == set()
