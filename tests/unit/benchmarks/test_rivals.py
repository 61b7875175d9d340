"""What happens where a rival cannot be run, and what all of them answer alike."""

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.families import throughput
from benchmarks.loads import Load
from benchmarks.program import ROOT
from benchmarks.rivals import awa, celery, graphile_worker, honker, huey, pgqueuer, river
from benchmarks.rivals.rival import Rival
from benchmarks.servers import missing_rivals

RIVALS = [*throughput.RIVALS, *throughput.FILE_RIVALS]


class Counting:
    """A connection whose every statement counts three jobs."""

    def execute(self, statement: str) -> "Counting":
        """Take a statement."""
        assert statement.lstrip().startswith("SELECT")
        return self

    def fetchone(self) -> tuple[int]:
        """Return the count."""
        return (3,)


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
def test_what_is_left_follows_from_what_a_rival_counts(rival: Rival) -> None:
    """Some count the jobs that are done, others those that are there yet."""
    connection: Any = Counting()

    assert rival.left(connection, 10) == (7 if rival.counts_done else 3)


def test_jobs_are_due_in_the_steps_of_their_rival() -> None:
    """COPY of awa-pg takes one due time a call."""
    load = Load(10, 10, due_s=1.0, rate=300.0)

    assert (awa.RIVAL.due_ms(load, 4), pgqueuer.RIVAL.due_ms(load, 4)) == (1_010, 1_013)


def test_the_page_states_the_versions_that_are_compared() -> None:
    """Those that are pinned, and no others."""
    pinned = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    versions = {
        name: re.findall(rf'"{name.lower()}[^"=]*==([^"]+)"', pinned)
        for name in (awa.NAME, celery.NAME, huey.NAME, pgqueuer.NAME)
    }
    versions[honker.NAME] = [honker.VERSION]
    versions[graphile_worker.NAME] = [graphile_worker.VERSION]
    versions[river.NAME] = [river.VERSION]

    assert {name: re.findall(rf"{name} (\d[\d.]*\d)", page) for name in versions} == versions


def test_river_is_built_in_the_version_that_is_told() -> None:
    """Go reads it from the file beside the program."""
    pinned = Path(river.__file__).with_name("go.mod").read_text(encoding="utf-8")

    assert f"github.com/riverqueue/river v{river.VERSION}\n" in pinned


def test_what_survives_is_told_beside_each_rival() -> None:
    """Of Hourhand first, which differs between its storages."""
    assert throughput.survival("embedded", honker.RIVAL.name) == {"survives": "yes / yes; yes / no"}
    assert throughput.survival("drain_cluster", awa.NAME) == {"survives": "yes / no; yes / yes"}
    assert throughput.survival("limit_ratio", "bare loop") == {}


def test_without_celery_nothing_is_compared_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark says so and goes on."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert not celery.is_installed()

    assert "*** WITHOUT Celery" in capsys.readouterr().err


def test_without_node_graphile_worker_is_left_out_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark says so and goes on."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert missing_rivals() == {graphile_worker.NAME}

    told = capsys.readouterr().err
    assert "*** WITHOUT Graphile Worker: Node.js and npm are needed" in told
