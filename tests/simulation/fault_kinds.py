"""Every kind of fault, by name, and those of nodes: they die, freeze, come, go, and misread clocks.

Each decides how bad it is, from the run's random numbers; the world says what it means.
When one comes is for ``faults``.
"""

import random
from collections.abc import Mapping
from typing import Any

from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.adapters.memory.delivery import Request
from tests.simulation import (
    amid_faults,
    group_faults,
    hold_faults,
    operator_faults,
    outbox_faults,
    server_faults,
)
from tests.simulation.faulty_world import Fault, FaultyWorld, fail_tree, freeze, last
from tests.simulation.history import CLOCK_FAR, CLOCK_RIGHT, STARVED, Happened
from tests.simulation.member import Starvation
from tests.simulation.task_maker import SICK

_AHEAD_MIN_MS = 8_000
"""A clock is ahead of another that is so much behind it."""
_FAR_MS = (400_000, 3_600_000, 5 * 3_600_000, 86_400_000, 40 * 86_400_000)
"""Longer than a window, and than each time for which anything is kept."""
_SAVED_WITHIN_MS = 3_000
"""A watermark is saved soon, and stands so much behind the clock at most."""


def _crash(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    member.crash_in = rng.choice((0, rng.randrange(5), rng.randrange(80)))


def _blackout(world: FaultyWorld, rng: random.Random) -> None:
    for member in world.members:
        member.crash_in = rng.randrange(20)


def _pause(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    # Most are longer than the session: the node wakes up without knowing that it was expelled.
    pause_ms = rng.choice((600.0, 3_000.0, *(rng.uniform(5_200.0, 9_000.0) for _ in range(4))))
    freeze(world, member, pause_ms * world.pace)


def _outage(world: FaultyWorld, rng: random.Random) -> None:
    """Every process stands still, in some scenarios for longer than anything is kept."""
    pause_ms = rng.uniform(4_000.0, 25_000.0) * world.pace
    for member in world.members:
        # Machines do not come back at the same moment.
        freeze(world, member, pause_ms + rng.uniform(0.0, 500.0) * world.pace)


def _starve(world: FaultyWorld, rng: random.Random) -> None:
    """A process gets few turns of its machine, some of them longer apart than its lease."""
    member = rng.choice(world.members)
    gap_ms = rng.choice((50.0, 400.0, 2_000.0, 7_000.0)) * world.pace
    until_ms = last(world, rng, 20_000.0, lambda: None)
    member.starve(Starvation(until_ms, gap_ms, rng.choice((1, 10, 100))))
    world.note(Happened(world.now_ms(), STARVED, member.name, until_ms))


def _join(world: FaultyWorld, rng: random.Random) -> None:
    if len(world.members) < 5:
        world.start_member()


def _leave(world: FaultyWorld, rng: random.Random) -> None:
    staying = [member for member in world.members if not member.is_stopping]
    if len(staying) > 1:
        member = rng.choice(staying)
        world.rejoin_after(member, rng.uniform(500.0, 8_000.0) * world.pace)
        world.stop_member(member)


def _tree(world: FaultyWorld, rng: random.Random) -> None:
    fail_tree(world, rng.choice(world.members))


def _tree_while_blocking(world: FaultyWorld, rng: random.Random) -> None:
    """A tree is rebuilt while user code that nobody can cancel goes on."""
    busy = [member for member in world.members if member.workers.blocking_partitions()]
    fail_tree(world, rng.choice(busy or world.members))


def _late_tasks(world: FaultyWorld, rng: random.Random) -> None:
    """Records older than the watermark, and the end of their owner soon after."""
    partition = world.send_late_tasks()
    tree_alone = rng.random() < 0.3

    def end_owner() -> None:
        owner = world.owner_of(partition)
        if owner is not None and tree_alone:
            fail_tree(world, owner)
        elif owner is not None:
            owner.crash_in = rng.randrange(5)

    world.after(rng.uniform(30.0, 900.0) * world.pace, end_owner)


def _left_early(world: FaultyWorld, rng: random.Random) -> None:
    """An owner whose clock is ahead leaves an id, of which a task is slow, to one for whom the
    next task is not due yet; then others come that are due before it.
    """
    ordering_id = f"{SICK}early{rng.randrange(1_000)}"
    partition = partition_of(ordering_id, len(world.broker.partitions))
    owner = world.owner_of(partition)
    others = [each for each in world.members if each is not owner and each.log.membership]
    if owner is None or not others:
        return
    heir = min(others, key=lambda member: member.clock.now_ms())
    ahead_ms = owner.clock.now_ms() - heir.clock.now_ms()
    if ahead_ms < _AHEAD_MIN_MS * world.pace:
        return
    saved_ms = owner.clock.now_ms() - round(_SAVED_WITHIN_MS * world.pace)
    world.send_planned(ordering_id, heir.clock.now_ms(), ["ok:1500"])
    world.send_planned(ordering_id, saved_ms, ["ok:5"])

    def move() -> None:
        membership = heir.log.membership
        if membership is not None:
            world.coordinator.move(partition, membership)

    def send_between() -> None:
        due_ms = heir.clock.now_ms() + round(rng.uniform(300.0, 2_500.0) * world.pace)
        world.send_planned(ordering_id, due_ms, ["ok:5"])

    world.after(rng.uniform(1_000.0, 1_400.0) * world.pace, move)
    for _ in range(4):
        world.after(rng.uniform(2_500.0, 8_000.0) * world.pace, send_between)


def _held_save(world: FaultyWorld, rng: random.Random) -> None:
    """An owner dies with a save of the watermark on its way, which has its effect in the time of
    the next one; that one dies too, maybe before a save of its own.
    """

    def hold(_sender: str, request: Request[Any]) -> None:
        partition = request.partition
        epoch = world.data.claims[partition].epoch

        def end_owner(within: int) -> None:
            owner = world.owner_of(partition)
            if owner is not None:
                owner.crash_in = rng.randrange(within)

        def arrive() -> None:
            request.apply()
            end_owner(20)

        def look() -> None:
            if world.data.claims[partition].epoch == epoch:
                world.after(100.0 * world.pace, look)
            else:
                world.after(rng.uniform(0.0, 4_000.0) * world.pace, arrive)

        end_owner(5)
        look()

    world.network.next_of["save_watermark"] = hold


def _clock(world: FaultyWorld, rng: random.Random) -> None:
    member = rng.choice(world.members)
    step_ms = rng.choice((-1, 1)) * rng.choice((5, 700, 6_000))
    world.note(Happened(world.now_ms(), f"clock {step_ms}", member.name, world.now_ms()))
    member.clock.offset_ms += step_ms


def _clock_far(world: FaultyWorld, rng: random.Random) -> None:
    """A machine's clock is set by hours or days, and is set right in the end."""
    member = rng.choice(world.members)
    if member.clock.is_far and rng.random() < 0.7:
        what = f"{CLOCK_RIGHT} {member.clock.set_right()}"
    else:
        step_ms = rng.choice((-1, 1)) * rng.choice(_FAR_MS)
        member.clock.offset_ms += step_ms
        what = f"{CLOCK_FAR if member.clock.is_far else CLOCK_RIGHT} {step_ms}"
    world.note(Happened(world.now_ms(), what, member.name, world.now_ms()))


FAULTS: Mapping[str, Fault] = {
    "crash": _crash,
    "blackout": _blackout,
    "pause": _pause,
    "starve": _starve,
    "outage": _outage,
    "amid": amid_faults.amid,
    "join": _join,
    "leave": _leave,
    "tree": _tree,
    "tree_while_blocking": _tree_while_blocking,
    "late_tasks": _late_tasks,
    "left_early": _left_early,
    "held_save": _held_save,
    "clock": _clock,
    "clock_far": _clock_far,
    "coordinator": group_faults.coordinator,
    "cut_off": group_faults.cut_off,
    "flicker": group_faults.flicker,
    "commits_alone": group_faults.commits_alone,
    "move": group_faults.move,
    "store_fails": server_faults.store_fails,
    "store_slow": server_faults.store_slow,
    "save_late": server_faults.save_late,
    "status_late": server_faults.status_late,
    "pages": server_faults.pages,
    "log_fails": server_faults.log_fails,
    "broker": server_faults.broker,
    "topic_anew": server_faults.topic_anew,
    "commits_fail": server_faults.commits_fail,
    "commits_slow": server_faults.commits_slow,
    "letters_held": hold_faults.letters_held,
    "letters_fail": hold_faults.letters_fail,
    "strays_held": hold_faults.strays_held,
    "hour_unreadable": hold_faults.hour_unreadable,
    "operator": operator_faults.operator,
    "mover_crash": outbox_faults.mover_crash,
    "mover_pause": outbox_faults.mover_pause,
    "database": outbox_faults.database,
}
"""Every kind of fault, by the name scenarios use."""
