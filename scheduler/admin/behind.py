"""How many due tasks wait behind one of their ordering id: counted up to a bound, never beyond."""

from typing import Any

from actors.model.key import TaskKey
from actors.ports.clock import Clock
from scheduler.reading.inspector import Inspector

COUNTED_MAX = 1_000
_LOOKED_MAX = 10_000
_SHOWN_MAX = 20


def waiting_behind(inspector: Inspector, clock: Clock, first: TaskKey) -> dict[str, Any]:
    """Return how many tasks wait behind a key, and the first of them."""
    listing = inspector.list_open(
        to_ms=max(first.scheduled_ms + 1, clock.now_ms()),
        limit=COUNTED_MAX,
        looked_max=_LOOKED_MAX,
        ordering_id=first.ordering_id,
        after=first,
    )
    return {
        "orderingId": first.ordering_id,
        "waiting": len(listing.tasks),
        "more": listing.next_after is not None,
        "first": [str(view.key) for view in listing.tasks[:_SHOWN_MAX]],
    }
