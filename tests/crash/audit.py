"""Recounts what the killed processes wrote down, knowing the promises and not the engine.

Each check returns complaints; none means that the promise held.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.crash.journal import NO_PLACE, Event, Key, Place
from tests.crash.load import ordering_of

_LOOK_BACK = 50
"""So many tasks of an ordering id are compared with each; a process rarely leaves more."""
_MOVES = {"reschedule", "run_now"}


@dataclass(slots=True)
class Story:
    """What happened to one task, as indices into the journal."""

    acknowledged_run: int | None = None
    committed: bool = False
    """Written into an outbox, in a transaction whose commit returned."""
    withdrawn: bool = False
    """Written into an outbox, in a transaction that was rolled back."""
    starts: list[int] = field(default_factory=list)
    endings: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By start: when it ended, and how."""
    intended: bool = False
    told_run: int | None = None
    word: str = ""
    place: Place = NO_PLACE

    @property
    def ended(self) -> bool:
        """True if an attempt of it ended well."""
        return any(how == "ended" for _, how in self.endings.values())


class Journal:
    """All events of a folder, sorted into stories."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.stories: dict[Key, Story] = defaultdict(Story)
        self.outcomes: dict[Place, tuple[str, int]] = {}
        self._taken = 0
        self.read_on()

    def read_on(self) -> set[Key]:
        """Take what was added to the events since; return what ended well meanwhile."""
        added = range(self._taken, len(self.events))
        for index in added:
            self._take(index, self.events[index])
        self._taken = len(self.events)
        return {self.events[index].key for index in added if self.events[index].kind == "ended"}

    def _take(self, index: int, event: Event) -> None:
        story = self.stories[event.key]
        match event.kind:
            case "acknowledged":
                story.acknowledged_run = event.run
            case "committed":
                story.committed = True
            case "withdrawn":
                story.withdrawn = True
            case "started":
                story.starts.append(index)
            case "failed" | "ended":
                story.endings[story.starts[-1]] = (index, event.kind)
            case "intended":
                story.intended = True
            case "told":
                story.told_run, story.place, story.word = event.run, event.place, event.word
            case "outcome":
                self.outcomes[event.place] = (event.word, event.time_ms)
            case other:
                assert other == "stopping", other

    def owed(self) -> Iterable[Key]:
        """Yield every key that must have run, by what was acknowledged (P1, P12, P25)."""
        for key, story in tuple(self.stories.items()):
            accepted = story.acknowledged_run is not None or story.committed
            if not accepted or (story.intended and story.told_run is None):
                # Whether a command that was never acknowledged is in the log, nobody knows.
                continue
            outcome, to_ms = self.outcomes.get(story.place, ("", 0))
            if story.told_run is None or outcome in {"too_late", "already_closed"}:
                yield key
            elif outcome == "applied" and story.word in _MOVES:
                yield Key(to_ms, key.number)

    def unsettled(self) -> set[Key]:
        """Return what is owed and has not ended."""
        return {key for key in self.owed() if not self.stories[key].ended}


def lost(journal: Journal) -> list[str]:
    """P1: what was acknowledged ran, and every command has an outcome."""
    complaints = [f"{key} was acknowledged and never ended" for key in journal.unsettled()]
    for key, story in journal.stories.items():
        if story.told_run is None:
            continue
        outcome, _ = journal.outcomes[story.place]
        if outcome in {"unknown_key", "undecided"}:
            complaints.append(f"the {story.word} of {key} was acknowledged and is {outcome}")
    return complaints


def uninvited(journal: Journal) -> list[str]:
    """P25: no task of a transaction that was rolled back started."""
    return [
        f"{key} started, and its transaction was rolled back"
        for key, story in journal.stories.items()
        if story.withdrawn and story.starts
    ]


def revived(journal: Journal) -> list[str]:
    """P6, P12: what an acknowledged command closed starts in no later process."""
    complaints = []
    for key, story in journal.stories.items():
        outcome, to_ms = journal.outcomes.get(story.place, ("", 0))
        # What is asked to run in the very millisecond it is due in, stays where it is.
        closed = outcome in {"applied", "running"} and to_ms != key.scheduled_ms
        for start in story.starts if closed else ():
            run = journal.events[start].run
            if run > (story.told_run or 0):
                complaints.append(f"{key}: {story.word} in run {story.told_run}, started in {run}")
    return complaints


def early(journal: Journal) -> list[str]:
    """P2: no start before its time."""
    return [
        f"{event.key} started at {event.time_ms}"
        for event in journal.events
        if event.kind == "started" and event.time_ms < event.key.scheduled_ms
    ]


def overlapping(journal: Journal) -> list[str]:
    """P3: within a process, an ordering id's attempt ends before its next one starts."""
    complaints = []
    running: dict[tuple[int, str], Key] = {}
    for event in journal.events:
        slot = (event.run, ordering_of(event.key.number))
        if event.kind == "started":
            if slot in running:
                complaints.append(f"{event.key} started while {running[slot]} ran")
            running[slot] = event.key
        elif event.kind in {"failed", "ended"}:
            running.pop(slot, None)
    return complaints


def repeated(journal: Journal) -> tuple[list[str], int]:
    """P5: a start after an end only for the last task of its id that the killed process ran.

    Also returns how many were repeated rightly.
    """
    last_start: dict[tuple[int, str], int] = {}
    for index, event in enumerate(journal.events):
        if event.kind == "started":
            last_start[event.run, ordering_of(event.key.number)] = index
    complaints, excused = [], 0
    for key, story in journal.stories.items():
        for start, again in zip(story.starts, story.starts[1:], strict=False):
            run = journal.events[start].run
            _, how = story.endings.get(start, (0, "killed"))
            if how == "failed":
                continue
            if run < journal.events[again].run and last_start[run, ordering_of(key.number)] == (
                start
            ):
                excused += 1
            else:
                complaints.append(f"{key} {how} in run {run} and started again")
    return complaints, excused


def disordered(journal: Journal) -> list[str]:
    """P4: what was acknowledged before a process began, it starts in key order."""
    by_id: dict[str, list[tuple[int, Key]]] = defaultdict(list)
    for key, story in journal.stories.items():
        if story.acknowledged_run is not None and not story.intended:
            first = story.starts[0] if story.starts else len(journal.events)
            by_id[ordering_of(key.number)].append((first, key))
    complaints = []
    for starts in by_id.values():
        keys = sorted(key for _, key in starts)
        firsts = {key: first for first, key in starts}
        for place, later in enumerate(keys):
            if firsts[later] == len(journal.events):
                continue
            run = journal.events[firsts[later]].run
            complaints += [
                f"{later} started in run {run} before {earlier}"
                for earlier in keys[max(0, place - _LOOK_BACK) : place]
                if firsts[earlier] > firsts[later]
                and (journal.stories[earlier].acknowledged_run or 0) < run
                and (journal.stories[later].acknowledged_run or 0) < run
            ]
    return complaints
