"""The real workers under a virtual clock: hostile user code breaks no promise, and replays."""

from collections import Counter

import pytest

from tests.simulation.scenario import load_scenarios
from tests.simulation.simulate import simulate
from tests.simulation.task_maker import HARM

pytestmark = pytest.mark.usefixtures("quiet")

GUESTS = load_scenarios()["guests"]
SEEDS = 25


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_user_code_does_to_its_workers_breaks_no_promise(seed: int) -> None:
    """Each attempt ends once, in its own context, and others go on; ``make sim`` tries more."""
    verdict = simulate(GUESTS, seed)

    assert not verdict.complaints, verdict.report()


def test_threads_and_loops_take_the_same_turns_again() -> None:
    """From one seed, although they are real."""
    first, again = (simulate(GUESTS, 3) for _ in range(2))

    assert first.digest == again.digest


def test_the_runs_bring_all_harm_that_there_is() -> None:
    """A harm that no attempt does is never tried."""
    done = sum((Counter(simulate(GUESTS, seed).faults) for seed in range(8)), Counter[str]())

    assert {f"harm: {each}" for each in HARM} <= done.keys()
