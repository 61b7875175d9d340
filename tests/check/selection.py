"""Decides which test files judge a change, and which of them are left to a longer run.

The nearest come first: tests that changed or are named after what changed, then tests that
import it, then tests of the modules that import it.  Nothing is run here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import Path

from tests.mirror import own_tests

TEST_FILES_MAX = 40
"""Of those that start no process, at a quarter of a second each, the largest at seven."""

_QUICK = ("tests/unit/", "tests/property/")
TIDY = ("tests/tidy/", "tests/documents/test_console_examples.py")
"""Where the tests that read files as text begin."""
_STEPS = ("tests/tidy/test_contracts.py", "tests/tidy/test_wheel.py")
"""The first runs what `make check` runs beside the tests, the second builds a wheel."""

_DOCS = ("tests/tidy/test_docs.py", "tests/tidy/test_glossary.py", "tests/tidy/test_words.py")
_CODE = ("tests/tidy/test_names.py", "tests/tidy/test_style.py", "tests/tidy/test_words.py")
TIDY_TESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("*.py", _CODE),
    ("actors/*.py", ("tests/tidy/test_tree.py",)),
    ("*.md", _DOCS),
    ("README.md", ("tests/documents/test_console_examples.py",)),
    ("docs/*.md", ("tests/documents/test_console_examples.py",)),
    ("docs/architecture.md", ("tests/tidy/test_tree.py",)),
    ("docs/security.md", ("tests/tidy/test_security_page.py",)),
    ("docs/operations/systemd.md", ("tests/documents/test_service_files.py",)),
    ("docs/drawings/*", ("tests/tidy/test_docs.py",)),
    ("docs/dependencies.md", ("tests/tidy/test_dependencies.py",)),
    ("pyproject.toml", ("tests/tidy/test_dependencies.py", "tests/tidy/test_security.py")),
    ("constraints.txt", ("tests/tidy/test_dependencies.py",)),
    ("setup.cfg", ("tests/tidy/test_tree.py", "tests/tidy/test_docs.py")),
    # The drawing of the rooms quotes their docstrings.
    ("scheduler/*/__init__.py", ("tests/tidy/test_docs.py",)),
    ("Makefile", ("tests/tidy/test_docs.py",)),
    (".ci/*", ("tests/tidy/test_docs.py",)),
    (".github/*", ("tests/tidy/test_docs.py", "tests/tidy/test_security.py")),
    ("scheduler/admin/*.py", ("tests/tidy/test_openapi.py",)),
    ("scheduler/admin/dashboard/*", ("tests/tidy/test_glossary.py",)),
    ("scheduler/admin/dashboard/*", ("tests/unit/scheduler/admin/test_pages.py",)),
    ("docker/*", ("tests/tidy/test_containers.py", "tests/tidy/test_docs.py")),
    ("deploy/*", ("tests/deploy/test_kubernetes.py", "tests/tidy/test_docs.py")),
    ("deploy/systemd/*", ("tests/deploy/test_systemd.py",)),
)
"""The quick tests that read a file as text, by a pattern of its name."""


Importers = Callable[[str], Iterable[str]]
"""Returns the files that import a file directly."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Test files that are run, nearest first, and those that are left out, with the reason."""

    chosen: tuple[str, ...]
    too_many: tuple[str, ...]
    """Above the limit, nearest first."""
    slow: tuple[str, ...]
    """They may start programs or servers, or take minutes."""
    own: frozenset[str]
    """Tests that changed, or that have the name of what changed."""
    unjudged: tuple[str, ...]
    """Files that changed, and that no test is known to judge."""


def select(
    changed: Sequence[str], importers: Importers, root: Path, limit: int = TEST_FILES_MAX
) -> Selection:
    """Choose the tests that read ``changed`` as text, and at most ``limit`` of all others."""
    distances: dict[str, int] = {}
    text_tests: set[str] = set()
    unjudged = []
    for file in changed:
        found = dict(_by_distance(file, importers, root))
        readers = _tests_that_read(file)
        text_tests |= readers
        for test, distance in found.items():
            distances[test] = min(distance, distances.get(test, distance))
        if not found and readers <= set(_CODE):
            unjudged.append(file)
    nearest = sorted(
        distances, key=lambda test: (distances[test], -_shared_folders(test, changed), test)
    )
    text_tests |= {test for test in nearest if test.startswith(TIDY) and test not in _STEPS}
    quick = [test for test in nearest if test.startswith(_QUICK) and test not in text_tests]
    slow = [test for test in nearest if test not in text_tests and not test.startswith(_QUICK)]
    chosen = (*quick[:limit], *sorted(text_tests))
    own = frozenset(test for test in nearest if distances[test] == 0)
    return Selection(chosen, tuple(quick[limit:]), tuple(slow), own, tuple(unjudged))


def _by_distance(file: str, importers: Importers, root: Path) -> Iterator[tuple[str, int]]:
    """Yield the farthest first, so that the nearest distance of a test counts.

    0: the file is the test, or has its name.  1: the test imports the file.  2: the test has
    the name of a module that imports the file, or imports it through another test helper.
    """
    if file.endswith("/conftest.py"):
        for test in sorted((root / file).parent.rglob("test_*.py")):
            yield test.relative_to(root).as_posix(), 2
    direct = list(importers(file)) if file.endswith(".py") else []
    for importer in direct:
        yield from ((test, 2) for test in _own(importer, root))
        if importer.startswith("tests/") and not _is_test(importer):
            yield from ((test, 2) for test in importers(importer) if _is_test(test))
    yield from ((test, 1) for test in direct if _is_test(test))
    yield from ((test, 0) for test in _own(file, root))
    if _is_test(file) and (root / file).is_file():
        yield file, 0


def _own(file: str, root: Path) -> list[str]:
    if not file.endswith(".py") or _is_test(file):
        return []
    return [*own_tests(file, root), *own_tests(file, root, "tests/programs")]


def _is_test(file: str) -> bool:
    return file.startswith("tests/") and Path(file).match("test_*.py")


def _tests_that_read(file: str) -> set[str]:
    return {test for pattern, tests in TIDY_TESTS if fnmatch(file, pattern) for test in tests}


def _shared_folders(test: str, changed: Sequence[str]) -> int:
    """Return how many folders, from the top, a test shares with the nearest changed file."""
    return max(_depth(_source_folders(test), _source_folders(file)) for file in changed)


def _source_folders(file: str) -> tuple[str, ...]:
    parts = Path(file).parent.parts
    return parts[2:] if file.startswith(_QUICK) else parts


def _depth(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
