"""What is judged of the tasks that come beside a backlog."""

from collections.abc import Sequence

import pytest

from benchmarks.families.shares import phases
from benchmarks.loads import Load
from benchmarks.records import Execution

_COMING = Load(2_000, 100, due_s=1_000.0, rate=100.0, tenants=10)
_LEFT = Load(3_000, 100, due_s=1_010.0, first=10_000_000, name="backlog", tenants=1)


def _came(before_s: float = 0.002, beside_s: float = 0.003) -> list[Execution]:
    """Return the starts of what came, so late before the backlog was due and beside it."""
    return [
        Execution(number, _COMING.due_ms(number) / 1000 + late_s)
        for number in _COMING.numbers()
        for late_s in [before_s if _COMING.due_ms(number) < 1_010_000 else beside_s]
    ]


def _worked_off(rate: float, count: int = _LEFT.count) -> list[Execution]:
    return [Execution(number, 1_010.0 + n / rate) for n, number in enumerate(_LEFT.numbers())][
        :count
    ]


def test_what_came_before_the_backlog_was_due_is_what_the_rest_is_compared_with() -> None:
    """Each by its own due time, and not in the five seconds in which the backlog is read; what the
    backlog itself is late is not judged.
    """
    found = phases(_LEFT, _COMING, [*_came(), *_worked_off(200.0)])

    assert found.before_ms == pytest.approx([2.0] * 500, abs=0.01)
    assert found.beside_ms == pytest.approx([3.0] * 1_000, abs=0.01)


def test_what_is_left_of_the_backlog_at_the_end_is_not_missing() -> None:
    """The node is stopped when all that came was started."""
    found = phases(_LEFT, _COMING, [*_came(), *_worked_off(200.0, count=1_500)])

    assert len(found.beside_ms) == 1_000


@pytest.mark.parametrize(
    ("executions", "complaint"),
    [
        ([*_came(), *_worked_off(1_000.0)], "the backlog was gone"),
        ([*_came()[1:], *_worked_off(200.0)], "2000 tasks were expected once each"),
        ([*_came(), _came()[0], *_worked_off(200.0)], "2000 tasks were expected once each"),
        ([*_came(), *_worked_off(200.0), *_worked_off(200.0, 1)], "3000 tasks were expected once"),
        ([*_came(beside_s=-0.005), *_worked_off(200.0)], "5.000 ms early"),
        ([*_came(), Execution(_LEFT.first, 1_009.5)], "500.000 ms early"),
    ],
    ids=["gone", "missing", "twice", "twice of the backlog", "early", "early of the backlog"],
)
def test_what_says_nothing_fails_the_measure(
    executions: Sequence[Execution], complaint: str
) -> None:
    """A backlog that was gone would make the second half as good as the first."""
    with pytest.raises(RuntimeError, match=complaint):
        phases(_LEFT, _COMING, list(executions))
