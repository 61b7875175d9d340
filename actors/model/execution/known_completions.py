"""The completions of one partition that are known from memory.

While a partition is owned only its owner writes completions, so all of them are known back to a
bound, which is raised to keep within a number of them and of bytes. Decides whether a key is closed
if that can be told without the store. Written by the CompletionTracker alone; read by all roles on
the partition's dispatcher, because a question and an answer for each task would cost more than all
other work for it there.
"""

from collections.abc import Collection
from itertools import islice

from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.task.task import StoredTask

_SAMPLE_KEYS = 200
"""Keys whose median stands for that of all: to sort them all takes as long as all else here."""


class KnownCompletions:
    """A dictionary with a bound; no I/O, no locks."""

    __slots__ = ("_bound", "_bytes_max", "_completions", "_completions_max", "_size_bytes")

    def __init__(self, bound_ms: int, completions_max: int, bytes_max: int) -> None:
        assert min(completions_max, bytes_max) > 0, "what was just closed is always known"
        self._completions: dict[TaskKey, Completion] = {}
        self._completions_max = completions_max
        self._bytes_max = bytes_max
        self._size_bytes = 0
        """Includes completions that were replaced, until it is counted again."""
        self._bound = first_key_at(bound_ms)
        """Every completion of a loaded key after this one is known. It is a key and not a time,
        because any number of tasks may be due in one millisecond."""

    def find(self, key: TaskKey) -> Completion | None:
        """Return the completion of a key, if it is known."""
        return self._completions.get(key)

    def is_closed(self, task: StoredTask) -> bool | None:
        """True if a loaded row is closed; None if only the store can tell."""
        completion = self._completions.get(task.key)
        if completion is not None:
            return completion.closes(task.offset)
        return False if task.key > self._bound else None

    def covers(self, key: TaskKey) -> bool:
        """True if a completion of this key belongs here."""
        return key > self._bound

    def remember(self, *completions: Completion) -> bool:
        """Add completions; return True if the limit is exceeded."""
        self._completions.update([(each.key, each) for each in completions])
        self._size_bytes += sum([each.size_bytes for each in completions])
        return self._is_over()

    def forget_older(self, undurable: Collection[TaskKey]) -> None:
        """Raise the bound by about halves; completions that are not durable yet are known only
        here, so they stay.
        """
        assert self._is_over(), "only a full memory forgets"
        if len(self._completions) <= self._completions_max:
            self._count_bytes()
        while self._is_over():
            step = 1 + len(self._completions) // _SAMPLE_KEYS
            keys = sorted(
                key for key in islice(self._completions, 0, None, step) if key not in undurable
            )
            if not keys:
                break
            bound = self._bound = max(self._bound, keys[len(keys) // 2])
            self._completions = {
                key: completion
                for key, completion in self._completions.items()
                if key > bound or key in undurable
            }
            self._count_bytes()

    def _count_bytes(self) -> None:
        self._size_bytes = sum([each.size_bytes for each in self._completions.values()])

    def _is_over(self) -> bool:
        return len(self._completions) > self._completions_max or self._size_bytes > self._bytes_max
