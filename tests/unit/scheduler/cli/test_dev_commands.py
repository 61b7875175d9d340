"""``hourhand init`` writes, or refuses; ``hourhand dev`` and ``run --reload`` refuse what they
cannot run.
"""

import asyncio
import tomllib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
import watchfiles

from hourhand.scheduler.cli.reloading import python_changes
from tests.command_line import run

NAMES = {"tasks.py", "test_tasks.py", "pyproject.toml", "README.md"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make every command work in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "place", "following"),
    [
        ([], ".", "hourhand dev"),
        (["My Mails/first"], "My Mails/first", "cd 'My Mails/first' && hourhand dev"),
    ],
)
def test_a_first_program_is_written(
    folder: Path, words: list[str], place: str, following: str
) -> None:
    """And the last line is the next command."""
    done = run("init", *words)

    assert done.exit_code == 0, done.output
    assert {path.name for path in (folder / place).iterdir()} == NAMES
    assert done.stderr.splitlines()[-1] == f"hourhand: next: {following}"
    project = tomllib.loads((folder / place / "pyproject.toml").read_text())["project"]
    assert project["name"] == (folder / place).resolve().name.replace("_", "-")


@pytest.mark.parametrize("name", ["hourhand", "pytest"])
def test_a_program_has_another_name_than_what_it_needs(name: str) -> None:
    """No package may need one of its own name."""
    run("init", name)

    project = tomllib.loads((Path(name) / "pyproject.toml").read_text())["project"]
    assert project["name"] == f"{name}-app"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_file_that_exists_is_never_replaced(folder: Path, name: str) -> None:
    """Nor is any other file written, and a link that leads nowhere counts as a file."""
    (folder / name).symlink_to("elsewhere")

    done = run("init")

    assert done.exit_code == 2
    assert f"{name} exists already, and nothing was written" in done.stderr
    assert [path.name for path in folder.iterdir()] == [name]


def test_a_folder_that_cannot_be_made_is_the_callers_fault(folder: Path) -> None:
    """A file stands in its place."""
    (folder / "file").touch()

    done = run("init", "file/first")

    assert done.exit_code == 2
    assert "cannot write into 'file/first'" in done.stderr


def test_a_cluster_is_not_developed_on(folder: Path) -> None:
    """Its pauses would be everybody's."""
    done = run("dev", "--set", "log=kafka", "--set", "store=cassandra")

    assert done.exit_code == 3
    assert "add --set log=embedded --set store=embedded, or use `hourhand run --rel" in done.stderr
    assert [*folder.iterdir()] == []


def test_one_process_is_reloaded() -> None:
    """Several of them take turns in no order that a reader of their log could follow."""
    servers = ["--set", "log=kafka", "--set", "store=cassandra"]

    done = run("run", "--executor", "tasks:app", "--reload", "--processes", "2", *servers)

    assert done.exit_code == 2
    assert "--reload is for one process: leave --processes out" in done.stderr


@pytest.mark.parametrize(
    ("path", "is_watched"),
    [
        ("tasks.py", True),
        ("shop/mails.py", True),
        ("shop/fast.pyx", True),
        ("README.md", False),
        (".#tasks.py", False),
        (".venv/lib/x.py", False),
        ("venv/lib/python3.12/x.py", False),
        ("shop/node_modules/x.py", False),
        ("build/lib/tasks.py", False),
    ],
)
@pytest.mark.parametrize("place", ["project", "build/project", ".work/env/project"])
def test_changes_of_code_are_noticed_wherever_the_project_is(
    monkeypatch: pytest.MonkeyPatch, place: str, path: str, is_watched: bool
) -> None:
    """Folders are skipped below the working folder only."""
    folder = Path("/srv", place)

    async def watch(
        _folder: Path, watch_filter: Callable[[object, str], bool]
    ) -> AsyncIterator[set[tuple[None, str]]]:
        if watch_filter(None, str(folder / path)):
            yield {(None, str(folder / path))}

    monkeypatch.setattr(watchfiles, "awatch", watch)

    async def noticed() -> list[Sequence[str]]:
        return [paths async for paths in python_changes(folder)]

    assert asyncio.run(noticed()) == ([[path]] if is_watched else [])
