"""Names the tests of a source file by the rule that the folders of tests/unit mirror the source.

Decides only which names belong together; it never reads a file.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def own_tests(file: str, root: Path = ROOT, folder: str = "tests/unit") -> list[str]:
    """Return the test files named after a source file: ``key.py`` has ``test_key*.py``.

    A tool below tests/ has its tests where a source outside of tests/ has them:
    ``tests/check/selection.py`` has ``tests/unit/check/test_selection*.py``.
    """
    path = Path(file.removeprefix("tests/"))
    found = (root / folder / path.parent).glob(f"test_{path.stem}*.py")
    return sorted(each.relative_to(root).as_posix() for each in found)
