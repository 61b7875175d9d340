"""Opens the stores over one ``MemoryStores``, which any number of nodes may share.

Each node opens a view of its own, so that its requests can be delayed or failed apart from
the others'.
"""

from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.memory.checkpoints import MemoryCheckpoints
from hourhand.scheduler.adapters.memory.definitions import MemoryDefinitions
from hourhand.scheduler.adapters.memory.delivery import Deliver, at_once
from hourhand.scheduler.adapters.memory.outcomes import MemoryOutcomes
from hourhand.scheduler.adapters.memory.oversight import MemoryOversight, MemoryTallies
from hourhand.scheduler.adapters.memory.ownership import MemoryOwnership
from hourhand.scheduler.adapters.memory.results import MemoryResults
from hourhand.scheduler.adapters.memory.schedule import MemorySchedule
from hourhand.scheduler.adapters.memory.status import MemoryStatus
from hourhand.scheduler.adapters.memory.tables import MemoryStores, View

__all__ = ["MemoryStores", "open_memory_stores"]


def open_memory_stores(data: MemoryStores, deliver: Deliver = at_once) -> Stores:
    """Open a view of ``data``; closing it leaves the data and other views alone."""
    view = View(deliver)
    outcomes = MemoryOutcomes(data, view)
    return Stores(
        schedule=MemorySchedule(data, view),
        status=MemoryStatus(data, view),
        checkpoints=MemoryCheckpoints(data, view),
        results=MemoryResults(data, view),
        outcome_log=outcomes,
        ownership=MemoryOwnership(data, view),
        definitions=MemoryDefinitions(data, view),
        oversight=MemoryOversight(data, view),
        tallies=MemoryTallies(data, view),
        close=view.close,
        kept_outcomes=outcomes,
    )
