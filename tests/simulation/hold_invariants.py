"""What must hold while something of one partition fails: that it is felt there, and only there.

It looks at what happened and what nodes told; it changes nothing.
"""

from actors.model.events import PartitionAssigned, TreeRebuilt
from tests.simulation.history import HELD, Happened
from tests.simulation.judged import Complaints, Run

HARMLESS = ("start", "stop", "stopped", "peace", HELD)


def held_spans(run: Run, partition: int, recovery_ms: float) -> list[tuple[float, float]]:
    """Return from when to when a partition may be late, as it was held."""
    return [
        (each.at_ms, each.until_ms + recovery_ms)
        for each in run.history.of(Happened)
        if each.what == f"{HELD}{partition}"
    ]


def disturbed_spans(run: Run, recovery_ms: float) -> list[tuple[float, float]]:
    """Return from when to when all may be late, for what happened to more than a partition."""
    spans = [(0.0, recovery_ms)]
    spans += [
        (each.at_ms, each.until_ms + recovery_ms)
        for each in run.history.of(Happened)
        if each.what != "peace" and not each.what.startswith(HELD)
    ]
    spans += [
        (each.at_ms, each.at_ms + recovery_ms)
        for each in run.noted()
        if isinstance(each.event, TreeRebuilt | PartitionAssigned)
    ]
    return spans


def holds_rebuild_nothing(run: Run) -> Complaints:
    """Where nothing else happens, no tree is thrown away for what holds a partition."""
    happened = list(run.history.of(Happened))
    if all(each.what.startswith(HARMLESS) for each in happened):
        for noted in run.noted():
            if isinstance(noted.event, TreeRebuilt):
                yield f"{noted.node} was rebuilt at {noted.at_ms:.0f}: {noted.event.cause}"
