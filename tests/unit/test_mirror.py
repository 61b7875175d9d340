"""The mirror of source and tests: each source file is imported, and has tests of its name."""

import importlib.util
from pathlib import Path

import pytest

from tests.mirror import module_of, own_tests


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("actors/model/task/key.py", "hourhand.actors.model.task.key"),
        ("scheduler/__init__.py", "hourhand.scheduler"),
        ("schema/__init__.py", "hourhand.scheduler.schema"),
        ("hourhand/errors.py", "hourhand.errors"),
        ("tests/mirror.py", "tests.mirror"),
    ],
)
def test_the_folders_of_the_product_are_packages_of_hourhand(file: str, module: str) -> None:
    """Python finds them there, whatever the working folder is."""
    assert module_of(file) == module
    assert importlib.util.find_spec(module) is not None


def _touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_the_folders_of_the_tests_mirror_the_source(tmp_path: Path) -> None:
    """Each file whose name begins with the source's, in the folder of the source."""
    _touch(
        tmp_path,
        "tests/unit/actors/model/task/test_key.py",
        "tests/unit/actors/model/task/test_key_text.py",
        "tests/unit/actors/model/task/test_task.py",
        "tests/unit/actors/test_key.py",
    )

    assert own_tests("actors/model/task/key.py", tmp_path) == [
        "tests/unit/actors/model/task/test_key.py",
        "tests/unit/actors/model/task/test_key_text.py",
    ]


def test_a_tool_of_the_tests_has_tests_as_a_source_has(tmp_path: Path) -> None:
    """What is below tests/ has them in tests/unit without a second "tests"."""
    _touch(tmp_path, "tests/unit/check/test_steps.py")

    assert own_tests("tests/check/steps.py", tmp_path) == ["tests/unit/check/test_steps.py"]


def test_tests_that_start_programs_are_found_by_the_same_rule(tmp_path: Path) -> None:
    """Another folder, the same names."""
    _touch(tmp_path, "tests/programs/scheduler/cli/test_cli.py", "tests/unit/other/test_cli.py")

    found = own_tests("scheduler/cli/cli.py", tmp_path, "tests/programs")

    assert found == ["tests/programs/scheduler/cli/test_cli.py"]


def test_a_source_without_tests_has_none(tmp_path: Path) -> None:
    """Its folder need not be there either."""
    assert own_tests("actors/model/task/key.py", tmp_path) == []
