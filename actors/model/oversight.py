"""What nodes report of themselves, and what is written down of what operators did.

Values only: who reports what is decided by the node, what is written down by the admin API.
The names of a report's fields in JSON are fixed: nodes of two versions stand side by side.
"""

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Self

import msgspec

from actors.model.flow import Limit

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
"""Upper bounds of the lateness counts; one more count is for what is later than the last."""


class PartitionReport(
    msgspec.Struct,
    frozen=True,
    rename={"next_offset": "nextOffset", "paused_ids": "pausedIds"},
):
    """What the owner of a partition says of it; counts are since its process began."""

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
    """Attempts whose user code runs; like the next two None from a node that does not say."""
    failing: int | None = None
    """Tasks whose attempts fail."""
    blocked_hours: dict[int, int] | None = None
    """Start of an hour, in UTC milliseconds, to tasks scheduled in it that block their ids."""
    loaded_until_ms: int | None = None
    watermark_ms: int | None = None
    stragglers: int = 0
    held: int = 0
    """Ordering ids that wait for a retry, an operator or slow code."""
    overdue_ms: int = 0
    """How long ago the oldest open task fell due."""
    assigned_ms: int | None = None
    catch_up_ms: int | None = None


class RunningTask(msgspec.Struct, frozen=True, rename="camel"):
    """A task whose user code runs."""

    key: str
    partition: int
    attempt: int
    kind: str | None = None
    started_ms: int | None = None
    """When its user code was called; None from a node that does not say."""


class DeclaredLimit(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A limit as the code of a node has it, whatever operators changed."""

    limit: str
    """The limit's name: the kind, ``#`` and its place, or the kind and ``@node``."""
    rate: float | None = None
    per_ms: int = 1_000
    burst: int | None = None
    concurrency: int | None = None
    key: str | None = None

    @classmethod
    def named(cls, name: str, limit: Limit) -> Self:
        """Return a limit under its name."""
        assert name, "every limit has a name"
        per_ms = max(1, round(1000 * limit.per.total_seconds()))
        return cls(name, limit.rate, per_ms, limit.burst, limit.concurrency, limit.key)

    def as_limit(self) -> Limit:
        """Return the limit, without its name."""
        return Limit(
            rate=self.rate,
            per=timedelta(milliseconds=self.per_ms),
            burst=self.burst,
            concurrency=self.concurrency,
            key=self.key,
        )


class LimitedTask(msgspec.Struct, frozen=True, rename="camel"):
    """A due task that waits because of a limit."""

    key: str
    partition: int
    limit: str
    """The limit's name: the kind, ``#`` and its place."""
    value: str
    """That of the limit's key."""
    since_ms: int


class LimitedFlow(msgspec.Struct, frozen=True, rename="camel"):
    """How many tasks wait for one limit and one value of its key."""

    limit: str
    value: str
    waiting: int
    since_ms: int
    """Since when the first of them waits."""


class LimitLoan(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a limit's rate that the node lends to another one, for one value of its key."""

    limit: str
    value: str
    borrower: str
    """Which node may use it."""
    report_number: int = msgspec.field(name="beat")
    """Of the borrower's report that is answered: from when it was made the loan counts."""
    part: float
    """Of what the limit allows in the whole cluster."""


class RateShare(msgspec.Struct, frozen=True, rename="camel"):
    """What a node may start of a rate that it lends or borrows, for one value of the key.

    Parts of what the limit allows in the whole cluster.
    """

    limit: str
    value: str
    own: float
    """What its partitions give it, without what it lends."""
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
    """Something that a chart marks: a change of owners, a tree that failed."""

    at_ms: int
    what: str
    partition: int
    detail: str


class NodeReport(msgspec.Struct, frozen=True, rename="camel"):
    """One node's latest word about itself.

    Of running, blocked and failing tasks it lists the first, and counts all.  Of those that run
    the first are the longest.
    """

    node: str
    """Names one process: a node that starts again has another."""
    report_number: int = msgspec.field(default=0, name="beat")
    """Grows with each report; the higher one stands."""
    reported_ms: int = 0
    version: str = ""
    started_ms: int | None = None
    address: str | None = None
    """Where its process serves the admin API, if it does."""
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
    """Those with the most tasks."""
    limits: tuple[DeclaredLimit, ...] = ()
    """The first of those that its code declares."""
    reads_segments: bool = False
    """Whether it reads completion segments in every store; False from a node that does not say."""
    borrows: bool = False
    """Whether other nodes may lend it of the rates that its flows wait for."""
    lent: tuple[LimitLoan, ...] = ()
    rate_share: float | None = None
    """The part that it may use of each rate of which it lends and borrows nothing; None where it
    has no limit of a rate, and from a node that does not say."""
    rate_shares: tuple[RateShare, ...] = ()
    """Where it does: those of which most is lent."""
    kinds_without_order: tuple[str | None, ...] = ()
    """Those of which several tasks of one ordering id may run at once."""


class _SegmentReader(msgspec.Struct, frozen=True, rename="camel"):
    """What a report of any version says of completion segments; old ones say nothing."""

    reads_segments: bool = False


_report_decoder = msgspec.json.Decoder(NodeReport)
_segments_decoder = msgspec.json.Decoder(_SegmentReader)


def encode_report(report: NodeReport) -> bytes:
    """Return a report as the store keeps it."""
    assert report.node, "a report names its node, which is its key in the store"
    return msgspec.json.encode(report)


def decode_reports(rows: Iterable[tuple[str, int, int, bytes]]) -> tuple[NodeReport, ...]:
    """Return the reports of rows (node, number, time, body); what cannot be read is left out.

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
    """Return whether there are reports and the node of each says that it reads segments.

    A report that cannot be read says nothing.
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


class AuditEntry(msgspec.Struct, frozen=True):
    """One write that was asked for, whoever asked, and what came of it."""

    at_ms: int
    id: str
    """Unique; entries of one millisecond are in its order."""
    who: str
    action: str
    target: str
    detail: bytes
    """What was asked, as JSON."""
    result: str

    @property
    def place(self) -> "AuditPlace":
        """Where it stands in the log."""
        return AuditPlace(self.at_ms, self.id)


class AuditPlace(msgspec.Struct, frozen=True, order=True):
    """A place in the audit log."""

    at_ms: int
    id: str


class AuditPage(msgspec.Struct, frozen=True):
    """Entries, newest first."""

    entries: tuple[AuditEntry, ...]
    next_before: AuditPlace | None
    """Pass it as ``before`` for the next page; None where there is none."""
