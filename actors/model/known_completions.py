"""The completions of one partition that are known from memory.

As long as a partition is owned nobody else writes completions, so all of them are known back to
a bound, which is raised to keep within the memory limit.  Decides whether a key is closed where
that can be told without the store.  Written by the CompletionTracker alone; read by everybody
on the partition's dispatcher, because a question and an answer for each task would cost more
than all else that is done for it there.
"""

from collections.abc import Collection

from actors.model.key import TaskKey
from actors.model.status import Completion
from actors.model.task import StoredTask


class KnownCompletions:
    """A dictionary with a bound; no I/O, no locks."""

    __slots__ = ("_bound_ms", "_completions", "_completions_max")

    def __init__(self, bound_ms: int, completions_max: int) -> None:
        assert completions_max > 0, "what was just closed is always known"
        self._completions: dict[TaskKey, Completion] = {}
        self._completions_max = completions_max
        self._bound_ms = bound_ms
        """Every completion of a loaded key at or after this time is known."""

    def find(self, key: TaskKey) -> Completion | None:
        """Return the completion of a key, where it is known."""
        return self._completions.get(key)

    def is_closed(self, task: StoredTask) -> bool | None:
        """Whether a loaded row is closed; None where only the store can tell."""
        completion = self._completions.get(task.key)
        if completion is not None:
            return completion.closes(task.offset)
        return False if task.key.scheduled_ms >= self._bound_ms else None

    def covers(self, key: TaskKey) -> bool:
        """Whether a completion of this key belongs here."""
        return key.scheduled_ms >= self._bound_ms

    def remember(self, completion: Completion) -> bool:
        """Take note of a completion; True where there are more than there should be."""
        self._completions[completion.key] = completion
        return len(self._completions) > self._completions_max

    def forget_older_half(self, undurable: Collection[TaskKey]) -> None:
        """Raise the bound; what is not durable yet is known here only, so it stays."""
        assert self._completions, "only a full memory forgets"
        times = sorted(key.scheduled_ms for key in self._completions)
        self._bound_ms = max(self._bound_ms, times[len(times) // 2] + 1)
        self._completions = {
            key: completion
            for key, completion in self._completions.items()
            if key.scheduled_ms >= self._bound_ms or key in undurable
        }
