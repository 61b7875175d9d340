"""Which test files judge a change."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.check.selection import TIDY_TESTS, Selection, select
from tests.tidy.source import ROOT, report

Select = Callable[..., Selection]

_FILES = (
    "tests/unit/actors/model/task/test_key.py",
    "tests/unit/actors/model/task/test_task.py",
    "tests/unit/actors/test_turn.py",
    "tests/unit/scheduler/test_store.py",
    "tests/property/test_key.py",
    "tests/programs/actors/model/task/test_key.py",
    "tests/integration/test_store.py",
    "tests/tidy/test_names.py",
)
_IMPORTERS = {
    "actors/model/task/key.py": [
        "actors/model/task/task.py",
        "scheduler/store.py",
        "tests/builders.py",
        "tests/integration/test_store.py",
        "tests/property/test_key.py",
        "tests/unit/actors/model/task/test_key.py",
    ],
    "tests/builders.py": ["tests/unit/actors/test_turn.py"],
}


@pytest.fixture
def chosen(tmp_path: Path) -> Select:
    """Select in a small tree of files, by what imports what there."""
    for name in _FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def importers(file: str) -> Iterable[str]:
        return _IMPORTERS.get(file, ())

    def chosen(*changed: str, limit: int = 40) -> Selection:
        return select(changed, importers, tmp_path, limit)

    return chosen


def _tests(selection: Selection) -> list[str]:
    return [test for test in selection.chosen if not test.startswith("tests/tidy/")]


def test_the_nearest_tests_come_first(chosen: Select) -> None:
    """Own ones, those that import the change, those of its importers and through helpers."""
    selection = chosen("actors/model/task/key.py")

    assert _tests(selection) == [
        "tests/unit/actors/model/task/test_key.py",
        "tests/property/test_key.py",
        "tests/unit/actors/model/task/test_task.py",
        "tests/unit/actors/test_turn.py",
        "tests/unit/scheduler/test_store.py",
    ]


def test_what_is_above_the_limit_is_left_out_farthest_first(chosen: Select) -> None:
    """And is named."""
    selection = chosen("actors/model/task/key.py", limit=3)

    assert len(_tests(selection)) == 3
    assert selection.too_many == (
        "tests/unit/actors/test_turn.py",
        "tests/unit/scheduler/test_store.py",
    )


def test_tests_that_may_be_slow_are_named_and_not_run(chosen: Select) -> None:
    """Those that start programs, and those on servers."""
    selection = chosen("actors/model/task/key.py")

    assert selection.slow == (
        "tests/programs/actors/model/task/test_key.py",
        "tests/integration/test_store.py",
    )
    assert not set(selection.slow) & set(selection.chosen)
    assert "tests/programs/actors/model/task/test_key.py" in selection.own
    assert "tests/integration/test_store.py" not in selection.own


def test_a_changed_test_file_runs_itself(chosen: Select) -> None:
    """One that is gone does not, and one on servers is named."""
    gone = "tests/unit/actors/test_gone.py"

    selection = chosen("tests/unit/actors/test_turn.py", gone, "tests/integration/test_store.py")

    assert _tests(selection) == ["tests/unit/actors/test_turn.py"]
    assert selection.slow == ("tests/integration/test_store.py",)
    assert selection.slow[0] in selection.own


def test_a_changed_test_helper_runs_the_tests_that_import_it(chosen: Select) -> None:
    """Builders, probes, fakes."""
    assert _tests(chosen("tests/builders.py")) == ["tests/unit/actors/test_turn.py"]


def test_changed_fixtures_run_the_tests_of_their_folder(chosen: Select) -> None:
    """Nothing imports a conftest.py: pytest finds it by its place."""
    assert _tests(chosen("tests/property/conftest.py")) == ["tests/property/test_key.py"]


def test_a_changed_tidy_test_is_run_once(chosen: Select) -> None:
    """It also reads itself, as it reads every source."""
    assert chosen("tests/tidy/test_names.py").chosen.count("tests/tidy/test_names.py") == 1


def test_what_the_steps_run_is_not_run_by_the_tests_once_more(chosen: Select) -> None:
    """The linters are steps of their own."""
    selection = select(["tests/tidy/test_contracts.py"], lambda _: (), ROOT)

    assert "tests/tidy/test_contracts.py" not in selection.chosen
    assert selection.slow == ("tests/tidy/test_contracts.py",)


def test_a_page_is_judged_by_the_tests_that_read_pages(chosen: Select) -> None:
    """And by no test of code."""
    selection = chosen("docs/security.md")

    assert "tests/tidy/test_docs.py" in selection.chosen
    assert "tests/tidy/test_security_page.py" in selection.chosen
    assert "tests/tidy/test_style.py" not in selection.chosen
    assert selection.unjudged == ()


def test_a_file_that_no_test_is_known_of_is_named(chosen: Select) -> None:
    """A source without tests of its name, and data that no pattern has."""
    changed = ("scheduler/alone.py", "tests/simulation/seeds.txt")

    assert chosen(*changed).unjudged == changed


def test_the_table_names_what_is_there() -> None:
    """Tests that exist, and patterns that at least one file of the project has."""
    top = [path for path in ROOT.iterdir() if path.name not in {".git", ".venv", "build"}]
    files = [each for path in top for each in (path.rglob("*") if path.is_dir() else [path])]
    names = [file.relative_to(ROOT).as_posix() for file in files]

    report(
        f"{pattern}: no such file, or no such test"
        for pattern, tests in TIDY_TESTS
        if not any(fnmatch(name, pattern) for name in names)
        or not all((ROOT / test).is_file() for test in tests)
    )
