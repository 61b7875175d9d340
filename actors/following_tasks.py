"""Tasks that may be in one batch with the task at hand of their ordering id, behind it.

Each has an attempt of its own, which begins beside that of the task before it and counts only once
that task is durably closed (P4).  Decides which tasks follow, and which of their attempts still
count.  Never decides what becomes of an attempt.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from actors.model.attempts import Attempt, AttemptEnded, Ending, finished_event
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.key import TaskKey
from actors.model.known_completions import KnownCompletions
from actors.model.ordering_queue import OrderingQueue
from actors.model.task import FRESH, StoredTask
from actors.ports.effects import Effects
from actors.ports.runner import Executable


@dataclass(slots=True)
class Follower:
    """One task behind the task at hand."""

    task: StoredTask
    attempt: Attempt | None = None
    """None until the task at hand begins, and once that has ended in a way that voids this one."""
    ended: AttemptEnded | None = None
    is_own: bool = True
    """False for an attempt that another owner came after: its key is run again."""
    is_final: bool = False
    """A command has closed it: no further attempt is made."""
    is_doubted: bool = False
    """The store may know more of it than this tree was told."""


class FollowingTasks:
    """What stands behind the task at hand of one ordering id, in key order."""

    def __init__(self, effects: Effects, known: KnownCompletions) -> None:
        self._effects = effects
        self._known = known
        self._followers: dict[TaskKey, Follower] = {}
        self.size_bytes = 0
        """What the tasks hold in memory."""
        self._most = sys.maxsize
        """So many may begin together: few where few of the last ones counted, soon more again."""
        self._counted = 1
        """Of those that began together, the first one included."""

    def __len__(self) -> int:
        return len(self._followers)

    def __contains__(self, key: TaskKey) -> bool:
        return key in self._followers

    # Which tasks follow.

    def take(self, first: StoredTask, tasks: OrderingQueue) -> None:
        """Take what may be in a batch with ``first`` out of the queue that it was taken from.

        That is what comes next, has the same kind, was never tried, and is known to be open.
        """
        assert not self._followers, "what follows an earlier task is done, or waits again"
        # A suspect runs alone.
        kind_most = 1 if first.attempts.suspect else self._effects.run_tasks_of(first)
        most = min(kind_most, self._most)
        while len(self._followers) + 1 < most and (task := tasks.first_task()) is not None:
            if task.kind != first.kind or not self._may_begin(task):
                return
            assert first.key < task.key, "what waits has its turn later"
            tasks.pop()
            self._add(Follower(task))

    def _may_begin(self, task: StoredTask) -> bool:
        return task.attempts is FRESH and self._known.is_closed(task) is False

    def _add(self, follower: Follower) -> None:
        assert follower.task.key not in self._followers, "a key is here once"
        self._followers[follower.task.key] = follower
        self.size_bytes += follower.task.held_bytes

    def _let_go(self, key: TaskKey) -> Follower:
        follower = self._followers.pop(key)
        self.size_bytes -= follower.task.held_bytes
        assert self.size_bytes >= 0, "more is let go of than was taken"
        return follower

    def begin(
        self,
        start: Callable[[StoredTask, Attempt], tuple[Attempt, Executable]],
        first: Attempt,
    ) -> Sequence[tuple[Attempt, Executable]]:
        """Make their attempts, each behind the one before; return what starts them."""
        before, starts = first, list[tuple[Attempt, Executable]]()
        for follower in self._followers.values():
            assert follower.attempt is None, "an attempt is made once"
            assert before.task.key < follower.task.key, "a run is in key order (P4)"
            if follower.is_doubted or not self._may_begin(follower.task):
                break
            starts.append(start(follower.task, before))
            follower.attempt = before = starts[-1][0]
        return starts

    def adopt(self, attempt: Attempt, *, is_own: bool) -> None:
        """Take an attempt of an earlier tree, which may have been told more of its task (P6)."""
        assert attempt.follows is not None, "it follows no other one"
        self._add(Follower(attempt.task, attempt, is_own=is_own, is_doubted=True))

    # What comes for one of them.

    def find(self, key: TaskKey) -> Follower | None:
        """Return the follower of a key, where it is this owner's."""
        follower = self._followers.get(key)
        return follower if follower is not None and follower.is_own else None

    def update(self, task: StoredTask) -> bool:
        """Take over a later record of a key; False where it is not here."""
        follower = self.find(task.key)
        if follower is None:
            return False
        known = follower.task
        follower.task = known.merged_with(task)
        self.size_bytes += follower.task.held_bytes - known.held_bytes
        if task.offset > known.offset:
            # Opened again, unless what closed the key was a drop: that stays (P5).
            follower.is_doubted = follower.is_doubted or follower.is_final
            follower.is_final = False
        return True

    def withdraw(self, key: TaskKey, withdrawal: Withdrawal) -> WithdrawalResult:
        """Say whether user code was called for a task, and if not, never call it for this attempt.

        Where it is withdrawn, ``give_back`` lets go of it.
        """
        follower = self.find(key)
        assert follower is not None, "it is here"
        if withdrawal is Withdrawal.MOVE and follower.task.attempts.last > 0:
            return WithdrawalResult.RAN
        if not self._was_called(follower):
            return WithdrawalResult.WITHDRAWN
        follower.is_final = follower.is_final or withdrawal is Withdrawal.CLOSE
        return WithdrawalResult.RUNNING

    def _was_called(self, follower: Follower) -> bool:
        """Whether user code was called; where it was not, it never will be for this attempt."""
        attempt, ended = follower.attempt, follower.ended
        if attempt is None or (ended is not None and ended.ending is Ending.NOT_STARTED):
            return False
        return not self._effects.runner.withdraw(attempt)

    def note_end(self, ended: AttemptEnded) -> None:
        """Keep the end of an attempt until its turn; one that counts no more is only told of."""
        follower = self._followers.get(ended.attempt.task.key)
        if follower is not None and follower.attempt is ended.attempt:
            follower.ended = ended
        else:
            self._tell_void(ended)

    def _tell_void(self, ended: AttemptEnded) -> None:
        if ended.ending.is_of_user_code:
            self._effects.telemetry.emit(finished_event(ended))

    # Their turn, or that of the task before them once more.

    def next_begun(self) -> Follower | None:
        """Let go of the first one if user code was called for it, and return it.

        Otherwise the attempts of all are void.
        """
        key = next(iter(self._followers), None)
        if key is not None and self._was_called(self._followers[key]):
            self._counted += 1
            return self._let_go(key)
        twice = 2 * self._counted
        self._most, self._counted = twice if self._followers else max(self._most, twice), 1
        self.void()
        return None

    def void(self) -> None:
        """Forget all attempts: their tasks are tried again, without one attempt less."""
        self._void(self._followers.values())

    def _void(self, followers: Iterable[Follower]) -> None:
        runner = self._effects.runner
        for follower in followers:
            attempt, ended = follower.attempt, follower.ended
            follower.attempt = follower.ended = None
            if ended is not None:
                self._tell_void(ended)
            if attempt is not None and not runner.withdraw(attempt):
                runner.settle((attempt,))

    def give_back(self, tasks: OrderingQueue, tasks_max: int, key: TaskKey | None = None) -> int:
        """Let all of them wait in a queue for their turn, unless attempts may count; with a key
        those behind it, which is let go of.  Return how many are not in memory any more.
        """
        followers, keys = self._followers, list(self._followers)
        assert key is None or key in followers, "it stands behind the task at hand"
        if key is None and any(each.attempt is not None for each in followers.values()):
            return 0
        released = 0
        left = [self._let_go(each) for each in keys[0 if key is None else keys.index(key) :]]
        self._void(left)
        for follower in left:
            if follower.task.key == key:
                released += 1
            elif follower.is_doubted or not tasks.take(follower.task, tasks_max):
                # What waits in memory behind it is read again with it (P4).
                released += 1 + tasks.spill_from(follower.task.key)
        return released
