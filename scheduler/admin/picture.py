"""The picture of the cluster: the answers about all nodes, of the API and the command line.

Counts of lateness have the bounds of ``LATENESS_MS``; a quantile is the upper bound of its bucket,
so it is never below the truth. An unknown figure is null, never zero.
"""

from collections.abc import Sequence
from typing import Literal, Self

from msgspec import UNSET, UnsetType

from hourhand.actors.model.operations.oversight import LATENESS_MS
from hourhand.scheduler.admin.answers import Answer, Instant, KeyText, ShownCheckpoint


class NodeCounts(Answer, frozen=True):
    """Nodes by whether they reported lately."""

    alive: int
    silent: int


class PartitionCounts(Answer, frozen=True):
    """Partitions by whether a node answers for them."""

    count: int
    owned: int
    unknown: int


class PausedCounts(Answer, frozen=True):
    """The numbers of pauses."""

    all: bool
    partitions: int
    ordering_ids: int


class Quantiles(Answer, frozen=True):
    """Lateness in milliseconds that 500, 990 and 999 of 1,000 tasks did not exceed; null if nothing
    ran.
    """

    p50: int | None
    p99: int | None
    p999: int | None

    @classmethod
    def of(cls, counts: Sequence[int]) -> Self:
        """Return the quantiles of counts."""
        p50, p99, p999 = (_quantile(counts, share) for share in (0.5, 0.99, 0.999))
        return cls(p50=p50, p99=p99, p999=p999)


class Glance(Answer, frozen=True):
    """The figures of the cluster at a moment."""

    time: Instant | None
    in_flight: int | None
    failing: int | None
    blocked: int | None
    limited: int | None
    """Tasks that are due and wait because of a limit."""
    lag: int | None
    nodes: NodeCounts


class Headline(Answer, frozen=True):
    """The state of the cluster in one sentence."""

    tone: Literal["good", "warn", "bad"]
    words: str
    next_step: str | None = None
    """A command that helps, if there is one."""


class ClusterStatus(Glance, frozen=True):
    """The cluster at a glance."""

    as_of: Instant | None
    stale: bool
    """True if the store was not read for some time, so that these are old figures."""
    error: str | None
    partitions: PartitionCounts
    executions_per_s: float | None
    failures_per_s: float | None
    lateness_ms: Quantiles
    window_ms: int
    """Rates and lateness cover this time, up to now."""
    overdue_ms: int
    paused: PausedCounts
    limited_for_ms: int | None
    """Waiting time of the first limited task; null if there is none."""
    version: str
    """Version of this process."""
    verdict: Headline | None = None


class ShownPool(Answer, frozen=True):
    """The processes in which a node runs user code."""

    places: int
    """Most processes at a time."""
    alive: int
    """Processes that can run attempts."""
    busy: int
    resident_bytes: int
    deaths: int
    """Processes that ended and were replaced since the node began."""


class ShownNode(Answer, frozen=True):
    """The report of a node; figures that change are null if it is silent."""

    node: str
    state: Literal["alive", "silent"]
    as_of: Instant | None
    started: Instant | None
    version: str
    address: str | None
    """The address of its admin API, if it serves one."""
    lease_left_ms: int | None
    lease_by_lock: bool
    partitions: list[int]
    executions_per_s: float | None
    failures_per_s: float | None
    in_flight: int | None
    failing: int | None
    blocked: int | None
    tree_failures: int
    pauses_version: int
    processes: ShownPool | None = None
    """Null if the node runs user code in none."""


class NodeListing(Answer, frozen=True):
    """Every node that reported lately."""

    nodes: list[ShownNode]


class ShownPartition(Answer, frozen=True):
    """A partition and its owner's report; figures that only an owner knows are null if none
    answers.
    """

    partition: int
    owner: str | None
    state: str
    as_of: Instant | None
    paused: bool
    paused_ids: int
    end_offset: int | None
    lag: int | None = None
    pause_known: bool | None = None
    """True if the owner knows the current pauses."""
    epoch: int | None = None
    next_offset: int | None = None
    watermark: Instant | None = None
    loaded_until: Instant | None = None
    waiting: int | None = None
    executing: int | None = None
    """Tasks that were passed on to run: those that run, and those behind another of their id."""
    running: int | None = None
    """Attempts whose user code runs."""
    failing: int | None = None
    blocked: int | None = None
    """Tasks that block their ordering ids until an operator decides."""
    held: int | None = None
    """Ordering ids that wait for a retry, an operator or slow code."""
    stragglers: int | None = None
    overdue_ms: int | None = None
    assigned: Instant | None = None
    catch_up_ms: int | None = None


class PartitionListing(Answer, frozen=True):
    """Every partition."""

    partitions: list[ShownPartition]


class ShownTrouble(Answer, frozen=True):
    """A task that fails, or blocks its ordering id."""

    key: KeyText
    ordering_id: str
    scheduled_time: Instant | None
    partition: int
    since: Instant | None
    attempts: int
    error: str
    kind: str | None
    node: str


class Troubles(Answer, frozen=True):
    """Tasks in trouble that nodes report; the first are listed, all are counted."""

    as_of: Instant | None
    count: int
    unknown_partitions: list[int]
    """Partitions without an owner that answers."""


class BlockedTasks(Troubles, frozen=True):
    """Tasks that block their ordering ids."""

    blocked: list[ShownTrouble]


class FailingTasks(Troubles, frozen=True):
    """Tasks whose attempts fail."""

    failing: list[ShownTrouble]


class ExecutedTask(Answer, frozen=True):
    """A task whose user code runs."""

    key: KeyText
    kind: str | None
    attempt: int
    node: str
    started: Instant | None
    """The time when its user code was called; null if the node does not report it."""
    where: str | None
    """``thread``, ``loop``, ``process`` or ``batch``; null if the node does not report it."""
    checkpoint: ShownCheckpoint | UnsetType = UNSET
    """The last one that this attempt has made, without its value."""
    stuck: bool = False
    """True if it has made none for longer than its kind allows."""


class ShownExecutions(Answer, frozen=True):
    """Tasks whose user code runs, longest first; the first are listed, all are counted."""

    count: int
    running: list[ExecutedTask]


class ShownFlow(Answer, frozen=True):
    """Tasks that wait for one limit and one value of its key."""

    limit: str
    """The limit's name: the kind, ``#`` and its place in the declaration."""
    value: str
    """The key's value; empty if the limit has no key, or the tasks have no value."""
    waiting: int
    since: Instant
    """The time since which the first of them waits."""


class LimitedFlows(Answer, frozen=True):
    """Tasks that wait for limits, the largest group first."""

    count: int
    """Tasks of all flows."""
    flows: list[ShownFlow]


class HistoryPoint(Glance, frozen=True):
    """Changes since the previous point, and the figures of the cluster."""

    started: int
    failed: int
    lateness: list[int]
    """Tasks by lateness; ``latenessBoundsMs`` has the upper bounds."""
    lateness_ms: Quantiles


class HistoryMark(Answer, frozen=True):
    """An event on a node: owners changed, or a tree failed."""

    time: Instant | None
    what: str
    partition: int
    detail: str
    node: str


class History(Answer, frozen=True):
    """The last hour as this process saw it."""

    every_ms: int
    lateness_bounds_ms: list[int]
    points: list[HistoryPoint]
    moments: list[HistoryMark]


def _quantile(counts: Sequence[int], share: float) -> int | None:
    total = sum(counts)
    if not total:
        return None
    seen = 0
    for place, count in enumerate(counts):
        seen += count
        if seen >= total * share:
            # The last bucket has no upper bound; it is shown as twice the last bound.
            return LATENESS_MS[place] if place < len(LATENESS_MS) else 2 * LATENESS_MS[-1]
    return None
