"""P13 in bytes: what the tasks of a node hold, whatever their size.

Judged by the data of the tasks found in its actors, not by what the node counts itself.
"""

from collections import defaultdict

from tests.simulation.history import Sampled
from tests.simulation.judged import Complaints, Run


def bytes_are_bounded(run: Run) -> Complaints:
    """The tasks of all partitions of a node hold no more than the windows' half of its budget."""
    limit_bytes = run.tree.window.memory_bytes_max
    if limit_bytes is None:
        return
    # Before a window is shrunk what was polled passes beside it; and each partition may hold one
    # task more than its share, as may each ordering id that reads on from the store.
    polled_bytes = limit_bytes // 4
    beside = polled_bytes + 2 * run.partitions * run.tree.execution.row_bytes_max
    held: dict[tuple[str, float], int] = defaultdict(int)
    for sample in run.history.of(Sampled):
        held[sample.node, sample.at_ms] += sample.data_bytes
    for (node, at_ms), data_bytes in held.items():
        if data_bytes > limit_bytes // 2 + beside:
            yield f"{node} holds {data_bytes} bytes of tasks at {at_ms:.0f} ms"
