"""Limits that operators change while attempts wait, and for how long a limit is short."""

import random
from datetime import timedelta

import pytest

from hourhand.actors.model.flow.flow import Limit
from hourhand.actors.model.flow.limit_change import LimitChange
from tests.unit.scheduler.node.limits.test_limiter import LimitsBench


def change(bench: LimitsBench, *changes: LimitChange) -> list[str]:
    """Have operators' changes hold, and no others; return what is other than before."""
    return [str(each.after) for each in bench.limits.change(changes)]


def test_a_lower_rate_holds_at_once() -> None:
    """Tokens beyond the new burst are gone."""
    bench = LimitsBench(Limit(rate=100, burst=50))

    assert change(bench, LimitChange("mail#1", rate=1, burst=2)) == ["1 per 1 s, burst 2"]
    bench.begin(100)
    bench.work_all()
    assert len(bench.begun_ms) == 2
    bench.advance(10_000)

    assert len(bench.begun_ms) == 12
    assert change(bench, LimitChange("mail#1", rate=1, burst=2)) == []
    assert change(bench) == ["100 per 1 s, burst 50"]


def test_what_was_used_is_used_under_the_new_rate_too() -> None:
    """A change gives no tokens: starts over a change are those of the larger of both limits."""
    bench = LimitsBench(Limit(rate=10, burst=10))
    bench.begin(100)
    bench.work_all()

    change(bench, LimitChange("mail#1", burst=20))
    bench.work_all()
    assert len(bench.begun_ms) == 10
    bench.advance(1_000)
    assert len(bench.begun_ms) == 20
    change(bench, LimitChange("mail#1", rate=1_000))
    bench.work_all()
    assert len(bench.begun_ms) == 20


def test_a_lower_rate_gives_back_nothing_of_what_was_used() -> None:
    """Nor does a value that is looked at for idle ones: its tokens come back by the new rate."""
    bench = LimitsBench(Limit(rate=10, burst=10))
    bench.begin(100)
    assert len(bench.work_all()) == 10

    change(bench, LimitChange("mail#1", rate=1))
    assert not bench.work_all()
    bench.advance(3_000)
    assert len(bench.begun_ms) == 13

    used = LimitsBench(Limit(rate=1, burst=10))
    used.begin(10)
    used.work_all()
    change(used, LimitChange("mail#1", rate=2))
    used.limits._forget_idle(used.clock.monotonic_ms())
    used.begin(10)
    assert not used.passed


def test_no_time_around_changes_sees_more_than_the_larger_limit_allows() -> None:
    """However often operators change it, and however late workers are."""
    rng = random.Random(47)
    bench = LimitsBench(Limit(rate=100, burst=4))
    for _ in range(3_000):
        match rng.randrange(6):
            case 0:
                bench.begin(rng.randrange(6))
            case 1 if bench.passed:
                bench.limits.end(bench.passed.pop(0))
            case 2 | 3 if bench.passed:
                bench.work(bench.passed.pop(0))
            case 4:
                rate, burst = rng.choice((5, 20, 100)), rng.choice((1, 2, 4))
                change(bench, LimitChange("mail#1", rate=rate, burst=burst))
            case _:
                bench.clock.advance(rng.choice((0, 1, 7, 31)))
        bench.look_if_due()

    assert len(bench.begun_ms) > 200
    bench.expect_kept(4, 10)
    change(bench)
    bench.work_all()
    bench.advance(1_000_000)
    assert bench.waiting() == 0 and not bench.passed


def test_a_higher_limit_lets_what_waits_go_on_at_once() -> None:
    """Of each value; a rate needs the time of its next token."""
    bench = LimitsBench(Limit(concurrency=1, key="tenant"))
    bench.begin(5, b'{"tenant":"a"}')
    bench.begin(5, b'{"tenant":"b"}')

    change(bench, LimitChange("mail#1", concurrency=3))
    assert len(bench.passed) == 6 and bench.waiting() == 4
    change(bench)
    assert bench.waiting() == 4
    bench.work_all()

    slow = LimitsBench(Limit(rate=1, per=timedelta(hours=1), burst=1))
    slow.begin(3)
    slow.work_all()
    change(slow, LimitChange("mail#1", per_ms=1_000))
    slow.advance(2_000)
    assert len(slow.begun_ms) == 3 and slow.waiting() == 0


def test_what_needs_two_limits_goes_on_by_both_new_ones() -> None:
    """One that is raised lets nothing through that the other, lowered at once, holds up."""
    bench = LimitsBench(Limit(concurrency=1), Limit(rate=10, burst=10))
    bench.begin(20)
    assert len(bench.passed) == 1

    change(bench, LimitChange("mail#1", concurrency=20), LimitChange("mail#2", burst=1))

    assert len(bench.passed) == 1 and bench.waiting() == 19


def test_a_lower_concurrency_lets_what_runs_end() -> None:
    """Nothing begins until fewer run than it allows."""
    bench = LimitsBench(Limit(concurrency=4))
    bench.begin(8)
    running = list(bench.passed)
    for each in running:
        bench.use(each)

    change(bench, LimitChange("mail#1", concurrency=1))
    for each in running[:3]:
        bench.limits.end(each)
    assert len(bench.passed) == 4
    bench.limits.end(running[3])

    assert len(bench.passed) == 5 and bench.waiting() == 3


def test_a_change_that_does_not_fit_this_node_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a limit that another version of the code declares, or that this one declares otherwise."""
    bench = LimitsBench(Limit(concurrency=2), on_node=3)
    unknown, unfit = LimitChange("other#1", rate=1), LimitChange("mail#1", rate=1)

    assert change(bench, unknown, unfit, LimitChange("mail@node", concurrency=1)) == ["1 at once"]
    assert "declares no rate" in caplog.text
    bench.begin(3)
    assert len(bench.passed) == 1


def test_a_changed_limit_is_shared_by_partitions() -> None:
    """As the declared one is."""
    bench = LimitsBench(Limit(rate=40, burst=8), partitions=4)
    bench.hold(1)
    change(bench, LimitChange("mail#1", rate=20, burst=4))

    bench.begin(100)
    bench.work_all()
    bench.advance(1_000)

    assert len(bench.begun_ms) == 1 + 5


def test_what_comes_while_a_limit_is_short_is_held_up_from_then_on() -> None:
    """As one behind another of its ordering id; until one finds that it need not wait."""
    bench = LimitsBench(Limit(rate=1, burst=1))
    bench.begin(1)
    bench.work_all()
    for _ in range(2):
        bench.begin(1)
        bench.advance(1_000)
    assert [each.limited_ms for each in bench.done] == [0, 1_000, 2_000]

    bench.advance(60_000)
    bench.begin(2)
    bench.work_all()
    bench.advance(1_000)

    assert [each.limited_ms for each in bench.done[3:]] == [0, 1_000]
