"""The audit finds what is planted, and nothing in a run that is well."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hourhand.scheduler.demo.audit import (
    FLUSH_US,
    Findings,
    Planned,
    Run,
    audit,
    first_starts,
    lateness,
    outage_end_us,
    percentile,
    undisturbed,
)

SECOND_US = 1_000_000
DUE_US = 1_800_000_000 * SECOND_US
NODE, OTHER_NODE = 100, 200


def _planned(number: int, ordering_id: str = "a", due_us: int | None = None) -> Planned:
    due_us = DUE_US + number * SECOND_US if due_us is None else due_us
    return Planned(f"task-{number}", ordering_id, due_us)


def _run(task: Planned, after_us: int = 1_000, took_us: int | None = 5_000) -> Run:
    assert task.due_us is not None
    started_us = task.due_us + after_us
    return Run(
        task_id=task.task_id,
        ordering_id=task.ordering_id,
        due_us=task.due_us,
        attempt=1,
        fence=1,
        pid=NODE,
        started_us=started_us,
        ended_us=None if took_us is None else started_us + took_us,
        succeeded=took_us is not None,
    )


def _faults(findings: Findings) -> dict[str, int]:
    return {name: len(found) for name, found in findings.faults.items() if found}


@pytest.fixture
def plan() -> list[Planned]:
    """Four tasks a second apart, of two ordering ids."""
    return [_planned(number, "ab"[number % 2]) for number in range(4)]


def test_a_run_that_is_well_has_no_fault(plan: list[Planned]) -> None:
    """Every task once, on time."""
    findings = audit(plan, map(_run, plan), {})

    assert findings.holds
    assert (findings.scheduled, findings.run, findings.retried) == (4, 4, 0)


def test_a_task_that_never_ran_is_lost(plan: list[Planned]) -> None:
    """It is named."""
    findings = audit(plan, [_run(task) for task in plan[1:]], {})

    assert _faults(findings) == {"lost": 1}
    assert findings.lost == ["task-0"]


def test_a_task_that_only_failed_is_lost(plan: list[Planned]) -> None:
    """An attempt is not a completion."""
    runs = [replace(_run(plan[0]), succeeded=False), *map(_run, plan[1:])]

    assert _faults(audit(plan, runs, {})) == {"lost": 1}


def test_a_start_one_microsecond_before_its_time_is_early(plan: list[Planned]) -> None:
    """Exactly on time is not."""
    on_time = [_run(plan[0], after_us=0), *map(_run, plan[1:])]
    early = [_run(plan[0], after_us=-1), *map(_run, plan[1:])]

    assert audit(plan, on_time, {}).holds
    assert _faults(audit(plan, early, {})) == {"early": 1}


def test_a_second_run_is_a_duplicate(plan: list[Planned]) -> None:
    """Whichever node it was on."""
    again = replace(_run(plan[3], after_us=20_000), pid=OTHER_NODE)

    assert _faults(audit(plan, [*map(_run, plan), again], {})) == {"duplicates": 1}


def test_a_failed_attempt_and_its_retry_are_no_duplicate(plan: list[Planned]) -> None:
    """The retry has a higher number."""
    failed = replace(_run(plan[3]), succeeded=False)
    retried = replace(_run(plan[3], after_us=500_000), attempt=2)
    findings = audit(plan, [*map(_run, plan[:3]), failed, retried], {})

    assert findings.holds
    assert findings.retried == 1


def test_a_failed_attempt_made_again_under_its_number_is_a_duplicate(plan: list[Planned]) -> None:
    """Its failure was durable before its process went on."""
    failed = replace(_run(plan[3]), succeeded=False)
    again = _run(plan[3], after_us=500_000)

    findings = audit(plan, [*map(_run, plan[:3]), failed, again], {})

    assert _faults(findings) == {"duplicates": 1}


@pytest.mark.parametrize("took_us", [None, 5_000], ids=["running", "ended, not durable"])
def test_what_was_in_flight_at_a_kill_may_run_again(
    plan: list[Planned], took_us: int | None
) -> None:
    """It is told, and no fault."""
    in_flight = _run(plan[3], took_us=took_us)
    again = replace(_run(plan[3], after_us=2 * SECOND_US), pid=OTHER_NODE, fence=2)
    killed = {NODE: in_flight.started_us + 6_000}
    findings = audit(plan, [*map(_run, plan[:3]), in_flight, again], killed)

    assert findings.holds
    assert len(findings.repeated) == 1


def test_a_kill_explains_only_the_last_attempt_of_an_ordering_id(plan: list[Planned]) -> None:
    """The next one had started, so the completion before it was durable."""
    runs = list(map(_run, plan))
    again = replace(_run(plan[1], after_us=3 * SECOND_US), pid=OTHER_NODE)
    killed = {NODE: runs[-1].started_us + 6_000}

    found = _faults(audit(plan, [*runs, again], killed))

    assert found["duplicates"] == 1


def test_a_kill_explains_nothing_that_ended_long_before(plan: list[Planned]) -> None:
    """Completions do not take that long to be durable."""
    runs = list(map(_run, plan))
    gone_us = (runs[-1].ended_us or 0) + FLUSH_US + 1
    again = replace(runs[-1], started_us=gone_us + SECOND_US, ended_us=gone_us + 2 * SECOND_US)

    found = _faults(audit(plan, [*runs, replace(again, pid=OTHER_NODE)], {NODE: gone_us}))

    assert found == {"duplicates": 1}


def test_a_kill_explains_nothing_on_another_node(plan: list[Planned]) -> None:
    """Only what the killed process ran is in doubt."""
    again = replace(_run(plan[3], after_us=20_000), pid=OTHER_NODE)
    killed = {OTHER_NODE: (again.ended_us or 0) + 1}

    assert _faults(audit(plan, [*map(_run, plan), again], killed)) == {"duplicates": 1}


def test_two_at_once_of_one_ordering_id_overlap() -> None:
    """Though each of them is on time, and in order as far as their starts go."""
    plan = [_planned(1), _planned(2)]
    runs = [_run(plan[0], took_us=SECOND_US + 1_001), _run(plan[1])]

    assert _faults(audit(plan, runs, {})) == {"overlapping": 1, "out of order": 1}


def test_a_long_attempt_overlaps_with_every_later_one() -> None:
    """Also where a short one lies between."""
    plan = [replace(_planned(number), in_order=False) for number in (1, 2, 3)]
    runs = [_run(plan[0], took_us=5 * SECOND_US), _run(plan[1]), _run(plan[2])]

    assert _faults(audit(plan, runs, {})) == {"overlapping": 2}


def test_two_at_once_of_two_ordering_ids_are_well() -> None:
    """That is the point of ordering ids."""
    plan = [_planned(1, "a"), _planned(1, "b")]
    plan[1] = replace(plan[1], task_id="task-b")

    assert audit(plan, [_run(task, took_us=SECOND_US) for task in plan], {}).holds


def test_a_killed_attempt_ends_with_its_process() -> None:
    """A later one may start as soon as it is gone, and not before."""
    plan = [_planned(1), _planned(2)]
    running = _run(plan[0], took_us=None)
    again = replace(_run(plan[0], after_us=SECOND_US), pid=OTHER_NODE)
    later = replace(_run(plan[1], after_us=SECOND_US), pid=OTHER_NODE)
    runs = [running, again, later]

    assert audit(plan, runs, {NODE: again.started_us}).holds
    assert "overlapping" in _faults(audit(plan, runs, {NODE: again.started_us + 1}))


def test_a_later_task_before_an_earlier_one_is_out_of_order() -> None:
    """One after the other, but the wrong way round."""
    plan = [_planned(1), _planned(2)]
    runs = [_run(plan[0], after_us=2 * SECOND_US), _run(plan[1])]

    assert _faults(audit(plan, runs, {})) == {"out of order": 1}


def test_tasks_of_one_moment_are_ordered_by_their_keys() -> None:
    """The uniqueness key decides."""
    plan = [_planned(1, due_us=DUE_US), _planned(2, due_us=DUE_US)]
    runs = [_run(plan[1]), _run(plan[0], after_us=10_000)]

    assert _faults(audit(plan, runs, {})) == {"out of order": 1}


def test_a_late_task_need_not_be_in_order() -> None:
    """It does not wait for its place, and nothing waits for it."""
    plan = [replace(_planned(1), in_order=False), _planned(2)]
    runs = [_run(plan[0], after_us=2 * SECOND_US), _run(plan[1])]

    assert audit(plan, runs, {}).holds


def _strangers(task: Planned) -> Sequence[Run]:
    run = _run(task)
    return [
        replace(run, task_id="nobody's"),
        replace(run, ordering_id="another"),
        replace(run, due_us=run.due_us - 1),
    ]


@pytest.mark.parametrize("which", range(3), ids=["task", "ordering id", "time"])
def test_what_nobody_scheduled_is_unexpected(plan: list[Planned], which: int) -> None:
    """An unknown task, a wrong ordering id, another time."""
    stranger = _strangers(plan[0])[which]
    runs = [*map(_run, plan[1:]), stranger]

    assert len(audit(plan, runs, {}).unexpected) == 1


def test_a_cancelled_task_that_runs_is_unexpected(plan: list[Planned]) -> None:
    """And it is not lost where it does not."""
    plan[0] = replace(plan[0], runs=False)

    assert audit(plan, map(_run, plan[1:]), {}).holds
    assert _faults(audit(plan, map(_run, plan), {})) == {"unexpected": 1}


def test_a_run_now_task_may_run_at_any_time(plan: list[Planned]) -> None:
    """Its time is that of a record nobody here has seen."""
    run = replace(_run(plan[0]), due_us=DUE_US - SECOND_US, started_us=DUE_US)
    plan[0] = replace(plan[0], due_us=None)

    assert audit(plan, [run, *map(_run, plan[1:])], {}).holds


def test_an_attempt_without_end_is_told_unless_its_process_was_killed(plan: list[Planned]) -> None:
    """Somebody must have ended it."""
    runs = [*map(_run, plan[:3]), _run(plan[3], took_us=None)]

    assert "unended" in _faults(audit(plan, runs, {}))
    assert "unended" not in _faults(audit(plan, runs, {NODE: runs[-1].started_us + 1}))


def test_a_fence_never_falls() -> None:
    """A lower one belongs to an owner of the past."""
    plan = [_planned(1), _planned(2)]
    runs = [replace(_run(plan[0]), fence=2), _run(plan[1])]

    assert _faults(audit(plan, runs, {})) == {"fences": 1}


def test_percentiles_are_values_that_were_seen() -> None:
    """By the nearest rank."""
    values = [float(value) for value in range(1, 101)]

    assert [percentile(values, each) for each in (50, 99, 99.9, 100)] == [50, 99, 100, 100]
    assert percentile([7.0], 50) == 7.0


def test_lateness_counts_first_attempts() -> None:
    """A retry is late on purpose."""
    task = _planned(1)
    retried = replace(_run(task, after_us=SECOND_US), attempt=2)

    late = lateness(first_starts([retried, _run(task, after_us=3_000)]).values())

    assert late is not None
    assert (late.count, late.p50_ms, late.max_ms) == (1, 3.0, 3.0)
    assert lateness([]) is None


def test_an_outage_ends_when_what_fell_due_in_it_has_started() -> None:
    """What fell due before and waited through it, or in it, is disturbed; the rest is not."""
    plan = [_planned(number, f"id-{number}") for number in range(5)]
    died_us = DUE_US + SECOND_US + 500_000
    # The node is back half a second before the fourth task's time, and catches up.
    runs = [_run(plan[0]), _run(plan[1]), _run(plan[2], 500_000), _run(plan[3]), _run(plan[4])]

    back_us = outage_end_us(runs, died_us)

    assert back_us == runs[2].started_us
    assert undisturbed(runs, died_us, back_us) == [runs[0], runs[1], runs[3], runs[4]]
