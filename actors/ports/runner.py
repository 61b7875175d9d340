"""Running user code outside the tree.

Running attempts belong to the node: a tree that is torn down leaves them running, and its
successor adopts them (P16).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, CheckpointMade
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.task.checkpoint_value import AttemptCheckpoints
from hourhand.actors.model.task.task import Task


class Executable(Protocol):
    """The methods of a user's executor that the runner calls."""

    attempt: int
    fence: int
    hourhand_checkpoints: AttemptCheckpoints

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once."""


AttemptListener = Callable[[AttemptEnded], None]
CheckpointListener = Callable[[CheckpointMade], object]


class TellsCheckpoints(Protocol):
    """Tells of the checkpoints that running attempts make."""

    def tell_checkpoints(self, partition: int, listener: CheckpointListener) -> None:
        """Tell checkpoints of the partition's attempts to ``listener`` from now on.

        At most one each second of an attempt, and none of it while one is not answered; the newest
        of each attempt that runs again, unless it is known to be durable.  The last one of an
        attempt that did not end well comes with its end as well.
        """


class Runner(TellsCheckpoints, Protocol):
    """Runs attempts, at most one for each (partition, ordering id) at a time.

    Only one that needs no order, or that follows another one, runs beside them: the latter in the
    batch of the one that it follows, behind it, or it does not start.
    The last thing before user code is the gate: the node holds the partition under the
    attempt's epoch, the lease has not ended, and the task is due by the wall clock.
    All that is user code is called here: what makes an executor, its policy and timeout, and its
    wait after a failure.  It is part of the attempt, and an end says what came of it.
    Listeners are called from any thread.  An ended attempt is remembered until it is
    settled, so that an outcome reached while no tree was listening is not lost.
    """

    def start(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> None:
        """Run each attempt as soon as a worker is free for it."""

    def withdraw(
        self, attempt: Attempt, *, limited: bool = False, interrupts: bool = False
    ) -> bool:
        """Forget an attempt that waits for a worker; False if its user code was called.

        With ``limited`` only one that waits for an allowance of a limit; False for any other. After
        True user code is never called for it, and its end is reported to no listener that counts.

        With ``interrupts`` user code that was called is asked to end: a coroutine is cancelled,
        code in a thread sees ``cancelled``, a process is killed after a while.  The attempt's end
        is ``Ending.CANCELLED`` then, whatever its code does.  An attempt that has ended, a task of
        a batch and a system task are not asked.
        """

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return the attempts of a partition whose user code has been running for at least
        ``at_least_ms``, with the time in milliseconds.

        An attempt that ended does not run, however long its outcome takes to become durable.
        """

    def unsettled(self, partition: int, *, given_up: bool = True) -> Sequence[Attempt]:
        """Return the attempts of a partition that run or whose outcome is not settled.

        Abandoned ones that have ended are included only with ``given_up``.
        """

    def adopt(self, attempt: Attempt, listener: AttemptListener) -> None:
        """Report the attempt's end to ``listener`` from now on; at once if it ended."""

    def settle(self, attempts: Sequence[Attempt]) -> None:
        """Forget ended attempts: their outcomes are durable, or no longer needed."""

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """Let the attempts of these partitions end, which go to another owner: what waits for
        others' work stops waiting.

        None stands for all, whose tree failed: what waits for an allowance or for a durable start
        is forgotten, and all else runs on.  Their next tree reads their tasks again, and tells
        these attempts of no change.

        With ``give_up``, which says why, nobody waits for them any longer: async attempts are
        cancelled, and do not count as started if they fail because of it; blocking ones are
        reported and run on.  Their ends are told only to a tree that adopts them, even later.
        """
