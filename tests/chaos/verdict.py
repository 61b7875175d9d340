"""Turns findings and figures into one line per requirement: what is demanded, what was seen.

Recovery is judged here, by limits that ``Limits`` holds; everything else must be zero.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.chaos.doors_auditor import audit_doors
from tests.chaos.measures import Measures, frozen_at_work, kept_waiting
from tests.chaos.plan import Kind
from tests.chaos.records import LIMIT_OF_A_TENANT
from tests.chaos.run import Chaos, Evidence
from tests.judge.history import Fault, History
from tests.judge.limits import most_within, starts_by_tenant
from tests.judge.recount import Findings
from tests.judge.view import Finding

_DETAILS_MAX = 10
_GRACEFUL = {Kind.RESTART_NODE, Kind.RESTART_ALL}


@dataclass(frozen=True, slots=True)
class Limits:
    """Longest waits of partitions for their next owner, in seconds."""

    killed_s: float = 8.0
    """After SIGKILL: the session timeout of 6 s and two seconds."""
    drained_s: float = 1.0
    """After a graceful stop."""
    clock_s: float = 10.0
    """Beyond its time, or until a clock that is behind was set right: what was to wait for its turn
    behind all that a clock makes due at once."""


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement and what was seen."""

    what: str
    required: str
    seen: str
    holds: bool
    excused: int = 0
    """Findings with a cause that the promises name."""
    details: Sequence[str] = ()
    """The first things that speak against it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything a run has shown."""

    chaos: Chaos
    seconds: float
    findings: Findings
    measures: Measures
    checks: Sequence[Check]

    @property
    def holds(self) -> bool:
        """True if every requirement is met."""
        return all(check.holds for check in self.checks)

    @property
    def excused(self) -> Iterator[tuple[str, Finding]]:
        """Excused findings, by kind."""
        for kind in self.findings.by_kind:
            for finding in self.findings.excused(kind):
                yield kind, finding

    def as_value(self) -> dict[str, Any]:
        """Return all of it as one JSON value."""
        findings = asdict(self.findings)
        return {
            "holds": self.holds,
            "chaos": asdict(self.chaos),
            "seconds": round(self.seconds, 1),
            "checks": [asdict(check) for check in self.checks],
            "findings": findings,
            "measures": asdict(self.measures),
        }


def judge(
    chaos: Chaos, evidence: Evidence, findings: Findings, measures: Measures, limits: Limits
) -> Verdict:
    """Return every check with its verdict."""
    lost = findings.violations("P1 lost")
    checks = [
        Check(
            "accepted tasks that have run",
            f"{findings.accepted:,}",
            f"{findings.run:,}",
            not lost and findings.accepted > 0,
            details=_first(lost),
        ),
        *(_none(kind, findings.by_kind[kind]) for kind in findings.by_kind),
        *_limit(evidence.history),
        *_processes(chaos, evidence.history),
        *_around(evidence.history, limits),
        *_doors(evidence),
        Check(
            "nodes that ended by themselves, or badly",
            "0",
            str(len(evidence.ended_alone)),
            not evidence.ended_alone,
            details=evidence.ended_alone,
        ),
        Check(
            "promises that a node's self-check doubts",
            "0",
            str(len(evidence.doubts)),
            not evidence.doubts,
            details=evidence.doubts[:_DETAILS_MAX],
        ),
        *_recoveries(chaos, measures, limits),
    ]
    return Verdict(chaos, evidence.seconds, findings, measures, checks)


def _none(kind: str, found: Sequence[Finding]) -> Check:
    violations = [each for each in found if each.cause is None]
    return Check(
        kind,
        "0",
        str(len(violations)),
        not violations,
        len(found) - len(violations),
        _first(violations),
    )


def _limit(history: History) -> Iterator[Check]:
    """Yield whether the limit of P24 was felt at all: its violations are a kind of their own."""
    most = min((most_within(each, 5) for each in starts_by_tenant(history).values()), default=0)
    burst = LIMIT_OF_A_TENANT.burst
    yield Check(
        "starts of a tenant in 5 s, more than a burst", f"> {burst}", str(most), most > burst
    )


def _processes(chaos: Chaos, history: History) -> Iterator[Check]:
    """Yield whether P26 was put to the test at all: its violations are a kind of their own."""
    if Kind.FREEZE_NODE in chaos.extent.kinds:
        seen = len(frozen_at_work(history))
        yield Check("attempts in a process when their node was frozen", "> 0", str(seen), seen > 0)


def _around(history: History, limits: Limits) -> Iterator[Check]:
    """Yield whether links, clocks and disks failed at all, and what a clock may not do."""
    counted = [fault for fault in history.faults if fault.met is not None]
    if counted:
        missed = [f"{fault.kind}, {fault.target}" for fault in counted if not fault.met]
        yield Check(
            "links, clocks and disks that failed unmet",
            "0",
            str(len(missed)),
            not missed,
            details=missed,
        )
    if any(fault.ahead_us for fault in counted):
        yield _none("kept waiting by a clock", kept_waiting(history, limits.clock_s))


def _doors(evidence: Evidence) -> Iterator[Check]:
    """Yield the checks of relay, timers and outcomes, where there were any."""
    history = evidence.doors
    if history is None:
        return
    accepted = sum(timer.accepted for timer in history.timers)
    seen = f"{len(history.sent):,}, {accepted:,} and {len(history.pops):,}"
    there = bool(history.sent and accepted and history.pops)
    yield Check("messages, timers and pops", "some", seen, there)
    for kind, found in audit_doors(history, evidence.history.faults).items():
        yield _none(kind, found)
    told = len({each.task_id for each in evidence.history.told or ()})
    yield Check("tasks whose outcome was told", "some", f"{told:,}", told > 0)


def _first(found: Sequence[Finding]) -> list[str]:
    return [each.told for each in found[:_DETAILS_MAX]]


def _recoveries(chaos: Chaos, measures: Measures, limits: Limits) -> Iterator[Check]:
    """Yield what is asked of each way to end a node that the run was to bring."""
    if Kind.KILL_NODE in chaos.extent.kinds:
        yield _recovery("recovery after SIGKILL of a node", "killed", limits.killed_s, measures)
    if _GRACEFUL & {*chaos.extent.kinds}:
        yield _recovery("recovery after a graceful stop", "drained", limits.drained_s, measures)


def _recovery(what: str, how: str, limit_s: float, measures: Measures) -> Check:
    waits = [
        (longest_s, f"{each.fault.kind}, {struck}: {longest_s:.2f} s")
        for each in measures.recoveries
        if _is_of(each.fault, how)
        for struck, longest_s in each.waited_s.items()
    ]
    longest_s = max((wait for wait, _ in waits), default=0.0)
    return Check(
        what,
        f"<= {limit_s:.1f} s",
        f"{longest_s:.2f} s",
        bool(waits) and longest_s <= limit_s,
        details=[told for wait, told in waits if wait > limit_s],
    )


def _is_of(fault: Fault, how: str) -> bool:
    """True if single nodes were struck this way; with all of them gone nobody can take over."""
    struck = [blow for blow in fault.blows if blow.how == how]
    return len(struck) == 1 or (bool(struck) and how == "drained")
