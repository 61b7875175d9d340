"""The checkpoint: the key up to which every open task of a partition is in memory.

Decides how far memory reaches after a load, even if it was full meanwhile and left its latest tasks
to the store. Loads nothing, and passes nothing on.
"""

from hourhand.actors.model.task.key import TaskKey

SHORT_WINDOW_MS = 60_000
"""A load of at most this range reads statuses beside its rows, because a new owner's tasks wait for
both. A page of a longer range may hold few rows, and the statuses of all would be read for each
page."""


class Checkpoint:
    """A key that loads raise and a full memory lowers; no I/O, no locks."""

    __slots__ = ("_lowered", "key")

    def __init__(self, key: TaskKey) -> None:
        self.key = key
        """Every open task up to this key is in memory or held by its ordering id."""
        self._lowered: TaskKey | None = None
        """The lowest key to which memory was lowered since the last load began."""

    def begin_load(self) -> TaskKey:
        """Return the key to load after; tasks that leave memory from here on are noted."""
        self._lowered = None
        return self.key

    def end_load(self, reached: TaskKey) -> None:
        """Note that a load reached this key, unless memory was lowered below it meanwhile."""
        assert reached >= self.key, "a load begins where memory ends"
        self.key = reached if self._lowered is None else min(reached, self._lowered)

    def lower(self, key: TaskKey) -> None:
        """Note that tasks after ``key`` left memory; a load under way may have read past it."""
        self.key = min(self.key, key)
        self._lowered = key if self._lowered is None else min(self._lowered, key)
        assert self.key <= self._lowered, "memory does not reach past what left it"
