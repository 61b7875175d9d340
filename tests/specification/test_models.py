"""The rules of lease, epoch, commit and watermark hold in every state; without any one they do not.

The models are written in Python and looked at by ``checker``: the command line of Quint 0.33.1
does not start under Node.js 20, and its simulator is fetched when it runs.
"""

from typing import get_args

import pytest

from tests.specification import lease_model, ownership_model
from tests.specification.checker import shortest_way_to
from tests.specification.lease_model import LeaseModel, LeaseState
from tests.specification.ownership_model import OwnershipModel, OwnershipState

ENOUGH_STATES = {"classic": 500, "consumer": 50_000}
"""Fewer would mean that a model no longer does what it was written for."""
OF_BOTH = ("counts from the answer",)
OF_CLASSIC = ("takes any answer for the last commit's",)


def _breakages_of(protocol: str) -> list[str]:
    named = [each for each in get_args(lease_model.Breakage) if each]
    if protocol == "classic":
        return [each for each in named if each in OF_BOTH + OF_CLASSIC]
    return [each for each in named if each not in OF_CLASSIC]


@pytest.mark.parametrize("protocol", get_args(lease_model.Protocol))
def test_a_member_with_a_lease_owns_its_partitions(protocol: lease_model.Protocol) -> None:
    """Under either protocol, however late requests, answers and statistics come (P3)."""
    way, states = shortest_way_to(LeaseState(), LeaseModel(protocol).steps, lease_model.is_bad)

    assert way is None
    assert states >= ENOUGH_STATES[protocol]


@pytest.mark.parametrize(
    ("protocol", "breakage"),
    [
        (protocol, each)
        for protocol in get_args(lease_model.Protocol)
        for each in _breakages_of(protocol)
    ],
)
def test_a_lease_needs_each_of_its_rules(
    protocol: lease_model.Protocol, breakage: lease_model.Breakage
) -> None:
    """Left out, there is a way to a start beside another owner."""
    model = LeaseModel(protocol, breakage)
    way, _ = shortest_way_to(LeaseState(), model.steps, lease_model.is_bad)

    assert way is not None
    assert "the session ends" in way


def test_a_committed_record_is_done_or_will_be_loaded() -> None:
    """Whichever owner saves what, and whenever it lands (P1, P9)."""
    model = OwnershipModel()
    way, states = shortest_way_to(OwnershipState(), model.steps, ownership_model.is_bad)

    assert way is None
    assert states >= ENOUGH_STATES["consumer"]


@pytest.mark.parametrize("breakage", [each for each in get_args(ownership_model.Breakage) if each])
def test_a_commit_needs_each_of_its_rules(breakage: ownership_model.Breakage) -> None:
    """Left out, there is a way to a task that nobody runs."""
    model = OwnershipModel(breakage)
    way, _ = shortest_way_to(OwnershipState(), model.steps, ownership_model.is_bad)

    assert way is not None
    assert "the member commits" in way
