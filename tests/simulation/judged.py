"""One finished run, as the invariants look at it.

It sorts the history and answers questions about it; it judges nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from hourhand.actors.model.operations.events import PartitionAssigned
from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.codec import Command
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.log_offset import era_of
from hourhand.actors.model.values.settings import TreeSettings
from tests.simulation.door_facts import DoorFacts
from tests.simulation.history import (
    Committed,
    Completed,
    Ended,
    Happened,
    History,
    Noted,
    OutcomeStored,
    Started,
)
from tests.simulation.limited import Limits
from tests.simulation.truth import Truth

Complaints = Iterator[str]
"""One sentence for each violation."""

START_TO_CODE_MS = 50.0
"""Time until the store answers that a start is durable, at most; its code waits for that."""


def epoch_of(write_time: int) -> int:
    """Return the owner epoch of a write time."""
    return write_time >> EPOCH_SHIFT


@dataclass
class Run:
    """A run as an invariant judges it."""

    history: History
    truth: Truth
    partitions: int
    tree: TreeSettings
    attempts_max: int
    """Attempts that the executors' policy allows."""
    polled_most: Mapping[int, int]
    """Records that the largest poll brought, by partition."""
    pace: float
    """Factor by which everything took longer than usual."""
    wall_at_start_ms: float
    """The true wall time when the run began: what due times are compared with."""
    clocks_off_ms: float = 0.0
    """Largest error of any node's wall clock, whether or not it started anything then."""
    tries_max: int = 0
    """Number of tries of a callback."""
    advance_ms: int = 0
    """Time by which a message is passed on before its deadline."""
    limits: Limits = field(default_factory=dict)
    """Limits of its kinds."""
    lends: bool = False
    """True if nodes lend each other rates."""
    tells: bool = False
    """True if nodes tell a topic of closed tasks."""
    letters: set[tuple[int, int]] | None = None
    """Places of the in-topic whose records were put aside; None where there are no doors."""
    foreign_rows: Sequence[bytes] = ()
    """Rows that another program committed into the outbox, and that cannot be records."""
    sent_again: Collection[tuple[int, int]] = ()
    """Partition and offset of records that a producer sent again."""
    started: list[Started] = field(init=False)
    ended: dict[int, Ended] = field(init=False)
    completed: dict[TaskKey, list[Completed]] = field(init=False)

    def __post_init__(self) -> None:
        self.started = list(self.history.of(Started))
        self.ended = {entry.id: entry for entry in self.history.of(Ended)}
        self.completed = defaultdict(list)
        self._began: dict[TaskKey, list[Started]] = defaultdict(list)
        for start in self.started:
            self._began[start.key].append(start)
        for entry in self.history.of(Completed):
            self.completed[entry.key].append(entry)

    @cached_property
    def doors(self) -> DoorFacts | None:
        """Facts about the doors; None if nodes have none."""
        return None if self.letters is None else DoorFacts(self, self.letters)

    def noted(self) -> Iterator[Noted]:
        """Yield what nodes reported."""
        return self.history.of(Noted)

    @cached_property
    def _owned(self) -> set[tuple[str, int, int]]:
        """The node, partition and epoch of each ownership."""
        return {
            (each.node, each.event.partition, each.event.epoch)
            for each in self.noted()
            if isinstance(each.event, PartitionAssigned)
        }

    def continued_since(self, node: str, partition: int, epoch: int) -> int:
        """Return the first epoch since which a node had a partition with nobody in between."""
        while (node, partition, epoch - 1) in self._owned:
            epoch -= 1
        return epoch

    def was_attempted(self, key: TaskKey, epoch: int) -> bool:
        """True if an attempt began under this epoch, or one that the same owner had before it."""
        return any(
            start.epoch == epoch
            or self.continued_since(start.node, start.partition, epoch) <= start.epoch < epoch
            for start in self._began[key]
        )

    def reopened_between(self, key: TaskKey, first_ms: float, last_ms: float) -> bool:
        """True if an operator's retry reopened a key in this time."""
        return any(
            each.result == CompletionResult.REOPENED and first_ms <= each.at_ms <= last_ms
            for each in self.completed[key]
        )

    def died_at_its_start(self, partition: int, key: TaskKey) -> bool:
        """True if a node died between the durable start of a task, which counts, and its code."""
        start_ms = self.truth.last_counted_start_ms(partition, key)
        if start_ms is None:
            return False
        at_ms = start_ms - self.wall_at_start_ms
        crashes = (each.at_ms for each in self.history.of(Happened) if each.what == "crash")
        apart_ms = START_TO_CODE_MS + self.clocks_off_ms
        return any(abs(crash_ms - at_ms) <= apart_ms for crash_ms in crashes)

    def failed_before(self, key: TaskKey, at_ms: float) -> bool:
        """True if a key failed, or was opened again, last before a time.

        Its row is written again then.
        """
        ends = [each.result for each in self.completed[key] if each.at_ms <= at_ms]
        return bool(ends) and ends[-1] in (
            CompletionResult.FAILURE,
            CompletionResult.DROPPED,
            CompletionResult.EXPIRED,
            CompletionResult.REOPENED,
        )

    @cached_property
    def clocks_apart_ms(self) -> float:
        """Largest error of the wall clocks of nodes."""
        base_ms = self.wall_at_start_ms
        return max((abs(s.wall_ms - s.at_ms - base_ms) for s in self.started), default=0.0)

    def clock_stepped(self, node: str, before_ms: float, after_ms: float = 0.0) -> bool:
        """True if the wall clock of a node's machine was stepped within some time."""
        machine = node.partition(".")[0]
        return any(
            each.what.startswith("clock")
            and each.node.partition(".")[0] == machine
            and after_ms <= each.at_ms <= before_ms
            for each in self.history.of(Happened)
        )

    @cached_property
    def first_outcomes(self) -> Mapping[tuple[int, int], OutcomeStored]:
        """The first outcome of each command, by partition and offset."""
        found: dict[tuple[int, int], OutcomeStored] = {}
        for stored in self.history.of(OutcomeStored):
            found.setdefault((stored.partition, stored.offset), stored)
        return found

    def found(self, partition: int, entry: StoredTask | Command) -> StoredTask | Command:
        """Return an entry; of a command by pair with the key of the task that it was for."""
        if not isinstance(entry, Command) or not entry.by_pair:
            return entry
        stored = self.first_outcomes.get((partition, entry.offset))
        return entry if stored is None else replace(entry, key=stored.outcome.key)

    def durable_since(self) -> Callable[[int, int], float]:
        """Return a function from partition and offset to when a commit first covered it."""
        commits: dict[int, list[Committed]] = defaultdict(list)
        for commit in self.history.of(Committed):
            commits[commit.partition].append(commit)

        def since(partition: int, offset: int) -> float:
            times = (
                c.at_ms
                for c in commits[partition]
                if c.next_offset > offset and era_of(c.next_offset) == era_of(offset)
            )
            return min(times, default=float("inf"))

        return since
