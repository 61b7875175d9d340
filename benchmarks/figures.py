"""A figure with its spread, a goal, and the line that says how the two compare.

Decides what a line of the results holds; never measures anything.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """The values of all rounds; the median stands for them."""

    rounds: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure":
        """Build a figure from one value a round; raises ValueError where there is none."""
        if not values:
            raise ValueError("a figure needs a round at least")
        return cls(tuple(values))

    @property
    def value(self) -> float:
        """The median."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest."""
        return min(self.rounds), max(self.rounds)


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a ratio, or of a value that is not compared."""

    kind: Literal["at least", "at most"]
    limit: float
    of: Literal["ratio", "value"] = "ratio"

    def is_met(self, value: float, ratio: float | None) -> bool | None:
        """True if it is met; None if its value or ratio was not measured."""
        judged = value if self.of == "value" else ratio
        if judged is None:
            return None
        return judged >= self.limit if self.kind == "at least" else judged <= self.limit

    def __str__(self) -> str:
        return f"{self.of} {self.kind} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Line:
    """One measure beside one thing it is compared with."""

    measure: str
    figure: Figure
    unit: str
    against: str | None = None
    """The counterpart: a rival, a limit, or the same measure under other conditions."""
    against_figure: Figure | None = None
    goal: Goal | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """The value by the value it is compared with."""
        other = self.against_figure
        return self.figure.value / other.value if other is not None and other.value else None

    @property
    def met(self) -> bool | None:
        """True if the goal is met; None without a goal, or without a figure to judge it by."""
        return None if self.goal is None else self.goal.is_met(self.figure.value, self.ratio)

    def as_json(self, **where: Any) -> dict[str, Any]:
        """Return the line as it is written; ``where`` names machine, commit and version."""
        other = self.against_figure
        return {
            "measure": self.measure,
            "value": _short(self.figure.value),
            "unit": self.unit,
            "against": self.against,
            "against_value": None if other is None else _short(other.value),
            "ratio": None if self.ratio is None else _short(self.ratio),
            "goal": None if self.goal is None else str(self.goal),
            "met": self.met,
            "spread": [_short(each) for each in self.figure.spread],
            "against_spread": None if other is None else [_short(each) for each in other.spread],
            "rounds": len(self.figure.rounds),
            **where,
            **({"detail": self.detail} if self.detail else {}),
        }


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of the ordered values do not exceed."""
    if not ordered:
        raise ValueError("nothing was measured")
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the least-squares line through (x, y)."""
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def _short(value: float) -> float:
    return float(f"{value:.5g}")
