"""Amounts of work in each version of the benchmark: smoke, quick and full.

The quick version ends in less than half an hour on two idle cores.  This file alone says what it
leaves out or does smaller.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of one version."""

    name: str
    rounds: int
    drain_tasks: int
    drain_ids: int
    rival_jobs: int
    """Jobs of each rival except the slow ones."""
    procrastinate_jobs: int
    slow_jobs: int
    """Jobs of Huey, and of River on SQLite."""
    burst_tasks: int
    steady_step_s: float
    """Seconds for which each rate is tried."""
    steady_warming_s: float
    steady_s: float
    """Seconds for which the highest of them counts after that."""
    compute_tasks: int
    """Each takes a tenth of a second."""
    batch_tasks: int
    """Each inserts a row."""
    enqueue_tasks: int
    lateness_s: float
    """Seconds in which tasks fall due."""
    ahead_s: float
    """Seconds from scheduling to the first due time."""
    lateness_rounds: int
    overdue_tasks: int
    """Worked off while others fall due."""
    beside_s: float
    """Seconds in which those fall due."""
    backlog_tasks: int
    """Far tasks of lateness_1k_deep, memory_deep and startup."""
    deep_backlogs: tuple[int, ...]
    """Backlogs of lateness_1k_deep."""
    shallow_tasks: int
    herd_tasks: int
    """Due at one moment."""
    failing_ids: int
    limited_attempts: int
    """Attempts that give the cost of a limit."""
    limited_s: float
    """Seconds in which nodes share a limit."""
    shares_backlog_tasks: int
    """Tasks of one tenant, or of low priority."""
    shares_s: float
    """Seconds of other tasks before it is due, and then beside it."""
    takeover_rate: float
    curve_embedded: tuple[int, ...]
    curve_cluster: tuple[int, ...]
    curve_tasks: int
    scale_s: float
    blocked_days: int
    pipeline_rows: int
    """Rows of a file that is loaded."""
    pipeline_memory_rows: tuple[int, int]
    """Audited, to see what the driver holds."""
    relay_rounds: int
    relay_s: float
    """Seconds of messages."""
    relay_warming_s: float
    """Seconds of messages before, if a server has to be warm."""
    relay_rates: tuple[int, ...]
    timer_creations: int
    timer_creations_warming: int
    """Timers that are made before, for the same reason."""
    timer_pops_s: float
    """Seconds in which timers pop."""
    timer_pops_per_s: int
    timers_pending: int
    unjudged: bool = True
    """True if rivals without a goal run as well where a run takes long."""
    left_out: frozenset[str] = frozenset()
    """Measures that this version takes only where they are named."""

    def warming(self) -> "Sizes":
        """Return the sizes of a run that only makes servers warm."""
        creations = self.timer_creations_warming
        return replace(self, relay_s=self.relay_warming_s, timer_creations=creations)


QUICK = Sizes(
    name="quick",
    rounds=2,
    drain_tasks=60_000,
    drain_ids=10_000,
    rival_jobs=60_000,
    procrastinate_jobs=1_500,
    slow_jobs=6_000,
    burst_tasks=20_000,
    steady_step_s=3.0,
    steady_warming_s=10.0,
    steady_s=20.0,
    compute_tasks=40,
    batch_tasks=20_000,
    enqueue_tasks=20_000,
    lateness_s=8.0,
    ahead_s=4.0,
    lateness_rounds=1,
    overdue_tasks=200_000,
    beside_s=10.0,
    backlog_tasks=1_000_000,
    deep_backlogs=(1_000_000,),
    shallow_tasks=10_000,
    herd_tasks=100_000,
    failing_ids=2_000,
    limited_attempts=50_000,
    limited_s=20.0,
    shares_backlog_tasks=100_000,
    shares_s=6.0,
    takeover_rate=480.0,
    curve_embedded=(10_000, 100_000),
    curve_cluster=(),
    curve_tasks=10_000,
    scale_s=3.0,
    blocked_days=7,
    pipeline_rows=200_000,
    pipeline_memory_rows=(100_000, 1_000_000),
    relay_rounds=1,
    relay_s=10.0,
    relay_warming_s=60.0,
    relay_rates=(1_000, 2_000, 4_000, 8_000),
    timer_creations=20_000,
    timer_creations_warming=30_000,
    timer_pops_s=10.0,
    timer_pops_per_s=500,
    timers_pending=100_000,
    unjudged=False,
    left_out=frozenset(
        {
            *("relay_2k", "relay_8k", "pipeline_cores", "pipeline_memory", "timers_pending"),
            *("embedded_steady", "drain_cluster_steady"),
        }
    ),
)

FULL = Sizes(
    name="full",
    rounds=5,
    drain_tasks=60_000,
    drain_ids=10_000,
    rival_jobs=60_000,
    procrastinate_jobs=60_000,
    slow_jobs=20_000,
    burst_tasks=20_000,
    steady_step_s=5.0,
    steady_warming_s=30.0,
    steady_s=60.0,
    compute_tasks=200,
    batch_tasks=20_000,
    enqueue_tasks=100_000,
    lateness_s=60.0,
    ahead_s=10.0,
    lateness_rounds=3,
    overdue_tasks=200_000,
    beside_s=10.0,
    backlog_tasks=1_000_000,
    deep_backlogs=(1_000_000, 10_000_000),
    shallow_tasks=10_000,
    herd_tasks=5_000_000,
    failing_ids=2_000,
    limited_attempts=100_000,
    limited_s=60.0,
    shares_backlog_tasks=500_000,
    shares_s=60.0,
    takeover_rate=480.0,
    curve_embedded=(10_000, 100_000, 1_000_000),
    curve_cluster=(10_000, 100_000, 1_000_000, 10_000_000),
    curve_tasks=20_000,
    scale_s=10.0,
    blocked_days=7,
    pipeline_rows=1_000_000,
    pipeline_memory_rows=(100_000, 10_000_000),
    relay_rounds=3,
    relay_s=60.0,
    relay_warming_s=120.0,
    relay_rates=(1_000, 2_000, 4_000, 8_000),
    timer_creations=20_000,
    timer_creations_warming=60_000,
    timer_pops_s=60.0,
    timer_pops_per_s=500,
    timers_pending=1_000_000,
)

SMOKE = Sizes(
    name="smoke",
    rounds=1,
    drain_tasks=2_000,
    drain_ids=400,
    rival_jobs=500,
    procrastinate_jobs=100,
    slow_jobs=100,
    burst_tasks=1_000,
    steady_step_s=1.0,
    steady_warming_s=1.0,
    steady_s=2.0,
    compute_tasks=4,
    batch_tasks=500,
    enqueue_tasks=2_000,
    lateness_s=3.0,
    ahead_s=5.0,
    lateness_rounds=1,
    overdue_tasks=20_000,
    beside_s=3.0,
    backlog_tasks=20_000,
    deep_backlogs=(20_000,),
    shallow_tasks=1_000,
    herd_tasks=2_000,
    failing_ids=50,
    limited_attempts=5_000,
    limited_s=8.0,
    shares_backlog_tasks=20_000,
    shares_s=3.0,
    takeover_rate=200.0,
    curve_embedded=(1_000, 5_000),
    curve_cluster=(1_000, 5_000),
    curve_tasks=500,
    scale_s=1.0,
    blocked_days=7,
    pipeline_rows=5_000,
    pipeline_memory_rows=(5_000, 20_000),
    relay_rounds=1,
    relay_s=2.0,
    relay_warming_s=2.0,
    relay_rates=(200,),
    timer_creations=100,
    timer_creations_warming=100,
    timer_pops_s=2.0,
    timer_pops_per_s=20,
    timers_pending=1_000,
)

ALL = {sizes.name: sizes for sizes in (QUICK, FULL, SMOKE)}

ONLY_FULL = (
    "lateness_1k_deep with 10,000,000 far tasks",
    "a herd of 5,000,000 tasks",
    "cost_curve on Cassandra, and from 1,000,000 pending tasks on",
    "procrastinate's 60,000 jobs (fewer in quick: its rate does not depend on it)",
)
"""Measures that the quick version leaves out."""
