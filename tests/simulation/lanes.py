"""Which ordering ids of a run have lanes: all that are plain, none, or by chance each time.

By chance, a lane gets its mailbox at any moment: as its attempt runs, as its completion is under
way, and between two tasks.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from actors.model.task import StoredTask
from actors.ordering_lane import OrderingLanes

MODES = ("lanes", "lanes", "switching", "none")
_PLAIN_SHARE = {"lanes": 1.0, "switching": 0.7, "none": 0.0}


@contextmanager
def lanes_of(seed: int) -> Iterator[str]:
    """Let the nodes of one run have the lanes that its seed says; yield the name of the mode."""
    rng = random.Random(f"lanes {seed}")
    mode = rng.choice(MODES)
    share = _PLAIN_SHARE[mode]
    is_plain, go_on = OrderingLanes.is_plain, OrderingLanes.go_on

    def plain_by_chance(lanes: OrderingLanes, task: StoredTask) -> bool:
        return rng.random() < share and is_plain(lanes, task)

    def go_on_by_chance(lanes: OrderingLanes, ordering_id: str) -> bool:
        return rng.random() < share and go_on(lanes, ordering_id)

    chosen = {"is_plain": plain_by_chance, "go_on": go_on_by_chance}
    for name, function in chosen.items():
        setattr(OrderingLanes, name, function)
    try:
        yield mode
    finally:
        for name, function in {"is_plain": is_plain, "go_on": go_on}.items():
            setattr(OrderingLanes, name, function)
