"""Pauses and limits that operators change, in the config that nodes read.

Decides what is paused or changed and for how long; what that must mean is for the invariants.
"""

import random

from msgspec.structs import replace

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.partition import partition_of
from tests.simulation.faulty_world import FaultyWorld
from tests.simulation.history import Happened
from tests.simulation.task_maker import SICK

SICK_IDS = 8
CHANGES_SHARE = 0.6
HELD_MS = (300.0, 2_000.0, 6_000.0, 12_000.0)


def operator(world: FaultyWorld, rng: random.Random) -> None:
    """Pause something, or change a limit where there are some, and undo it some time later."""
    if world.limits and rng.random() < CHANGES_SHARE:
        _change_limit(world, rng)
        return
    pause = _chosen(world, rng)
    held_ms = rng.choice(HELD_MS) * world.pace
    if pause.scope is not PauseScope.ORDERING:
        # An id that is paused may delay no other (P7); a partition delays all of its own.
        until_ms = world.now_ms() + held_ms
        world.note(Happened(world.now_ms(), "operator", "", until_ms))
    _replace(world, world.data.config.with_pauses([pause]))
    world.after(held_ms, lambda: _replace(world, world.data.config.without([pause.target])))


def _change_limit(world: FaultyWorld, rng: random.Random) -> None:
    kind = rng.choice(sorted(world.limits))
    place = rng.randrange(len(world.limits[kind]))
    declared = world.limits[kind][place]
    rate = declared.rest_rate
    change = LimitChange(
        f"{kind}#{place + 1}",
        rate=None if rate is None else rate * rng.choice((0.5, 2.0, 4.0)),
        burst=None if declared.rate is None else rng.choice((None, 1, 3, 8)),
        concurrency=None if declared.concurrency is None else rng.choice((1, 2, 6)),
    )
    if declared.named_rates:
        rates = {t: rng.choice((1.0, 4.0)) for t in ("t0", *declared.named_rates)}
        change = replace(change, rates=rates)
    _replace(world, world.data.config.with_limit(change))
    held_ms = rng.choice(HELD_MS) * world.pace
    world.after(held_ms, lambda: _replace(world, world.data.config.without_limits([change.limit])))


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


def _replace(world: FaultyWorld, config: OperatorConfig) -> None:
    if (config.pauses, config.limits) != (world.data.config.pauses, world.data.config.limits):
        world.data.config = config
        world.configs.append((world.now_ms(), config))
