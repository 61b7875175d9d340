"""A node is killed again and again over the same folder; then every promise is recounted.

``CRASH_KILLS`` says how often (``make crash``: 200), 40 kills to a folder.  A failure
names the seed; the moment of a kill also depends on the machine, so a seed repeats the load and
the drawing, not the interleaving.
"""

import os
import sqlite3
from pathlib import Path

import pytest

from tests.crash.history import RULES, Remainder, history_of
from tests.crash.killing import Killer
from tests.judge.history import History
from tests.judge.recount import recount

KILLS = int(os.environ.get("CRASH_KILLS", "15"))
KILLS_OF_A_FOLDER = 40


def drained(killer: Killer) -> History:
    """Let a last process run all that is left, and return the whole history."""
    told = [(event.key, event.place) for event in killer.events if event.kind == "told"]
    process = killer.begin_draining(told)
    while not any(event.kind == "stopping" for event in killer.events):
        assert killer.read_on(), "what commands achieved is not told"
    remainder = Remainder(killer.events)
    while remainder.read_on(killer.events) and killer.read_on():
        pass
    killer.stop(process)
    return history_of(killer.events, alive=killer.events[-1].run)


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
        history = drained(killer)
    assert_sound(tmp_path / "folder")

    findings = recount(history, RULES)
    figures = (
        f"seed {seed}: {kills} kills, {findings.accepted} tasks and"
        f" {sum(each.told_us is not None for each in history.commands)} commands acknowledged,"
        f" {findings.attempts} starts,"
        f" {len(findings.excused('P5 done again'))} repeated because in flight at a kill"
    )
    print(figures)  # noqa: T201 - pytest shows it with -s, and where the test fails
    assert findings.run > 100 * kills / 10, figures
    assert findings.told() == []
