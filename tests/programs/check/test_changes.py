"""What git says changed."""

import subprocess
from pathlib import Path

import pytest

from tests.check.changes import NothingToCompareError, changed_files


def _git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def _commit(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "A commit")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone with one commit on main."""
    _git(tmp_path, "init", "-q", "-b", "main")
    _commit(tmp_path, kept="1", edited="1", moved="a long text that git would follow", gone="1")
    return tmp_path


def test_all_that_differs_from_the_last_commit_is_listed(clone: Path) -> None:
    """Edited, staged, new, gone and both names of what moved; odd names as they are."""
    (clone / "edited").write_text("2")
    (clone / "gone").unlink()
    _git(clone, "mv", "moved", "there")
    (clone / "new \u00e9").write_text("1")

    assert changed_files(clone, "HEAD") == ["edited", "gone", "moved", "new \u00e9", "there"]


def test_ignored_files_are_not_listed(clone: Path) -> None:
    """Nobody means a cache."""
    _commit(clone, **{".gitignore": "cache\n"})
    (clone / "cache").write_text("1")

    assert changed_files(clone, "HEAD") == []


def test_a_branch_is_compared_from_where_this_one_left_it(clone: Path) -> None:
    """What others did on main since is not a change of ours."""
    _git(clone, "switch", "-q", "-c", "ours")
    _commit(clone, edited="2")
    _git(clone, "switch", "-q", "main")
    _commit(clone, kept="2")
    _git(clone, "switch", "-q", "ours")

    assert changed_files(clone, "main") == ["edited"]


def test_names_are_relative_to_the_project(clone: Path) -> None:
    """It may be a folder of a larger clone."""
    (clone / "project").mkdir()
    (clone / "project/new").write_text("1")
    (clone / "edited").write_text("2")

    assert changed_files(clone / "project", "HEAD") == ["new"]


def test_a_folder_that_is_not_a_clone_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who unpacked an archive can run everything."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(NothingToCompareError, match=r"not a git repository[\s\S]*make test-unit"):
        changed_files(tmp_path, "HEAD")


def test_a_base_that_does_not_exist_is_named(clone: Path) -> None:
    """A branch that was never fetched, say."""
    with pytest.raises(NothingToCompareError, match="nowhere"):
        changed_files(clone, "nowhere")


def test_git_that_is_missing_is_named(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with no Python."""
    monkeypatch.setenv("PATH", "")

    with pytest.raises(NothingToCompareError, match="git is not installed"):
        changed_files(clone, "HEAD")
