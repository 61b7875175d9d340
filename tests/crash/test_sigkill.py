"""A node is killed again and again over the same folder; then every promise is recounted.

``CRASH_KILLS`` says how often (``make crash``: 200), 40 kills to a folder.  A failure
names the seed; the moment of a kill also depends on the machine, so a seed repeats the load and
the drawing, not the interleaving.
"""

import os
import sqlite3
from pathlib import Path

import pytest

from tests.crash.audit import (
    Journal,
    disordered,
    early,
    lost,
    overlapping,
    repeated,
    revived,
)
from tests.crash.killing import Killer

KILLS = int(os.environ.get("CRASH_KILLS", "15"))
KILLS_OF_A_FOLDER = 40


def drained(killer: Killer) -> Journal:
    """Let a last process run all that is left, and return the whole journal."""
    journal = Journal(killer.events)
    told = [
        (key, story.place) for key, story in journal.stories.items() if story.told_run is not None
    ]
    process = killer.begin_draining(told)
    while not any(event.kind == "stopping" for event in killer.events):
        assert killer.read_on(), "what commands achieved is not told"
    journal.read_on()
    unsettled = journal.unsettled()
    while unsettled and killer.read_on():
        unsettled -= journal.read_on()
    killer.stop(process)
    journal.read_on()
    return journal


def assert_sound(folder: Path) -> None:
    """Assert that SQLite finds nothing wrong with either file."""
    for name in ("log.db", "store.db"):
        connection = sqlite3.connect(folder / name)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(max(1, KILLS // KILLS_OF_A_FOLDER)))
def test_a_node_killed_again_and_again_keeps_its_promises(tmp_path: Path, seed: int) -> None:
    """Nothing acknowledged is lost; nothing runs twice but what was in flight; in order."""
    with Killer(tmp_path / "folder", seed) as killer:
        kills = min(KILLS, KILLS_OF_A_FOLDER)
        for _ in range(kills):
            killer.kill_one()
        journal = drained(killer)
    assert_sound(tmp_path / "folder")

    double, excused = repeated(journal)
    figures = (
        f"seed {seed}: {kills} kills, {_count(journal, 'acknowledged')} tasks and"
        f" {_count(journal, 'told')} commands acknowledged, {_count(journal, 'started')} starts,"
        f" {excused} repeated because in flight at a kill"
    )
    print(figures)  # noqa: T201 - pytest shows it with -s, and where the test fails
    assert _count(journal, "ended") > 100 * kills / 10, figures
    assert lost(journal) == []
    assert early(journal) == []
    assert revived(journal) == []
    assert overlapping(journal) == []
    assert double == []
    assert disordered(journal) == []


def _count(journal: Journal, kind: str) -> int:
    return sum(event.kind == kind for event in journal.events)
