"""The subtree keeps its promises in every configuration, whatever order the seed picks."""

import os

import pytest

from tests.box.box import Box
from tests.box.calm import CalmEnd
from tests.box.configurations import CONFIGURATIONS
from tests.box.promises import complaints_of

SEEDS = int(os.environ.get("BOX_SEEDS", "10"))
"""Runs of each configuration; the long run makes more."""


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_subtree_keeps_its_promises(name: str, seed: int) -> None:
    """Whatever happens; and when nothing disturbs it any more, everything is done."""
    box = Box(CONFIGURATIONS[name], seed)
    box.drive(box.configuration.steps)

    CalmEnd(box).finish()

    assert not complaints_of(box)
