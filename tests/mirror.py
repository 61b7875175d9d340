"""Names what belongs to a source file: the module that it is, and its tests, which mirror it.

Decides only which names belong together; it never reads a file.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]

_BELOW_HOURHAND = {
    "actors": "hourhand.actors",
    "scheduler": "hourhand.scheduler",
    "schema": "hourhand.scheduler.schema",
}
"""Folders at the top of the repository that are packages of Hourhand."""


def module_of(file: str) -> str:
    """Return the name a source file is imported by: ``hourhand.actors.model.task.key``."""
    top, *below = file.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join((_BELOW_HOURHAND.get(top, top), *below))


def own_tests(file: str, root: Path = ROOT, folder: str = "tests/unit") -> list[str]:
    """Return the test files named after a source file: ``key.py`` has ``test_key*.py``.

    A tool below tests/ has its tests where a source outside of tests/ has them:
    ``tests/check/selection.py`` has ``tests/unit/check/test_selection*.py``.
    """
    path = Path(file.removeprefix("tests/"))
    found = (root / folder / path.parent).glob(f"test_{path.stem}*.py")
    return sorted(each.relative_to(root).as_posix() for each in found)
