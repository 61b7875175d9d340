"""What was acknowledged is on the disk: power cuts of a real node, at moments drawn from a seed.

``make power-cut CUTS=2000`` makes many.  A run differs with the machine's speed, so a seed repeats
the load and the drawing, and a failure shows the cut.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.power_cut.__main__ import cut_power
from tests.power_cut.cutting import Tally, power_cuts
from tests.power_cut.recording import Recording, compile_recorder, record
from tests.power_cut.trace import Event
from tests.servers.preload import CannotPreload

CUTS_OF_A_FIRST_RUN = 20
CUTS_OF_A_STORY = 30
CUTS_OF_A_RUN = 10
_EVENTS = 3_000
_CUTS_OF_A_FORGETFUL_DISK = 12


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorder; CI has to have a compiler."""
    try:
        return compile_recorder(tmp_path_factory.mktemp("recorder"))
    except CannotPreload as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def recording(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A first run over an empty folder, killed."""
    root = tmp_path_factory.mktemp("recorded") / "root"
    root.mkdir()
    return record(root, library, seed=0, run=0, events_max=_EVENTS)


def judged(recording: Recording, cuts: int, place: Path) -> Tally:
    """Judge the rows that power cuts of a first run leave."""
    tally = Tally()
    for moment, notes, state in power_cuts(recording, (), cuts, random.Random(0), place / "cut"):
        tally.judge(state, notes, f"cut after {moment} changes", None)
    return tally


@pytest.mark.slow
def test_p1_what_was_acknowledged_outlives_a_power_cut(
    recording: Recording, tmp_path: Path
) -> None:
    """Of the log and the store, of an outbox and of large data beside the folder; and what is done
    is not done again.
    """
    tally = judged(recording, CUTS_OF_A_FIRST_RUN, tmp_path)

    assert tally.accepted > CUTS_OF_A_FIRST_RUN * 20
    assert [str(each) for each in tally.findings] == []


@pytest.mark.slow
def test_p1_a_node_goes_on_after_each_of_several_power_cuts(tmp_path: Path, library: Path) -> None:
    """Each run begins with what a cut of the one before had left; nodes run what some cuts left."""
    tally = cut_power(tmp_path, library, CUTS_OF_A_STORY, 0, CUTS_OF_A_RUN)

    print(tally.line())  # noqa: T201 - pytest shows it with -s, and where the test fails
    assert tally.lived > 0
    assert [str(each) for each in tally.findings] == []


class Names:
    """Which path an inode of a recording has, or had last."""

    def __init__(self, recording: Recording) -> None:
        self._names = {event.inode: event.path for event in recording.events if event.path}

    def of(self, event: Event) -> str:
        """Return the path of the file or folder that an event is about."""
        return self._names.get(event.inode, "")


FORGOTTEN: dict[str, Callable[[str], bool]] = {
    "the write-ahead files": lambda path: path.endswith("-wal"),
    "the log alone": lambda path: path.endswith("log.db-wal"),
    "the folder's names": lambda path: path.endswith("hourhand"),
    "the names above the folder": lambda path: path in {"var", "var/lib"},
    "the application's database": lambda path: "shop.db" in path,
    "the files of claims": lambda path: path.startswith("claims") and path.count("/") == 4,
    "the names of claims": lambda path: path.startswith("claims"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", FORGOTTEN)
def test_a_sync_that_is_left_out_is_noticed(
    what: str, recording: Recording, tmp_path: Path
) -> None:
    """A judge that never complains proves nothing: the same run on a disk that forgets a sync."""
    names, forgets = Names(recording), FORGOTTEN[what]
    kept = [each for each in recording.events if each.kind != "S" or not forgets(names.of(each))]
    assert len(kept) < len(recording.events)

    tally = judged(Recording(recording.before, kept), _CUTS_OF_A_FORGETFUL_DISK, tmp_path)

    assert tally.findings
