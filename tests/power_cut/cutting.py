"""Cuts the power of recorded runs at moments drawn from a seed, and judges what is left.

A story has several runs over one folder: each begins with what a cut of the run before had left, so
that what a cut leaves is written to, and cut, again.
"""

import copy
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.journal import Event as Note
from tests.power_cut import trace
from tests.power_cut.disk import Draw
from tests.power_cut.judging import live, look
from tests.power_cut.recording import NOT_KEPT, Recording, record

RUNS_OF_A_STORY = 4
_JOURNAL = "journal"
_EVENTS_MAX = (2_000, 8_000)
"""A run is killed after so many changes of its files; most are kept short."""
_TASKS_MAX = (50, 400)
_STOPPED = 0.25
"""Share of the runs that are stopped, and not killed."""
_LOOK_BACK = 40
"""A cut of every second kind comes so many changes before a sync, or less."""
_COMPLAINTS_MAX = 5
_ACCEPTED = frozenset({"acknowledged", "committed", "told"})


@dataclass(slots=True)
class Finding:
    """A cut after which a promise is broken."""

    where: str
    complaints: list[str]

    def __str__(self) -> str:
        more = len(self.complaints) - _COMPLAINTS_MAX
        lines = [*self.complaints[:_COMPLAINTS_MAX], *([f"and {more} more"] if more > 0 else [])]
        return "\n  ".join([self.where, *lines])


@dataclass(slots=True)
class Tally:
    """What was tried, and what was found."""

    cuts: int = 0
    lived: int = 0
    runs: int = 0
    changes: int = 0
    accepted: int = 0
    """Acknowledged and committed tasks, and commands, at the cuts."""
    findings: list[Finding] = field(default_factory=list)

    def judge(self, state: Path, notes: Sequence[Note], where: str, lived_as: int | None) -> None:
        """Judge what a cut left, with a node of this run as well where one is given."""
        self.cuts += 1
        self.accepted += sum(each.kind in _ACCEPTED for each in notes)
        complaints = look(state, notes)
        if lived_as is not None and not complaints:
            self.lived += 1
            complaints = live(state, notes, lived_as)
        if complaints:
            self.findings.append(Finding(where, complaints))

    def line(self) -> str:
        """Return the figures."""
        return (
            f"{self.cuts} power cuts, {self.lived} of them followed by a node, in {self.runs} runs"
            f" of {self.changes} changes; {self.accepted} times something acknowledged was looked"
            f" for; violations {len(self.findings)}"
        )


class Story:
    """Runs over one folder, each cut at many moments."""

    def __init__(self, place: Path, library: Path, seed: int) -> None:
        self._place = place
        self._library = library
        self._seed = seed
        self._rng = random.Random(seed)
        self._notes: Sequence[Note] = ()
        """What was told before the run under way."""
        self._base = place / "run-0"
        self._base.mkdir(parents=True)

    def run(self, number: int, cuts: int, lives: int, tally: Tally) -> None:
        """Record a run, judge ``cuts`` power cuts in it, ``lives`` of them with a node as well."""
        recording = self._record(number)
        tally.runs += 1
        tally.changes += len(recording.events)
        lived = set(self._rng.sample(range(cuts), min(cuts, lives)))
        chosen = self._rng.randrange(cuts)
        next_base, next_notes = self._place / f"run-{number + 1}", self._notes
        left = power_cuts(recording, self._notes, cuts, self._rng, self._place / "cut")
        for cut, (moment, notes, state) in enumerate(left):
            if cut == chosen:
                shutil.copytree(state, next_base)
                next_notes = tuple(notes)
            where = f"seed {self._seed}, run {number}, cut after {moment} of its changes"
            tally.judge(state, notes, where, number + 1 if cut in lived else None)
        shutil.rmtree(self._base)
        self._base, self._notes = next_base, next_notes

    def _record(self, number: int) -> Recording:
        seed = self._seed
        if self._rng.random() < _STOPPED:
            tasks_max = self._rng.randint(*_TASKS_MAX)
            return record(self._base, self._library, seed=seed, run=number, tasks_max=tasks_max)
        events_max = self._rng.randint(*_EVENTS_MAX)
        return record(self._base, self._library, seed=seed, run=number, events_max=events_max)


def power_cuts(
    recording: Recording, notes: Sequence[Note], cuts: int, rng: random.Random, place: Path
) -> Iterator[tuple[int, Sequence[Note], Path]]:
    """Yield power cuts of a run in their order: after how many of its changes, what was noted until
    then, after ``notes``, and a folder with what is left, which is there until the next one.
    """
    told, disk = list(notes), copy.deepcopy(recording.before)
    disk.root.names.pop(_JOURNAL, None)
    moments, journal, rest = _moments(recording.events, cuts, rng), -1, b""
    for number, event in enumerate([*recording.events, None]):
        while moments and moments[0] == number:
            disk.write_cut(place, Draw.of(rng))
            for each in place.rglob(f"*{NOT_KEPT}"):
                each.unlink()
            yield moments.pop(0), told, place
            shutil.rmtree(place)
        if event is None:
            return
        if event.kind == "C" and event.path == _JOURNAL:
            journal = event.inode
        elif event.kind == "W" and event.inode == journal:
            *lines, rest = (rest + event.data).split(b"\n")
            told += map(Note.parse, lines)
        else:
            disk.take(event)


def _moments(events: Sequence[trace.Event], cuts: int, rng: random.Random) -> list[int]:
    """Return, in order, after how many changes to cut: anywhere, or shortly before a sync."""
    syncs = [number for number, event in enumerate(events) if event.kind == "S"]
    moments = [rng.randint(0, len(events)) for _ in range(cuts)]
    for cut in range(1, cuts if syncs else 0, 2):
        moments[cut] = max(0, rng.choice(syncs) - rng.randint(0, _LOOK_BACK))
    return sorted(moments)
