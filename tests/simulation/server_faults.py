"""Faults of the store and the log: they fail, are slow, answer little, or have no leader.

Each decides how bad it is, from the run's random numbers.  When one comes is for ``faults``.
"""

import random
from functools import partial
from typing import Any

from hourhand.scheduler.adapters.memory.delivery import Request
from tests.simulation.faulty_world import FaultyWorld, last
from tests.simulation.history import Happened
from tests.simulation.network import SLOW_ANSWER_MS, Weather
from tests.simulation.task_maker import SICK


def store_fails(world: FaultyWorld, rng: random.Random) -> None:
    """Requests to the store fail, some after they took effect, or before they do."""
    weather = Weather(
        rng.choice((0.05, 0.5, 1.0)) / 3,
        rng.random() / 3,
        rng.random() / 3,
        # Longer than a session at times, so that it comes in the next owner's time.
        late_ms=rng.choice((4_000.0, 20_000.0)) * world.pace,
    )
    _blow(world, rng, "store", weather)


def store_slow(world: FaultyWorld, rng: random.Random) -> None:
    """The store takes its time."""
    slow_ms = SLOW_ANSWER_MS * world.pace
    _blow(world, rng, "store", Weather(is_slow=rng.uniform(0.05, 1.0), slow_ms=slow_ms))


def save_late(world: FaultyWorld, rng: random.Random) -> None:
    """A save of a watermark fails, and has its effect when the tree that it failed is rebuilt,
    among records that are a little older than it.
    """
    late_ms = rng.choice((800.0, 2_500.0)) * world.pace
    weather = Weather(takes_effect_late=1.0, late_ms=late_ms)
    world.network.next_of["save_watermark"] = partial(world.network.through, weather)

    def send() -> None:
        world.send_late_tasks()

    for _ in range(6):
        world.after(rng.uniform(100.0, 4_000.0) * world.pace, send)
    world.note(Happened(world.now_ms(), "save late", "", world.now_ms() + 5_000.0 * world.pace))


def status_late(world: FaultyWorld, rng: random.Random) -> None:
    """A write or delete of completions fails, and has its effect hours later, in a later owner's
    time; meanwhile tasks come for hours that were swept.
    """
    kind = rng.choice(("insert_completions", "delete_statuses", "delete_statuses"))
    late_ms = rng.choice((2_500.0, 8_000.0, 20_000.0)) * world.pace
    weather = Weather(takes_effect_late=1.0, late_ms=late_ms)

    def carry(sender: str, request: Request[Any]) -> None:
        world.network.through(weather, sender, request)
        world.note(Happened(world.now_ms(), f"{kind} late", "", world.now_ms() + late_ms))
        for _ in range(8):
            world.after(rng.uniform(100.0, 1_500.0) * world.pace, send)

    def send() -> None:
        if world.members:
            ago_ms = round(rng.uniform(3_600.0, 14_400.0) * world.pace)
            due_ms = rng.choice(world.members).clock.now_ms() - ago_ms
            world.send_planned(f"{SICK}late{rng.randrange(1_000)}", due_ms, ["ok:5"])

    world.network.next_of[kind] = carry


def pages(world: FaultyWorld, rng: random.Random) -> None:
    """The store answers pages of fewer rows than it was asked for."""
    data = world.data

    def limit(asked: int) -> int:
        allowed = rng.randrange(1, asked + 1)
        world.network.counts["partial page"] += allowed < asked
        return allowed

    def heal() -> None:
        if data.page_limit is limit:
            data.page_limit = lambda asked: asked

    data.page_limit = limit
    last(world, rng, 20_000.0, heal)


def log_fails(world: FaultyWorld, rng: random.Random) -> None:
    """Appends fail, some after they took effect, or take their time."""
    weather = Weather(
        rng.random() / 2,
        rng.random() / 2,
        is_slow=rng.random(),
        slow_ms=SLOW_ANSWER_MS * world.pace,
    )
    _blow(world, rng, "log", weather)


def broker(world: FaultyWorld, rng: random.Random) -> None:
    """Some partitions have no leader: nothing is appended to them or read from them."""
    count = len(world.broker.partitions)
    refused = rng.sample(range(count), rng.randrange(1, count + 1))
    world.broker.refused.update(refused)
    until_ms = last(world, rng, 7_000.0, lambda: world.broker.refused.difference_update(refused))
    world.note(Happened(world.now_ms(), "broker", "", until_ms))


def topic_anew(world: FaultyWorld, rng: random.Random) -> None:
    """The topic is deleted and made again, under the nodes or while they stop and start."""

    def make() -> None:
        world.make_topic_anew()
        world.note(Happened(world.now_ms(), "topic recreated", "", world.now_ms()))

    if rng.random() < 0.5:
        make()
        return
    for member in world.members:
        world.rejoin_after(member, rng.uniform(500.0, 6_000.0) * world.pace)
        world.stop_member(member)
    world.after(rng.uniform(0.0, 5_000.0) * world.pace, make)


def commits_fail(world: FaultyWorld, rng: random.Random) -> None:
    """Commits of offsets fail, some after they took effect, or take their time."""
    weather = Weather(
        rng.random(), rng.random(), is_slow=rng.random() / 2, slow_ms=SLOW_ANSWER_MS * world.pace
    )
    _blow(world, rng, "commits", weather)


def commits_slow(world: FaultyWorld, rng: random.Random) -> None:
    """Every commit of offsets is served, and answered long after."""
    slow_ms = SLOW_ANSWER_MS * world.pace
    _blow(world, rng, "commits", Weather(is_slow=1.0, slow_ms=slow_ms))


def _blow(world: FaultyWorld, rng: random.Random, what: str, weather: Weather) -> None:
    """Let bad weather last for a while; a later storm of the same kind replaces it."""
    setattr(world.network, what, weather)

    def clear() -> None:
        if getattr(world.network, what) is weather:
            setattr(world.network, what, Weather())

    until_ms = last(world, rng, 5_000.0, clear)
    # Slow requests are answered after the storm, and late ones have their effect then.
    world.note(Happened(world.now_ms(), f"{what}: {weather}", "", until_ms))
