"""Which tasks of a run have limits, and which.

Only tasks of sick ordering ids have a kind with one, so that promise P7 says of all others that
no limit holds them up.
"""

import zlib
from datetime import timedelta

from actors.model.flow import FlowRule, FlowRules, Limit
from actors.model.key import TaskKey

MAIL, REPORT, RENDER = "mail", "report", "render"
LIMITS: dict[str, tuple[Limit, ...]] = {
    MAIL: (Limit(rate=3, burst=4), Limit(rate=1, burst=2, key="tenant")),
    REPORT: (Limit(rate=1, per=timedelta(seconds=1.5), burst=1),),
    RENDER: (Limit(concurrency=4), Limit(rate=5, burst=5, concurrency=2, key="tenant")),
}
"""By kind."""
RULES = FlowRules({kind: FlowRule(limits) for kind, limits in LIMITS.items()})
_KINDS = (None, MAIL, MAIL, REPORT, RENDER, RENDER)


def kind_of(key: TaskKey) -> str | None:
    """Return the kind of a sick task: its name gives it one."""
    return _KINDS[zlib.crc32(key.uniqueness_key.encode()) % len(_KINDS)]
