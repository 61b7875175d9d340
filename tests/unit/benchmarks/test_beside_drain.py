"""The choice of the judged tasks that fall due beside a backlog."""

import pytest

from benchmarks.families import beside_drain
from benchmarks.loads import Load
from benchmarks.records import Execution

_PUNCTUAL = Load(1_000, 100, due_s=1_000.0, rate=500.0)
_OVERDUE = Execution(10_000_000, 1_001.0)


def _started(late_s: float) -> list[Execution]:
    return [
        Execution(number, _PUNCTUAL.due_ms(number) / 1000 + late_s)
        for number in _PUNCTUAL.numbers()
    ]


def test_only_what_fell_due_before_the_backlog_was_gone_is_judged() -> None:
    """The backlog's own lateness is not."""
    late_ms = beside_drain.late_ms(_PUNCTUAL, [*_started(0.25), _OVERDUE], 1_001.0)

    assert len(late_ms) == 500
    assert late_ms == pytest.approx([250.0] * 500, abs=0.01)


def test_a_backlog_that_is_gone_too_soon_is_no_measure() -> None:
    """A handful of tasks has no last hundredth."""
    with pytest.raises(RuntimeError, match="backlog was gone when only 50 tasks"):
        beside_drain.late_ms(_PUNCTUAL, _started(0.25), 1_000.1)


def test_a_task_that_starts_early_fails_the_measure() -> None:
    """As with every lateness."""
    with pytest.raises(RuntimeError, match="early"):
        beside_drain.late_ms(_PUNCTUAL, _started(-0.25), 1_001.0)
