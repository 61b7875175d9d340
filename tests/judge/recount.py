"""Recounts a run: what broke a promise, by its number.

It never repairs or guesses: what nothing in ``causes`` explains is a violation.  Promises that a
history has nothing about, such as limits, are not in what it returns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.judge.asked import TAKEN, lost, revived, uninvited, unreported
from tests.judge.attempts import again, behind, beside_processes, early, overlapping, unended
from tests.judge.causes import Rules
from tests.judge.history import History
from tests.judge.limits import beyond_limit
from tests.judge.order import out_of_order
from tests.judge.outcomes import missing, told_out_of_order, untrue
from tests.judge.view import Finding, View

Checker = Callable[[View], Iterator[Finding]]

OF_TASKS: Mapping[str, Checker] = {
    "P1 lost": lost,
    "P2 early": early,
    "P3 overlapping": overlapping,
    "P4 out of order": out_of_order,
    "P5 done again": again,
    "P14 unended": unended,
    "P15 behind its fence": behind,
    "P25 uninvited": uninvited,
    "P26 beside a process": beside_processes,
}
OF_COMMANDS: Mapping[str, Checker] = {"P6 revived": revived, "P12 unreported": unreported}
OF_LIMITS: Mapping[str, Checker] = {"P24 beyond a limit": beyond_limit}
OF_OUTCOMES: Mapping[str, Checker] = {
    "P30 untold": missing,
    "P30 told untruly": untrue,
    "P30 told out of order": told_out_of_order,
}


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything the judge found, by promise."""

    offered: int
    accepted: int
    refused: int
    unknown: int
    run: int
    """Accepted tasks that ended well at least once."""
    attempts: int
    by_kind: Mapping[str, Sequence[Finding]] = field(default_factory=dict)

    def violations(self, kind: str) -> list[Finding]:
        """Return what has no excuse."""
        return [each for each in self.by_kind[kind] if each.cause is None]

    def excused(self, kind: str) -> list[Finding]:
        """Return what has one."""
        return [each for each in self.by_kind[kind] if each.cause is not None]

    def told(self) -> list[str]:
        """Return every violation as one line."""
        return [f"{kind}: {each.told}" for kind in self.by_kind for each in self.violations(kind)]


def recount(history: History, rules: Rules) -> Findings:
    """Compare what ran with what was asked for."""
    view = View(history, rules)
    checkers = {
        **OF_TASKS,
        **(OF_COMMANDS if history.commands else {}),
        **(OF_LIMITS if history.limit else {}),
        **({} if history.told is None else OF_OUTCOMES),
    }
    answers = [offer.answer for offer in history.offers]
    accepted = {offer.task_id for offer in history.offers if offer.answer in TAKEN}
    return Findings(
        offered=len(history.offers),
        accepted=len(accepted),
        refused=answers.count("refused"),
        unknown=answers.count("unknown"),
        run=len(accepted & view.done_us.keys()),
        attempts=len(history.attempts),
        by_kind={kind: list(check(view)) for kind, check in checkers.items()},
    )
