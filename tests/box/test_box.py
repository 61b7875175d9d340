"""The subtree keeps its promises in every configuration, whatever order the seed picks.

``BOX_SEEDS`` is the number of runs of each; the long run makes more.
"""

import os

import pytest

from tests.box.box import Box
from tests.box.calm import CalmEnd
from tests.box.configurations import CONFIGURATIONS
from tests.box.promises import complaints_of

SEEDS = int(os.environ.get("BOX_SEEDS", "3"))

seeds = pytest.mark.parametrize("seed", range(SEEDS))


def check(name: str, seed: int) -> None:
    """Drive a box, let it come to its end, and judge it."""
    box = Box(CONFIGURATIONS[name], seed)
    box.drive(box.configuration.steps)

    CalmEnd(box).finish()

    assert not complaints_of(box)


def test_each_configuration_has_a_test() -> None:
    """Named after it."""
    assert all(f"test_{name}" in globals() for name in CONFIGURATIONS)


@seeds
def test_plain(seed: int) -> None:
    """Tasks of one kind, nearly all of which end well."""
    check("plain", seed)


@seeds
def test_commands(seed: int) -> None:
    """Commands and later records of few keys, wherever these are."""
    check("commands", seed)


@seeds
def test_retries(seed: int) -> None:
    """Attempts that fail, until the policy skips, blocks or makes a dead letter."""
    check("retries", seed)


@seeds
def test_places(seed: int) -> None:
    """Kinds without order beside tasks that have one."""
    check("places", seed)


@seeds
def test_runs(seed: int) -> None:
    """Batches of several tasks of one ordering id."""
    check("runs", seed)


@seeds
def test_moved_runs(seed: int) -> None:
    """The same under commands, in a partition that moves and a store that fails."""
    check("moved_runs", seed)


@seeds
def test_moved_places(seed: int) -> None:
    """Kinds without order in a partition that moves and is paused."""
    check("moved_places", seed)


@seeds
def test_small(seed: int) -> None:
    """Windows and queues so small that most tasks are left to the store."""
    check("small", seed)


@seeds
def test_pauses(seed: int) -> None:
    """Pauses of the partition and of ordering ids."""
    check("pauses", seed)


@seeds
def test_moves(seed: int) -> None:
    """A partition that is given up, lost, claimed by others, and comes back; processes that die."""
    check("moves", seed)


@seeds
def test_failures(seed: int) -> None:
    """A store and a log that fail, before or after the effect, and records that are foul."""
    check("failures", seed)


@seeds
def test_flows(seed: int) -> None:
    """Kinds with limits, priorities and fair shares."""
    check("flows", seed)


@seeds
def test_backlog(seed: int) -> None:
    """Ordering ids with more overdue tasks than memory holds, beside others that are on time."""
    check("backlog", seed)


@seeds
def test_outages(seed: int) -> None:
    """Much that was stored for later falls due while nobody has the partition."""
    check("outages", seed)


@seeds
def test_stored_herd(seed: int) -> None:
    """The same where flows share the slots."""
    check("stored_herd", seed)


@seeds
def test_herd(seed: int) -> None:
    """The same where flows share the slots."""
    check("herd", seed)


@seeds
def test_large(seed: int) -> None:
    """Tasks of which few fit into the partition's share of bytes."""
    check("large", seed)


@seeds
def test_hours(seed: int) -> None:
    """An hour that ends meanwhile, so that its rows are deleted."""
    check("hours", seed)


@seeds
def test_kinds(seed: int) -> None:
    """Tasks of a kind that this node does not know."""
    check("kinds", seed)
