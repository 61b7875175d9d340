"""The judge of the bad night finds what it is there to find."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from examples.demo_night.__main__ import TASKS, Morning, Night, judged, tasks_of_the_night
from examples.demo_stage.stage import Stage

BEGIN = datetime(2026, 2, 9, tzinfo=UTC)
SCHEDULED = list(tasks_of_the_night(BEGIN))


class Remembered(Night):
    """A night that is over, in which everything went well."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Stage(Console(), folder))
        self.served = [str(task.key) for task in SCHEDULED]
        self.in_state = {kind: Counter(success=count) for kind, count in TASKS.items()}

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls in the order of the keys."""
        return [{"key": key} for key in self.served]

    def states(self) -> dict[str, Counter[str]]:
        """Return how many tasks are in which state."""
        return self.in_state


class Quiet(Morning):
    """A morning whose commands did what they said."""

    def __init__(self, night: Night) -> None:
        super().__init__(night)
        self.answers = {
            "mail": {"applied": 700},
            "invoice": {"replayed": 700},
            "charge": {"applied": 100},
        }
        self.left = 0

    def again(self) -> int:
        """Return how many tasks could be brought back once more."""
        return self.left


def broken(night: Remembered, morning: Quiet) -> list[str]:
    """Return the checks that do not hold."""
    return [each.what for each in judged(night, morning, SCHEDULED) if not each.holds]


def test_a_night_that_went_well_is_called_so(tmp_path: Path) -> None:
    """Else the faults below prove nothing."""
    night = Remembered(tmp_path)

    assert broken(night, Quiet(night)) == []


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (lambda night, _: night.served.pop(), "tasks never served"),
        (lambda night, _: night.served.append(night.served[-1]), "tasks served twice"),
        (lambda night, _: night.served.append(f"{BEGIN:%FT%TZ},z,z"), "calls of unknown tasks"),
        (lambda night, _: night.served.reverse(), "customers out of order"),
        (lambda night, _: night.in_state["mail"].subtract(["success"]), "tasks in state success"),
        (lambda _, morning: setattr(morning, "left", 1), "tasks still to bring back"),
        (
            lambda _, morning: morning.answers.update(mail={"applied": 699, "ran_already": 1}),
            "what the command said: mail",
        ),
    ],
    ids=["lost", "doubled", "unknown", "disordered", "open", "left", "lied"],
)
def test_a_fault_of_the_night_is_found(
    fault: Callable[[Remembered, Quiet], object], found: str, tmp_path: Path
) -> None:
    """Each by its own check."""
    night = Remembered(tmp_path)
    morning = Quiet(night)

    fault(night, morning)

    assert broken(night, morning) == [found]
