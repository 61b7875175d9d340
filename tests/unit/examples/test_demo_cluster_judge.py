"""The cluster demonstration's judge: a good run passes, and each planted fault fails its check."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from examples.demo_cluster.executor import micros
from examples.demo_cluster.judge import judge, measure
from examples.demo_cluster.play import POISON_KEY, Evidence
from examples.demo_cluster.workload import (
    LIMIT_BURST,
    LIMIT_PER_S,
    Job,
    companions,
    limited_jobs,
    make_workload,
    misplaced_jobs,
    whole_millis,
)
from examples.demo_stage.topic import Found
from hourhand.scheduler.demo.audit import Run

STARTS = datetime(2030, 1, 1, tzinfo=UTC)
FIRST, SECOND, THIRD = 1, 2, 3
PARTITIONS = 4


def _own(ordering_id: str) -> int:
    return sum(ordering_id.encode()) % PARTITIONS


def _runs(job: Job) -> list[Run]:
    due_us = micros(job.due)
    pid = (SECOND, THIRD)[_own(job.ordering_id) % 2]
    # Its companion has the same time and comes first by its key.
    started_us = due_us + 1_000 * job.task_id.startswith("misplaced-")
    run = Run(
        task_id=job.task_id,
        ordering_id=job.ordering_id,
        due_us=due_us,
        attempt=1,
        fence=1,
        pid=pid,
        started_us=started_us,
        ended_us=started_us + 100,
        succeeded=True,
    )
    if job.retry_after_s:
        later_us = due_us + 1_000_000
        again = replace(run, attempt=2, started_us=later_us, ended_us=later_us + 1)
        return [replace(run, pid=FIRST, succeeded=False), again]
    return [run]


def _found(job: Job, offset: int, partition: int | None = None) -> Found:
    partition = _own(job.ordering_id) if partition is None else partition
    return Found(partition, offset, job.ordering_id, job.record(), {})


def _limited(run: Run, number: int, kill_sent_us: int) -> Run:
    """Return the run at the moment that the limit gives it, all of the burst at once."""
    after_us = max(0, number + 1 - LIMIT_BURST) * 1_000_000 // LIMIT_PER_S
    pid = run.pid if run.due_us + after_us < kill_sent_us else FIRST
    at_us = run.due_us + after_us
    return replace(run, pid=pid, started_us=at_us, ended_us=at_us + 1)


@pytest.fixture(scope="module")
def good() -> Evidence:
    """A run of which every check holds."""
    workload = make_workload(1_000, STARTS)
    strays = misplaced_jobs(STARTS)
    old = [
        Job("old-in-the-log", "old-1", STARTS - timedelta(hours=3), "old"),
        Job("old-in-the-store", "old-2", STARTS - timedelta(hours=5), "old", retry_after_s=1),
    ]
    limited = limited_jobs(workload.storm)
    jobs = [*old, *workload.jobs, *limited, *strays, *companions(strays)]
    kill_sent_us = micros(workload.storm) + 9_000_000
    of_limit = [run for job in limited for run in _runs(job)]
    records = [_found(job, offset) for offset, job in enumerate(jobs)]
    wrong = [_found(job, 0, (_own(job.ordering_id) + 1) % PARTITIONS) for job in strays]
    broken = Found(3, 7, POISON_KEY, '{"broken', {})
    letter = replace(broken, headers={"hourhandReason": "it is broken"})
    return Evidence(
        jobs=jobs,
        workload=workload,
        runs=[
            *(_limited(run, number, kill_sent_us) for number, run in enumerate(of_limit)),
            *(run for job in jobs if job.part != "limited" for run in _runs(job)),
        ],
        killed={},
        kill_sent_us=kill_sent_us,
        handovers=[],
        first_node_pid=FIRST,
        stop_codes=[0, 0],
        refusal="TaskInThePast: it is due an hour ago",
        commits=dict.fromkeys(range(PARTITIONS), 10**6),
        records=[*records, *wrong, broken],
        dead_letters=[letter],
        stored={job.task_id: [_own(job.ordering_id)] for job in jobs},
    )


def test_a_good_run_passes_every_check(good: Evidence) -> None:
    """And its figures can be measured."""
    assert [check.what for check in judge(good) if not check.holds] == []
    figures = measure(good)
    assert figures.lateness is not None
    assert figures.lateness.count == len(good.workload.part("steady"))
    assert figures.burst_tasks_per_s > 0
    assert figures.takeover_s is None


def _without(evidence: Evidence, task_id: str) -> Evidence:
    return replace(evidence, runs=[run for run in evidence.runs if run.task_id != task_id])


def _without_own_copies(evidence: Evidence) -> Evidence:
    kept = [
        record
        for record in evidence.records
        if '"misplaced-00"' not in record.value or record.partition != _own(record.key)
    ]
    return replace(evidence, records=kept)


def _torn(evidence: Evidence) -> Evidence:
    record = evidence.records[2]
    elsewhere = replace(record, partition=(record.partition + 1) % PARTITIONS)
    return replace(evidence, records=[*evidence.records, elsewhere])


def _hurried(evidence: Evidence, count: int, place: int = 400) -> Evidence:
    """Have so many limited tasks, from one on, begin together."""
    runs = list(evidence.runs)
    at_us = runs[place].started_us
    for number in range(place, place + count):
        runs[number] = replace(runs[number], started_us=at_us, ended_us=at_us + 1)
    return replace(evidence, runs=runs)


def _on_two_nodes(evidence: Evidence) -> Evidence:
    runs = [
        replace(run, pid=THIRD) if run.pid == FIRST and run.task_id.startswith("limited-") else run
        for run in evidence.runs
    ]
    return replace(evidence, runs=runs)


DAMAGES: dict[str, tuple[Callable[[Evidence], Evidence], str]] = {
    "lost": (lambda e: _without(e, "task-000003"), "every accepted task"),
    "duplicate": (lambda e: replace(e, runs=[*e.runs, e.runs[-1]]), "for no such reason"),
    "old in the log": (lambda e: _without(e, "old-in-the-log"), "3 h old"),
    "old in the store": (lambda e: _without(e, "old-in-the-store"), "5 h old"),
    "not committed": (lambda e: replace(e, commits={}), "5 h old"),
    "run before the restart": (lambda e: replace(e, first_node_pid=SECOND), "5 h old"),
    "no letter": (lambda e: replace(e, dead_letters=[]), "broken record"),
    "no reason": (
        lambda e: replace(e, dead_letters=[replace(e.dead_letters[0], headers={})]),
        "broken record",
    ),
    "past accepted": (lambda e: replace(e, refusal=""), "in the past"),
    "bad stop": (lambda e: replace(e, stop_codes=[0, -9]), "end well"),
    "not moved": (_without_own_copies, "wrong partitions"),
    "stored elsewhere": (
        lambda e: replace(e, stored={**e.stored, "misplaced-01": [99]}),
        "own partition's rows",
    ),
    "stored twice": (
        lambda e: replace(e, stored={**e.stored, "task-000001": [0, 1]}),
        "own partition's rows",
    ),
    "partitions disagree": (_torn, "chose one partition"),
    "beyond the limit": (lambda e: _hurried(e, 30), "one limit"),
    "beyond the limit and a handover": (
        lambda e: _hurried(replace(e, handovers=[(0, 2**62)]), 46),
        "one limit",
    ),
    "limited on two nodes": (_on_two_nodes, "nodes that started its tasks"),
    "limited, not on the killed one": (
        lambda e: replace(e, killed={99: e.kill_sent_us}),
        "nodes that started its tasks",
    ),
    "limited tasks were over": (lambda e: replace(e, kill_sent_us=2**62), "before and after"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_planted_fault_fails_its_check(good: Evidence, damage: str) -> None:
    """The table would be worth nothing otherwise."""
    plant, what = DAMAGES[damage]

    broken = [check.what for check in judge(plant(good)) if not check.holds]

    assert any(what in name for name in broken), broken


def test_what_was_let_through_at_a_handover_begins_beside_the_limit(good: Evidence) -> None:
    """A burst of it, and only where the window of starts touches the handover."""
    crowded = _hurried(good, 26)
    moment_us = crowded.runs[400].started_us
    near, far = [(moment_us, moment_us + 1)], [(moment_us + 60_000_000, moment_us + 60_000_001)]

    assert not _failed(replace(crowded, handovers=near))
    assert _failed(replace(crowded, handovers=far)) == _failed(crowded) != []


def _failed(evidence: Evidence) -> list[str]:
    return [
        check.what for check in judge(evidence) if "one limit" in check.what and not check.holds
    ]


def test_the_takeover_is_the_first_start_elsewhere_in_a_killed_nodes_partition(
    good: Evidence,
) -> None:
    """Other partitions do not count, nor does the killed node itself."""
    storm = sorted(good.workload.part("storm"))
    kill_us = micros(good.workload.storm) + 5_000_000
    moved = [
        replace(run, pid=THIRD, started_us=run.started_us + 6_000_000, ended_us=None)
        if run.task_id in storm and run.pid == SECOND and run.started_us > kill_us
        else run
        for run in good.runs
        if run.task_id in storm
    ]
    first_us = min(
        run.started_us
        for run in moved
        if _own(run.ordering_id) % 2 == 0 and run.pid == THIRD and run.started_us > kill_us
    )

    figures = measure(replace(good, runs=moved, killed={SECOND: kill_us}, kill_sent_us=kill_us))

    assert figures.takeover_s == (first_us - kill_us) / 1_000_000


def test_both_writers_write_half_of_every_part() -> None:
    """And every ordering id hears of both."""
    jobs = make_workload(20_000, STARTS).jobs

    assert sum(job.by_client for job in jobs) == len(jobs) // 2
    ids = {(job.ordering_id, job.by_client) for job in jobs}
    assert len(ids) == 2 * len({job.ordering_id for job in jobs})
    assert all(job.due == whole_millis(job.due) for job in jobs)
