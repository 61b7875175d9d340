"""The checkpoint: up to which key every open task of a partition is in memory.

Decides how far memory reaches after a load, also where it was full meanwhile and left its latest
tasks to the store.  Loads nothing, and passes nothing on.
"""

from actors.model.key import TaskKey

SHORT_WINDOW_MS = 60_000
"""A load of no more than this reads statuses beside its rows: a new owner's tasks wait for both.
Of a longer one a page may hold little, and the statuses of all would be read for each page."""


class Checkpoint:
    """A key that loads raise and a full memory lowers; no I/O, no locks."""

    __slots__ = ("_lowered", "key")

    def __init__(self, key: TaskKey) -> None:
        self.key = key
        """Every open task up to this key is in memory or held by its ordering id."""
        self._lowered: TaskKey | None = None
        """The lowest key that memory was lowered to since the last load began."""

    def begin_load(self) -> TaskKey:
        """Return after which key to load; what leaves memory from here on counts."""
        self._lowered = None
        return self.key

    def end_load(self, reached: TaskKey) -> None:
        """A load reached this key, unless memory was lowered below it meanwhile."""
        assert reached >= self.key, "a load begins where memory ends"
        self.key = reached if self._lowered is None else min(reached, self._lowered)

    def lower(self, key: TaskKey) -> None:
        """Tasks after ``key`` left memory; a load under way may have read past it."""
        self.key = min(self.key, key)
        self._lowered = key if self._lowered is None else min(self._lowered, key)
        assert self.key <= self._lowered, "memory does not reach past what left it"
