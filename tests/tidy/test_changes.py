"""Entries of the changelog: a file for each change, which a release joins."""

import re
import shutil
import sys
from pathlib import Path

from tests.tidy.outside import run
from tests.tidy.source import ROOT, report

CHANGES = ROOT / "changes"
_NAME = re.compile(r"\+[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|fixed|removed)\.md")


def _entries() -> list[Path]:
    return [path for path in sorted(CHANGES.iterdir()) if path.name != "README.md"]


def test_each_entry_is_named_after_its_change_and_type() -> None:
    """A file with another name would be in no release."""
    report(
        f"changes/{path.name}: the name is not +NAME.added.md, changed, fixed or removed"
        for path in _entries()
        if not _NAME.fullmatch(path.name)
    )


def test_each_entry_is_one_entry_whose_links_lead_somewhere() -> None:
    """They begin at the top of the repository, where the changelog is."""
    report(
        f"changes/{path.name}: {complaint}"
        for path in _entries()
        for complaint in _complaints(path.read_text(encoding="utf-8"))
    )


def _complaints(text: str) -> list[str]:
    targets = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    broken = [f"{each} leads nowhere" for each in targets if not (ROOT / each).exists()]
    plain = text.strip() and not re.search(r"^\s*([-*#]|$)", text.strip(), re.MULTILINE)
    return broken if plain else [*broken, "it is not the text of one entry, without a bullet"]


def test_a_release_joins_the_entries_above_the_release_before(tmp_path: Path) -> None:
    """By type, and takes the files away."""
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes/+late-tasks.fixed.md").write_text("No task is late.\n")
    (tmp_path / "changes/+dev.added.md").write_text("`hourhand dev` sings.\n")

    command = ["-m", "towncrier", "build", "--yes", "--version", "0.2.0", "--date", "2027-01-01"]
    run(sys.executable, *command, cwd=tmp_path)

    before = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    after = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    head, releases = before.split("<!-- releases, the newest first -->\n")
    assert after.startswith(head)
    assert after.endswith(releases)
    added = after.removeprefix(head).removesuffix(releases).split("\n")
    assert [line for line in added if line] == [
        "<!-- releases, the newest first -->",
        "## 0.2.0 (2027-01-01)",
        "### Added",
        "- `hourhand dev` sings.",
        "### Fixed",
        "- No task is late.",
    ]
    assert [*(tmp_path / "changes").iterdir()] == []
