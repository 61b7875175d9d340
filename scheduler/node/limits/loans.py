"""The loans of rates that one node gives and takes, and their ends.

A node whose tasks wait for a limit says so in its report; a node without work for that limit
answers in its own report.  A loan ends for the borrower a fixed time after it made its report, and
for the lender the same time after it answered, each by its own monotonic clock, so the borrower's
end always comes first.  Never decides about starts, and reads no clock.  Used under the lock of the
limits.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from hourhand.actors.model.flow.flow import LimitKey
from hourhand.actors.model.operations.oversight import LimitLoan, NodeReport

LOAN_MS = 5_000.0
"""Duration of a loan.  All nodes must agree on it, so versions with different durations could not
run side by side."""
KEPT = 0.1
"""The part of its share that a node never lends, so that new work of its own can begin."""
LOANS_MAX = 200
"""Most loans that a node gives at once, which bounds its report."""


class LoanDesk(Protocol):
    """The interface through which a node borrows and lends; used from any thread."""

    def note_asked(self, report_number: int) -> None:
        """Note that a report with this number is made now, which lists the waiting attempts."""

    def apply_reports(self, node: str, reports: Sequence[NodeReport]) -> None:
        """Take loans from other nodes' reports, and lend them rates that this node does not use."""

    def lent(self) -> tuple[LimitLoan, ...]:
        """Return the loans that this node has given."""


@dataclass(slots=True)
class _Loan:
    """One loan, as its lender or its borrower keeps it."""

    report_number: int
    """The number of the borrower's report."""
    part: float
    """The lent part of the limit, from 0 to 1."""
    ends_ms: float


_ByNode = defaultdict[LimitKey, dict[str, list[_Loan]]]
"""By limit and value, then by the other node."""


def _by_node() -> _ByNode:
    return defaultdict(dict)


@dataclass(slots=True)
class Loans:
    """The loans of one node."""

    _asked_ms: dict[int, float] = field(default_factory=dict)
    """Number of a report to the monotonic time at which this node made it."""
    _report_numbers: dict[str, int] = field(default_factory=dict)
    """The number of the last report read from each node."""
    _given: _ByNode = field(default_factory=_by_node)
    """Loans given.  A borrower uses one answer at a time; the lender does not know which."""
    _taken: _ByNode = field(default_factory=_by_node)
    """Loans taken: the newest answer of each lender, in a list of one."""

    def __contains__(self, key: LimitKey) -> bool:
        return key in self._given or key in self._taken

    def __iter__(self) -> Iterator[LimitKey]:
        return iter(self._given.keys() | self._taken.keys())

    def __bool__(self) -> bool:
        return bool(self._given or self._taken)

    def lent(self, key: LimitKey) -> float:
        """Return the part of the limit that other nodes may use."""
        return sum(map(_largest, self._given.get(key, {}).values()))

    def borrowed(self, key: LimitKey) -> float:
        """Return the part of the limit that this node has borrowed."""
        return sum(map(_largest, self._taken.get(key, {}).values()))

    def reported(self) -> tuple[LimitLoan, ...]:
        """Return the newest answer to each borrower, for this node's report."""
        return tuple(
            LimitLoan(*key, node, loans[-1].report_number, loans[-1].part)
            for key, by_node in self._given.items()
            for node, loans in by_node.items()
        )

    def note_asked(self, report_number: int, now_ms: float) -> None:
        """Note that a report of this node is made now; it is sent later."""
        self._asked_ms = {b: ms for b, ms in self._asked_ms.items() if ms + LOAN_MS > now_ms}
        self._asked_ms[report_number] = now_ms

    def take(self, node: str, reports: Sequence[NodeReport], now_ms: float) -> set[LimitKey]:
        """Take the loans for this node; return their limits and values."""
        changed = set()
        for report in reports:
            for loan in report.lent:
                asked_ms = self._asked_ms.get(loan.report_number)
                if loan.borrower != node or asked_ms is None or asked_ms + LOAN_MS <= now_ms:
                    continue
                key = LimitKey(loan.limit, loan.value)
                known = self._taken[key].get(report.node)
                if known is None or known[0].report_number < loan.report_number:
                    part = min(1.0, max(0.0, loan.part))
                    self._taken[key][report.node] = [
                        _Loan(loan.report_number, part, asked_ms + LOAN_MS)
                    ]
                    changed.add(key)
        return changed

    def asking(
        self, node: str, reports: Sequence[NodeReport]
    ) -> Mapping[LimitKey, Sequence[NodeReport]]:
        """Return new reports by the limits and values for which their nodes wait.

        The first report read from a node does not count: the node may have died long ago.
        """
        asking: defaultdict[LimitKey, list[NodeReport]] = defaultdict(list)
        for report in sorted(reports, key=lambda report: report.node):
            is_new = report.report_number > self._report_numbers.get(
                report.node, report.report_number
            )
            if report.borrows and report.node != node and is_new:
                for flow in report.limited_flows:
                    asking[LimitKey(flow.limit, flow.value)].append(report)
        self._report_numbers = {report.node: report.report_number for report in reports}
        return asking

    def give(
        self, key: LimitKey, askers: Sequence[NodeReport], lendable: float, now_ms: float
    ) -> bool:
        """Lend each asker an equal part of the rate not lent yet; return True if any got a loan.

        ``lendable`` is the most that this node may have lent of the limit at a time.
        """
        gave = False
        for asker in askers:
            given = self._given.get(key, {})
            loans = given.get(asker.node, [])
            others = sum(_largest(each) for node, each in given.items() if node != asker.node)
            part = min(lendable / len(askers), lendable - others)
            if part <= 0 or (not loans and sum(map(len, self._given.values())) >= LOANS_MAX):
                continue
            # An earlier, larger loan counts until it ends.
            larger = [each for each in loans if each.part > part]
            newest = _Loan(asker.report_number, part, now_ms + LOAN_MS)
            self._given[key][asker.node] = [*larger, newest]
            gave = True
        return gave

    def next_end_ms(self) -> float:
        """Return the monotonic time at which the next loan ends; infinity if there is none."""
        by_node = chain(self._given.values(), self._taken.values())
        loans = (each.ends_ms for nodes in by_node for loans in nodes.values() for each in loans)
        return min(loans, default=math.inf)

    def end(self, now_ms: float) -> Mapping[LimitKey, float]:
        """Remove loans that are over; return the time of the end, by limit and value."""
        ended: dict[LimitKey, float] = {}
        for loans_of in (self._given, self._taken):
            for key in [*loans_of]:
                for node, loans in [*loans_of[key].items()]:
                    left = [each for each in loans if each.ends_ms > now_ms]
                    over = (each.ends_ms for each in loans if each.ends_ms <= now_ms)
                    first_ms = min(over, default=None)
                    if first_ms is None:
                        continue
                    ended[key] = min(first_ms, ended.get(key, first_ms))
                    loans_of[key][node] = left
                    if not left:
                        del loans_of[key][node]
                if not loans_of[key]:
                    del loans_of[key]
        return ended


def _largest(loans: Sequence[_Loan]) -> float:
    return max(each.part for each in loans)
