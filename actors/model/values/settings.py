"""The limits and windows of the tree, frozen and ranged.

Each group is one concern; every name carries its unit. Settings for adapters only are in
``hourhand.scheduler.configuration.settings``.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hourhand.actors.model.values.bucket import HOUR_MS

_DRAINED_LAG_MS = 2_000
_IDLE_LAGS = 20


class Group(BaseModel):
    """Base of the groups: frozen, no unknown names."""

    # A model that holds a group builds it as a part of itself.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WindowSettings(Group):
    """The part of the schedule that a partition keeps in memory."""

    look_ahead_ms: int = Field(default=300_000, ge=1_000, le=3_600_000)
    """Tasks due within this time are loaded."""
    prefetch_ms: int = Field(default=60_000, ge=100, le=3_600_000)
    """The next load starts this long before the window's end is due."""
    tick_ms: int = Field(default=200, ge=1, le=60_000)
    """Shortest pause between two looks at the load of a partition."""
    page_tasks: int = Field(default=1_000, ge=1, le=100_000)
    """Rows of one load."""
    tasks_max: int = Field(default=5_000, ge=10, le=1_000_000)
    """Tasks of a partition in memory, waiting and running."""
    executing_tasks_max: int = Field(default=2_000, ge=1, le=1_000_000)
    """Due tasks of a partition handed on at a time."""
    ordering_queue_tasks_max: int = Field(default=100, ge=1, le=100_000)
    """Tasks of an ordering id in memory behind the running one, or half the free slots if more."""
    slow_attempt_ms: int = Field(default=1_000, ge=1, le=3_600_000)
    """Behind an attempt that runs longer, tasks stay in the store."""
    memory_bytes_max: int | None = Field(default=None, ge=1_048_576, le=1_099_511_627_776)
    """Bytes of tasks that a node holds; none: a quarter of its container's or machine's memory."""
    completions_max: int = Field(default=10_000, ge=100, le=100_000_000)
    """Completions of a partition in memory; older ones are read when needed."""
    clock_check_ms: int = Field(default=1_000, ge=1, le=60_000)
    """Longest sleep of the due timer, to notice a stepped wall clock."""

    @property
    def slots(self) -> int:
        """Most due tasks of a partition that may be handed on, all of which stay in memory
        (P13).
        """
        return min(self.executing_tasks_max, self.tasks_max)


class WatermarkSettings(Group):
    """Movement of the durable watermark, and deletion behind it."""

    interval_ms: int = Field(default=5_000, ge=1, le=3_600_000)
    """Pause between two advances."""
    lag_ms: int = Field(default=15_000, ge=0, le=86_400_000)
    """Distance of the watermark behind the wall clock."""
    stragglers_max: int = Field(default=100, ge=0, le=10_000)
    """Blocked ordering ids that the watermark may pass; with more it waits."""
    completion_retention_ms: int = Field(default=14 * 86_400_000, ge=0)
    """Time for which a done key stays done after its hour was deleted (P5)."""
    failed_retention_ms: int = Field(default=7 * 86_400_000, ge=0)
    """Time for which a failed or dropped task can be retried (P5); 0: until its hour is deleted."""

    result_retention_ms: int = Field(default=86_400_000, ge=1_000, le=315_360_000_000)
    """Time for which a result can be read, at most as long as its completion."""

    @property
    def drained_lag_ms(self) -> int:
        """Distance of a released partition's watermark behind the wall clock: the next owner reads
        this range, so that tasks accepted last, by any clock, need not lower it.
        """
        return min(_DRAINED_LAG_MS, self.lag_ms)

    def step_ms(self, lag_ms: int, *, is_idle: bool) -> int:
        """Return how far the watermark moves before it is saved, if it moves only with the clock.

        A next owner would find no row behind an idle partition's watermark, so the save spares it
        only a look; within two hours there are at most three places to look in.
        """
        return max(lag_ms, min(_IDLE_LAGS * self.lag_ms, HOUR_MS)) if is_idle else lag_ms


class ExecutionSettings(Group):
    """Running of user code on a node."""

    workers: int = Field(default=32, ge=1, le=10_000)
    """Threads for blocking ``execute``."""
    async_attempts_max: int = Field(default=1_000, ge=1, le=1_000_000)
    """``async def execute`` in flight."""
    timeout_ms: int | None = Field(default=None, ge=1)
    """Longest attempt, if its executor declares none; none: no limit."""
    stuck_after_ms: int | None = Field(default=None, ge=1)
    """Longest time without a checkpoint, if its executor declares none; none: no limit."""
    row_bytes_max: int = Field(default=8_388_608, ge=1_024, le=15_000_000)
    """A longer record goes to the dead-letter topic (P10)."""
    lease_retry_ms: int = Field(default=200, ge=1, le=60_000)
    """Pause of an attempt that was refused without a lease."""
    run_in: Literal["thread", "process"] = "thread"
    """The place of user code that declares none."""
    processes: int | None = Field(default=None, ge=1, le=256)
    """Processes for user code, shared by the nodes of `run --processes`; none: one a core."""
    process_niceness: int = Field(default=5, ge=0, le=19)
    """Niceness added to processes for user code."""
    kill_grace_ms: int = Field(default=5_000, ge=0, le=3_600_000)
    """Time from the request to end until the process is killed."""
    tasks_per_process_max: int | None = Field(default=None, ge=1)
    """Tasks after which a process is replaced; none: no limit."""
    memory_bytes_per_process_max: int | None = Field(default=None, ge=16_777_216)
    """Resident memory above which a process is replaced, and its attempt fails; Linux only."""
    lend_limits: bool = True
    """True if nodes lend each other unused rates (P24); the same on all nodes."""


class RecoverySettings(Group):
    """A node's reaction to failures and changes of ownership."""

    catch_up_deadline_ms: int = Field(default=30_000, ge=0, le=3_600_000)
    """Longest wait for the log's end before a partition starts tasks (P4)."""
    drain_deadline_ms: int = Field(default=10_000, ge=0, le=3_600_000)
    """Time for running attempts to finish on revocation or stop."""
    persist_deadline_ms: int = Field(default=30_000, ge=1, le=3_600_000)
    """A tree that leaves a batch unanswered for this time is rebuilt."""
    rebuild_pause_min_ms: int = Field(default=100, ge=1, le=3_600_000)
    """First pause before a failed tree is rebuilt, or a read retried; it doubles, half jittered."""
    rebuild_pause_max_ms: int = Field(default=30_000, ge=1, le=3_600_000)
    """Longest such pause."""

    @property
    def drain_deadline_passed(self) -> str:
        """The text for an attempt that is still running at the drain deadline."""
        deadline_ms = self.drain_deadline_ms
        return f"ran past the drain deadline of {deadline_ms} ms (tree.recovery.drain_deadline_ms)"


class TreeSettings(Group):
    """All settings of the actor tree."""

    window: WindowSettings = Field(default_factory=WindowSettings)
    watermark: WatermarkSettings = Field(default_factory=WatermarkSettings)
    execution: ExecutionSettings = Field(default_factory=ExecutionSettings)
    recovery: RecoverySettings = Field(default_factory=RecoverySettings)
