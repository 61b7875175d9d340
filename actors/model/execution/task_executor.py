"""TaskExecutor for users: the class that they subclass.

It holds the values that user code gets and those that it declares; the role of the same name, in
``actors/task_executor.py``, holds one and calls it. Decides nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import Any, Literal

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.interruption import AskedToEnd
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.flow.flow import FairShare, Limit
from hourhand.actors.model.task.checkpoint_value import (
    NO_ATTEMPT,
    AttemptCheckpoints,
    checkpoint_text,
    checkpoint_value,
)
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.public import public


@public("hourhand")
class TaskExecutor(ABC):
    """Base class with ``execute``; one instance serves one busy ordering id.

    Attempts of one ordering id never overlap, so ``self`` needs no lock. The instance is kept while
    its ordering id has tasks to run, and made again when the id is busy again. The constructor
    takes no arguments and need not call this class's. The first attempt calls it, in its thread or
    on the event loop. A subclass may have any other attribute.
    """

    retry: RetryPolicy = RetryPolicy()
    """The number of attempts, and the waits between them."""
    timeout: timedelta | None = None
    """Longest attempt; None takes the node's setting. An async attempt is cancelled, a blocking one
    is reported and keeps its slot."""
    stuck_after: timedelta | None = None
    """Longest time without a checkpoint, counted from the start of the attempt until it makes one;
    None takes the node's setting. Then an async attempt is cancelled, one in a process is ended,
    and a blocking one in a thread is reported. A node reads it from the class."""
    limits: Limit | Sequence[Limit] = ()
    """Most attempts that start in a time, and that run at once, in the whole cluster."""
    priority: int | None = None
    """Among due tasks those with the highest priority start first; None counts as 0. A task may
    have one of its own, which counts on a node on which a kind declares any flow control."""
    fair: FairShare | None = None
    """The sharing of starts between tenants while more tasks are due than can run."""
    run_in: Literal["thread", "process"] | None = None
    """The place of attempts: ``thread`` is a thread or the event loop of the node, ``process`` is a
    process that runs one attempt at a time and can be killed. None takes the node's setting."""
    expires_after: timedelta | None = None
    """Time from a task's scheduled time from which on no attempt of it starts; None for no end. A
    task may have an expiry of its own. A node reads it from the class, as limits."""
    attempt: int = 0
    """Number of the current attempt, 1 for the first.  An attempt before it may have ended with its
    node before your code was called."""
    fence: int = 0
    """Grows with every owner of the partition; give it to a store that can refuse smaller ones."""
    cancelled = AskedToEnd()
    """True once ``cancel_task(key, running=True)`` has asked the current attempt to end.  Blocking
    code reads it in the thread that ``execute`` is called in, and returns; its result does not
    count then."""

    hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT
    """The node's: where the checkpoints of the attempt that runs go."""

    def checkpoint(self, value: object) -> None:
        """Note how far the task is: any JSON value of at most 64 kB, the newest one counts.

        It becomes durable within about a second, the last one before the attempt has failed, and
        the next attempt finds it in ``checkpointed``.  If it has the numbers ``done`` and
        ``total``, operators see a bar.  Returns at once, from any thread that ``execute`` waits
        for.  Raises InvalidCheckpoint.
        """
        self.hourhand_checkpoints.make(checkpoint_text(value))

    @property
    def checkpointed(self) -> Any:  # type: ignore[explicit-any]
        """The newest checkpoint of the attempts of this task before this one; None without one."""
        return checkpoint_value(self.hourhand_checkpoints.found)

    @property
    def snoozed(self) -> Any:  # type: ignore[explicit-any]
        """Times that the current attempt has returned ``Snooze`` so far."""
        return self.hourhand_checkpoints.snoozed

    @abstractmethod
    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once; may be ``async def``.

        Returning None means done; ``Retry``, ``Snooze`` and ``Drop`` say otherwise. An exception is
        a failure, and the retry policy decides what follows.
        """
