"""The tasks of a run that have limits, and these limits.

Only tasks of sick ordering ids have a kind with one, so that promise P7 says of all others that
no limit holds them up.
"""

import zlib
from collections.abc import Mapping
from datetime import timedelta

from hourhand.actors.model.flow.flow import FairShare, FlowRule, FlowRules, Limit
from hourhand.actors.model.task.key import TaskKey

MAIL, REPORT, RENDER = "mail", "report", "render"
Limits = Mapping[str, tuple[Limit, ...]]
LIMITS: Limits = {
    MAIL: (Limit(rate=3, burst=4), Limit(rate={"t1": 2, "*": 1}, burst=2, key="tenant")),
    REPORT: (Limit(rate=1, per=timedelta(seconds=1.5), burst=1),),
    RENDER: (Limit(concurrency=4), Limit(rate=5, burst=5, concurrency=2, key="tenant")),
}
"""By kind."""
FETCH, BILL = "fetch", "bill"
LENT: Limits = {
    FETCH: (Limit(rate=6, burst=2),),
    BILL: (
        Limit(rate={"t1": 3, "*": 2}, burst=1, key="tenant"),
        Limit(rate=20, burst=3, concurrency=9),
    ),
}
"""Limits whose rates nodes lend each other."""
FAIR = {FETCH: FairShare(key="tenant", weights={"t1": 3})}
"""The fair shares of kinds with limits."""
_KINDS = (None, MAIL, MAIL, REPORT, RENDER, RENDER)
_LENT_KINDS = (None, FETCH, FETCH, FETCH, BILL, BILL)


def limits_of(*, limits: bool, lend: bool) -> Limits:
    """Return those of a run."""
    return LENT if lend else LIMITS if limits else {}


def rules_of(limits: Limits) -> FlowRules:
    """Return what a run's kinds declare."""
    return FlowRules({kind: FlowRule(each, fair=FAIR.get(kind)) for kind, each in limits.items()})


def kind_of(key: TaskKey, *, lend: bool) -> str | None:
    """Return the kind of a sick task: its name gives it one."""
    kinds = _LENT_KINDS if lend else _KINDS
    return kinds[zlib.crc32(key.uniqueness_key.encode()) % len(kinds)]
