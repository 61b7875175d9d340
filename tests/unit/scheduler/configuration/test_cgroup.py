"""What the container, or else the machine, allows of cores."""

import os
from pathlib import Path

import pytest

from hourhand.scheduler.configuration.cgroup import allowed_cores

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.mark.parametrize(
    ("quota", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("199999 100000", 1)]
)
def test_a_quota_is_rounded_down_to_whole_cores(tmp_path: Path, quota: str, cores: int) -> None:
    """One is the least; the cgroup above counts too."""
    described, limit = tmp_path / "cgroup", tmp_path / "pod/cpu.max"
    described.write_text("0::/pod/container\n")
    limit.parent.mkdir()
    limit.write_text(f"{quota}\n")

    assert allowed_cores(described, tmp_path) == cores


@pytest.mark.parametrize("text", ["max 100000", "", "100000", "x 100000", "100000 0"])
def test_what_limits_nothing_leaves_the_cores_of_the_machine(tmp_path: Path, text: str) -> None:
    """As does what cannot be read."""
    described = tmp_path / "cgroup"
    described.write_text("0::/\n")
    (tmp_path / "cpu.max").write_text(text)

    assert allowed_cores(described, tmp_path) == CORES
