"""The nodes' reports, and the audit log of operators' acts.

Values only: the node decides its report, and the admin API the entries. The names of a report's
fields in JSON are fixed: nodes of two versions run side by side.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Self

import msgspec

from hourhand.actors.model.flow.flow import Limit

LATENESS_MS = (
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    30_000,
    60_000,
    300_000,
    3_600_000,
)
"""Upper bounds of the lateness counts; one more count is for tasks later than the last bound."""


class PartitionReport(
    msgspec.Struct,
    frozen=True,
    rename={"next_offset": "nextOffset", "paused_ids": "pausedIds"},
):
    """The owner's report of a partition; counts are since its process began."""

    partition: int
    stage: str
    epoch: int | None = None
    next_offset: int | None = None
    paused: bool = False
    paused_ids: int = 0
    started: int = 0
    failed: int = 0
    lateness: tuple[int, ...] = (0,) * (len(LATENESS_MS) + 1)
    waiting: int | None = None
    executing: int | None = None
    """Tasks that were handed on to run: those that run, and those behind another of their id."""
    running: int | None = None
    """Attempts whose user code runs; it and the next two are None from a node that does not report
    them."""
    failing: int | None = None
    """Tasks whose attempts fail."""
    blocked_hours: dict[int, int] | None = None
    """By start of an hour, in UTC milliseconds: the number of its tasks that block their ids."""
    loaded_until_ms: int | None = None
    watermark_ms: int | None = None
    stragglers: int = 0
    held: int = 0
    """Ordering ids that wait for a retry, an operator or slow code."""
    overdue_ms: int = 0
    """Time since the oldest open task was due."""
    assigned_ms: int | None = None
    catch_up_ms: int | None = None


class RunningCheckpoint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The last checkpoint of an attempt that runs, without its value."""

    made_ms: int
    done: float | None = None
    """Progress out of ``total``; None where the checkpoint has no such numbers, or is sealed."""
    total: float | None = None


class RunningTask(msgspec.Struct, frozen=True, rename="camel"):
    """A task whose user code runs."""

    key: str
    partition: int
    attempt: int
    kind: str | None = None
    started_ms: int | None = None
    """Time at which its user code was called; None from a node that does not report it."""
    where: str = ""
    """``thread``, ``loop``, ``process`` or ``batch``; empty from a node that does not report it."""
    checkpoint: RunningCheckpoint | None = None
    """None where it has made none."""
    stuck: bool = False
    """True if it has made none for longer than its kind allows."""


class PoolReport(msgspec.Struct, frozen=True, rename="camel"):
    """The processes in which a node runs user code."""

    places: int
    """Most processes at a time."""
    alive: int
    """Processes that can run attempts."""
    busy: int
    resident_bytes: int
    deaths: int
    """Processes that ended and were replaced since the node began."""


class DeclaredLimit(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A limit as the code of a node declares it, without operators' changes."""

    limit: str
    """The limit's name: the kind, ``#`` and its place, or the kind and ``@node``."""
    rate: float | None = None
    per_ms: int = 1_000
    burst: int | None = None
    concurrency: int | None = None
    key: str | None = None
    rates: Mapping[str, float] = {}
    """The rates of the key's values that are named; ``rate`` is that of the others."""

    @classmethod
    def named(cls, name: str, limit: Limit) -> Self:
        """Return a limit with its name."""
        assert name, "every limit has a name"
        per_ms = max(1, round(1000 * limit.per.total_seconds()))
        return cls(
            name,
            limit.rest_rate,
            per_ms,
            limit.burst,
            limit.concurrency,
            limit.key,
            limit.named_rates,
        )

    def as_limit(self) -> Limit:
        """Return the limit, without its name."""
        return Limit(
            rate=self.rate,
            per=timedelta(milliseconds=self.per_ms),
            burst=self.burst,
            concurrency=self.concurrency,
            key=self.key,
        ).with_rates(self.rates)


class LimitedTask(msgspec.Struct, frozen=True, rename="camel"):
    """A due task that waits because of a limit."""

    key: str
    partition: int
    limit: str
    """The limit's name: the kind, ``#`` and its place."""
    value: str
    """The value of the limit's key."""
    since_ms: int


class LimitedFlow(msgspec.Struct, frozen=True, rename="camel"):
    """The number of tasks that wait for one limit and one value of its key."""

    limit: str
    value: str
    waiting: int
    since_ms: int
    """Time since which the first of them waits."""


class LimitLoan(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a limit's rate that the node lends to another one, for one value of its key."""

    limit: str
    value: str
    borrower: str
    """The node that may use it."""
    report_number: int = msgspec.field(name="beat")
    """The number of the borrower's report that is answered: the loan counts from its time."""
    part: float
    """The part of the limit in the whole cluster."""


class RateShare(msgspec.Struct, frozen=True, rename="camel"):
    """A node's part of a rate that it lends or borrows, for one value of the key.

    Parts of the limit in the whole cluster.
    """

    limit: str
    value: str
    own: float
    """The part from its partitions, without the part that it lends."""
    lent: float
    borrowed: float


class TroubledTask(msgspec.Struct, frozen=True, rename="camel"):
    """A task whose attempts fail, or whose ordering id waits for an operator."""

    key: str
    partition: int
    since_ms: int
    attempts: int
    error: str
    kind: str | None = None


class Moment(msgspec.Struct, frozen=True):
    """A mark on a chart: a change of owners, a tree that failed."""

    at_ms: int
    what: str
    partition: int
    detail: str


class NodeReport(msgspec.Struct, frozen=True, rename="camel"):
    """One node's latest report.

    It lists the first of its running, blocked and failing tasks, and counts all. The first running
    ones are the longest.
    """

    node: str
    """Name of one process: a restarted node has another."""
    report_number: int = msgspec.field(default=0, name="beat")
    """Grows with each report; the higher one counts."""
    reported_ms: int = 0
    version: str = ""
    started_ms: int | None = None
    address: str | None = None
    """Address of its process's admin API, if it serves one."""
    lease_left_ms: int | None = None
    lease_by_lock: bool = False
    pauses_version: int = 0
    tree_failures: int = 0
    partitions: tuple[PartitionReport, ...] = ()
    running_count: int = 0
    running: tuple[RunningTask, ...] = ()
    blocked_count: int = 0
    blocked: tuple[TroubledTask, ...] = ()
    failing_count: int = 0
    failing: tuple[TroubledTask, ...] = ()
    moments: tuple[Moment, ...] = ()
    limited_count: int = 0
    limited: tuple[LimitedTask, ...] = ()
    limited_flows: tuple[LimitedFlow, ...] = ()
    """The flows with the most tasks."""
    limits: tuple[DeclaredLimit, ...] = ()
    """The first of the limits that its code declares."""
    reads_segments: bool = False
    """True if it reads completion segments in every store; False from a node that does not report
    it."""
    judges_occurrences: bool = False
    """True if it judges occurrences that were made ahead and start late."""
    borrows: bool = False
    """True if other nodes may lend it parts of the rates that its flows wait for."""
    lent: tuple[LimitLoan, ...] = ()
    rate_share: float | None = None
    """Its part of each rate without loans; None if it has no rate limit, or does not report it."""
    rate_shares: tuple[RateShare, ...] = ()
    """Its parts of rates with loans: those of which most is lent."""
    kinds_without_order: tuple[str | None, ...] = ()
    """Kinds of which several tasks of one ordering id may run at once."""
    processes: PoolReport | None = None
    """None if it has no processes for user code, or does not report them."""


class _SegmentReader(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a report about completion segments; old reports lack it."""

    reads_segments: bool = False


_report_decoder = msgspec.json.Decoder(NodeReport)
_segments_decoder = msgspec.json.Decoder(_SegmentReader)


def encode_report(report: NodeReport) -> bytes:
    """Return a report in the store's form."""
    assert report.node, "a report names its node, which is its key in the store"
    return msgspec.json.encode(report)


def decode_reports(rows: Iterable[tuple[str, int, int, bytes]]) -> tuple[NodeReport, ...]:
    """Return the reports of rows (node, number, time, body); unreadable ones are left out.

    The columns count: a body of an earlier version has no number and no time.
    """
    reports = []
    for node, number, reported_ms, body in rows:
        try:
            report = _report_decoder.decode(body)
        except msgspec.DecodeError:
            logging.getLogger("hourhand.report").debug("the report of %s cannot be read", node)
            continue
        reports.append(
            msgspec.structs.replace(
                report, node=node, report_number=number, reported_ms=reported_ms
            )
        )
    return tuple(reports)


def all_read_segments(bodies: Iterable[bytes]) -> bool:
    """Return True if there are reports, and each node reports that it reads segments.

    An unreadable report does not count.
    """
    found = False
    for body in bodies:
        try:
            found = _segments_decoder.decode(body).reads_segments
        except msgspec.DecodeError:
            found = False
        if not found:
            return False
    return found


def all_judge_occurrences(reports: Sequence[NodeReport]) -> bool:
    """Return True if there are reports, and each node reports that it judges late occurrences."""
    return bool(reports) and all(report.judges_occurrences for report in reports)


class AuditEntry(msgspec.Struct, frozen=True):
    """One requested write, its author, and its result."""

    at_ms: int
    id: str
    """Unique; entries of one millisecond are in its order."""
    who: str
    action: str
    target: str
    detail: bytes
    """Details of the request, as JSON."""
    result: str

    @property
    def place(self) -> "AuditPlace":
        """Its place in the log."""
        return AuditPlace(self.at_ms, self.id)


class AuditPlace(msgspec.Struct, frozen=True, order=True):
    """A place in the audit log."""

    at_ms: int
    id: str


class AuditPage(msgspec.Struct, frozen=True):
    """Entries, newest first."""

    entries: tuple[AuditEntry, ...]
    next_before: AuditPlace | None
    """The value of ``before`` for the next page; None if there is none."""
