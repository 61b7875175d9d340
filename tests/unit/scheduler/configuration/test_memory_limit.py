"""What the container, or else the machine, allows of memory."""

import os
from pathlib import Path

import pytest

from hourhand.actors.model.values.settings import TreeSettings, WindowSettings
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.scheduler.configuration.memory_limit import (
    allowed_bytes,
    measures_of,
    tree_within_memory,
)
from hourhand.scheduler.configuration.settings import Settings

MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
LIMIT_BYTES = 512 * 2**20


@pytest.mark.parametrize(
    ("cgroup", "file"),
    [
        ("0::/\n", "memory.max"),
        ("0::/system.slice/node.service\n", "system.slice/node.service/memory.max"),
        ("0::/pod/container\n", "pod/memory.max"),
        ("9:cpu:/x\n4:memory:/docker/1\n", "memory/docker/1/memory.limit_in_bytes"),
        ("4:memory:/docker/1\n", "memory/memory.limit_in_bytes"),
    ],
)
def test_the_limit_of_a_container_is_found(tmp_path: Path, cgroup: str, file: str) -> None:
    """Of both versions of cgroups, its own or one above it."""
    described, limit = tmp_path / "cgroup", tmp_path / "fs" / file
    described.write_text(cgroup)
    limit.parent.mkdir(parents=True)
    limit.write_text(f"{LIMIT_BYTES}\n")

    assert allowed_bytes(described, tmp_path / "fs") == LIMIT_BYTES


@pytest.mark.parametrize("text", ["max\n", "", "9223372036854771712\n", "\u0660"])
def test_what_limits_nothing_leaves_the_machine(tmp_path: Path, text: str) -> None:
    """As does what cannot be read."""
    described, limit = tmp_path / "cgroup", tmp_path / "memory.max"
    described.write_text("0::/\nnonsense")
    limit.write_text(text)

    assert allowed_bytes(described, tmp_path) == MACHINE_BYTES
    assert allowed_bytes(tmp_path / "none", tmp_path / "none") == MACHINE_BYTES


def test_a_setting_wins_over_the_machine() -> None:
    """Without one, a quarter of what is allowed."""
    chosen = TreeSettings(window=WindowSettings(memory_bytes_max=5_000_000))

    found = tree_within_memory(Settings()).window.memory_bytes_max

    assert tree_within_memory(Settings(tree=chosen)) == chosen
    assert found is not None and found <= MACHINE_BYTES // 4


def test_what_is_held_and_its_limit_are_measures() -> None:
    """For whoever watches a node."""
    memory = NodeBudget(1_000)
    memory.poll(10)

    read = {name: measure() for name, measure in measures_of(memory).items()}

    assert read == {"memory_held_bytes": {"": 10.0}, "memory_limit_bytes": {"": 1_000.0}}
