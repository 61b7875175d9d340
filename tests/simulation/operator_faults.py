"""What operators pause and resume, in the sheet that every node reads.

Decides what is paused and for how long; what that must mean is for the invariants.
"""

import random

from actors.model.operator_sheet import OperatorSheet
from actors.model.partition import partition_of
from actors.model.pauses import Pause, PauseScope
from tests.simulation.faulty_world import FaultyWorld
from tests.simulation.history import Happened
from tests.simulation.task_maker import SICK

SICK_IDS = 8
HELD_MS = (300.0, 2_000.0, 6_000.0, 12_000.0)


def operator(world: FaultyWorld, rng: random.Random) -> None:
    """Pause something, and resume it some time later."""
    pause = _chosen(world, rng)
    held_ms = rng.choice(HELD_MS) * world.pace
    if pause.scope is not PauseScope.ORDERING:
        # An id that is paused may delay no other (P7); a partition delays all of its own.
        until_ms = world.now_ms() + held_ms
        world.note(Happened(world.now_ms(), "operator", "", until_ms))
    _replace(world, world.data.sheet.with_pauses([pause]))
    world.after(held_ms, lambda: _replace(world, world.data.sheet.without([pause.target])))


def _chosen(world: FaultyWorld, rng: random.Random) -> Pause:
    count = len(world.broker.partitions)
    scope = rng.choices(list(PauseScope), (1, 3, 8))[0]
    if scope is PauseScope.ALL:
        return Pause(scope)
    if scope is PauseScope.PARTITION:
        return Pause(scope, rng.randrange(count))
    # A sick id: of a healthy one nobody could tell whether it was late for another's sake.
    ordering_id = f"{SICK}{rng.randrange(SICK_IDS)}"
    return Pause(scope, partition_of(ordering_id, count), ordering_id)


def _replace(world: FaultyWorld, sheet: OperatorSheet) -> None:
    if sheet.pauses != world.data.sheet.pauses:
        world.data.sheet = sheet
        world.sheets.append((world.now_ms(), sheet))
