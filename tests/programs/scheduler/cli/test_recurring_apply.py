"""A file of recurring schedules, applied to an installation with a node."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from typer.testing import Result

from hourhand import Scheduler
from tests.builders import Idle
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of
from tests.waiting import until


class _File:
    """A file of schedules, and the installation that it is applied to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.path = folder / "schedules.toml"
        self.lines: dict[str, str] = {}

    def write(self, name: str = "billing", **rules: str) -> None:
        """Change rules of the file; an empty one leaves it."""
        self.lines |= rules
        tables = (f"[schedules.{each}]\n{rule}\n" for each, rule in self.lines.items() if rule)
        self.path.write_text(f'name = "{name}"\n' + "".join(tables))

    def apply(self, *options: str) -> Result:
        """Apply it."""
        return invoke(self.folder, "recurring", "apply", str(self.path), *options)

    def listed(self) -> Mapping[str, Any]:
        """Return the schedules that are there."""
        listed = answer(self.folder, "recurring", "list")["recurring"]
        return {each["name"]: each for each in listed}

    def await_names(self, *names: str) -> None:
        """Wait until these schedules are there, and no other."""
        until(lambda: set(self.listed()) == set(names))


def test_a_file_creates_changes_and_removes_its_own_schedules(tmp_path: Path) -> None:
    """Schedules of others stay, paused ones stay paused, and a dry run changes nothing."""
    file = _File(tmp_path)
    with Scheduler(settings_of(file.folder), executor=Idle) as node:
        node.schedule_recurring("by_hand", every=timedelta(hours=1)).result(30)
        file.write(kept='every = "1h"', changed='every = "1h"', removed='every = "1h"')
        first = file.apply()
        assert "created    changed" in first.output
        file.await_names("by_hand", "kept", "changed", "removed")
        assert invoke(file.folder, "recurring", "pause", "kept", "changed", "--yes").exit_code == 0
        before = file.listed()

        file.write(changed='cron = "@daily"', removed="", made='every = "2h"')
        dry = file.apply("--dry-run")
        told = ["created    made", "changed    changed", "removed    removed", "unchanged  1"]
        assert dry.stdout.splitlines() == told
        assert "--yes" in file.apply().output
        assert file.listed() == before
        assert file.apply("--yes").exit_code == 0
        file.await_names("by_hand", "kept", "changed", "made")
        after = file.listed()
        assert after["kept"] == before["kept"]
        assert after["changed"]["paused"]
        assert after["changed"]["rule"]["cron"] == "0 0 * * *"
        assert {each["owner"] for each in after.values()} == {None, "file:billing"}

        assert file.apply().stdout.splitlines() == ["unchanged  3"]
        file.write("other")
        refused = file.apply()
        assert refused.exit_code == 2
        assert "belong to another owner" in refused.output


def test_a_backfill_is_shown_agreed_and_made(tmp_path: Path) -> None:
    """Each past time once."""
    folder = tmp_path / "data"
    with Scheduler(settings_of(folder), executor=Idle) as node:
        node.schedule_recurring("nightly", cron="@daily").result(30)
        until(lambda: node.find_recurring("nightly") is not None)
        span = ("recurring", "backfill", "nightly", "--from", "-72h")
        assert invoke(folder, *span, "--dry-run").output.count("would make") == 3
        assert "--yes" in invoke(folder, *span).output
        done = invoke(folder, *span, "--yes")
        assert done.exit_code == 0, done.output
        assert done.output.count("made  ") == 3
        until(lambda: len(answer(folder, *span, "--dry-run")["there"]) == 3)
