"""Turns the evidence into one line per check, and into figures.

Executions are judged by the executors' own records only; the places of records by topics and
tables, as Kafka's and Cassandra's own clients read them.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from examples.demo_cluster.play import POISON_KEY, Evidence
from examples.demo_cluster.show import Figures
from examples.demo_cluster.workload import LIMIT_BURST, LIMIT_PER_S, STEADY_PER_S, Job
from examples.demo_stage.checks import Check, count_check, number_check
from examples.demo_stage.topic import partitions_by_key
from hourhand.scheduler.demo.audit import Run, audit, first_starts, lateness

_WINDOW_US = 5_000_000
_NOTED_S = 0.25
"""An executor notes its start up to so long after it: a window of notes may hold that much more."""


def judge(evidence: Evidence) -> list[Check]:
    """Return every check with its verdict."""
    kept = promises(evidence.jobs, evidence.runs, evidence.killed)
    return [*kept, *_limit(evidence), *_special_cases(evidence), *_places(evidence)]


def promises(jobs: Sequence[Job], runs: Sequence[Run], killed: Mapping[int, int]) -> list[Check]:
    """Return what the executors' records say of every job; ``killed`` as ``audit`` takes it."""
    planned = [job.planned(in_order=job.part != "old") for job in jobs]
    found = audit(planned, runs, killed)
    return [
        number_check(
            "every accepted task has run",
            found.scheduled,
            found.scheduled - len(found.lost),
            found.lost,
        ),
        Check("run again: in flight at the kill", "any", f"{len(found.repeated):,}", holds=True),
        count_check("run again: for no such reason", found.duplicates),
        count_check("started early", found.early),
        count_check("two at once of one ordering id", found.overlapping),
        count_check("out of order within an ordering id", found.out_of_order),
        count_check("run, but not as scheduled", found.unexpected),
        count_check("begun and never ended, though not killed", found.unended),
        count_check("fence lower than an earlier one's", found.fences),
    ]


def _limit(evidence: Evidence) -> list[Check]:
    """Check promise P24 over the whole cluster, for the kind that has a limit."""
    runs = [run for run in evidence.runs if run.task_id.startswith("limited-")]
    starts_us = sorted(run.started_us for run in runs)
    beyond = _beyond_limit(starts_us, evidence.handovers)
    most = max(
        (bisect_right(starts_us, at_us + _WINDOW_US) - n for n, at_us in enumerate(starts_us)),
        default=0,
    )
    seconds = _WINDOW_US / 1_000_000
    before = bisect_right(starts_us, evidence.kill_sent_us)
    nodes = {run.pid for run in runs}
    return [
        Check(
            f"P24: one limit, {LIMIT_PER_S} a second and {LIMIT_BURST} at once",
            f"{LIMIT_PER_S * seconds + LIMIT_BURST:.0f} in {seconds:.0f} s",
            f"{most:,}",
            not beyond,
            beyond,
        ),
        Check(
            "nodes that started its tasks, the killed one too",
            "3 or more",
            str(len(nodes)),
            len(nodes) >= 3 and evidence.killed.keys() <= nodes,
        ),
        Check(
            "its tasks began before and after the kill",
            "some",
            f"{before}, {len(starts_us) - before}",
            0 < before < len(starts_us),
        ),
    ]


def _beyond_limit(starts_us: Sequence[int], handovers: Sequence[tuple[int, int]]) -> list[str]:
    """Return the times in which more began than the limit allows; of each start the first.

    A burst at most that a node had let through when it lost partitions does not count.
    """
    found = []
    for place, first_us in enumerate(starts_us):
        for number, last_us in enumerate(starts_us[place:], 1):
            seconds = (last_us - first_us) / 1_000_000 + _NOTED_S
            if number <= LIMIT_BURST + LIMIT_PER_S * seconds:
                continue
            beside = sum(from_us <= last_us and first_us <= to_us for from_us, to_us in handovers)
            if number > LIMIT_BURST * (1 + beside) + LIMIT_PER_S * seconds:
                found.append(f"{number} starts in {seconds - _NOTED_S:.3f} s")
                break
    return found


def _special_cases(evidence: Evidence) -> list[Check]:
    of_log = [run for run in evidence.runs if run.task_id == "old-in-the-log" and run.succeeded]
    of_store = [run for run in evidence.runs if run.task_id == "old-in-the-store"]
    after = [run for run in of_store if run.pid != evidence.first_node_pid and run.succeeded]
    committed = any(
        evidence.commits.get(record.partition, -1) > record.offset
        for record in evidence.records
        if '"old-in-the-store"' in record.value
    )
    letters = [letter for letter in evidence.dead_letters if letter.key == POISON_KEY]
    reasons = [letter.headers.get("hourhandReason", "") for letter in letters]
    codes = evidence.stop_codes
    return [
        count_check("3 h old in the log: runs", of_log, 1),
        Check(
            "5 h old in the store: runs after a restart of all",
            "1",
            f"{len(after)}" if committed else "no commit",
            len(after) == 1 and committed,
        ),
        Check(
            "broken record: dead-lettered, with a reason",
            "1",
            str(len(letters)),
            len(letters) == 1 == len(evidence.dead_letters) and all(reasons),
            reasons,
        ),
        Check(
            "a task in the past, given to the client",
            "refused",
            "refused" if evidence.refusal else "accepted",
            evidence.refusal.startswith("TaskInThePast"),
        ),
        number_check("nodes that end well when asked to stop", len(codes), codes.count(0)),
    ]


def _places(evidence: Evidence) -> list[Check]:
    """Check that every task was closed in the partition that Kafka's own producer chose."""
    strays = {job.ordering_id for job in evidence.jobs if job.task_id.startswith("misplaced-")}
    by_key = _chosen_partitions(evidence)
    torn = [f"{key}: {sorted(found)}" for key, found in by_key.items() if len(found) != 1]
    own = {key: min(found) for key, found in by_key.items()}
    elsewhere = [
        f"{job.task_id}: {evidence.stored.get(job.task_id)}, not [{own.get(job.ordering_id)}]"
        for job in evidence.jobs
        if evidence.stored.get(job.task_id) != [own.get(job.ordering_id)]
    ]
    moved = _strays_moved(evidence, own)
    return [
        number_check(
            "ids: client and console chose one partition",
            len(by_key),
            len(by_key) - len(torn),
            torn,
        ),
        number_check(
            "records in wrong partitions: put into their own", len(strays), len(moved & strays)
        ),
        number_check(
            "done in its own partition's rows, and once",
            len(evidence.jobs),
            len(evidence.jobs) - len(elsewhere),
            elsewhere,
        ),
    ]


def _strays_moved(evidence: Evidence, own: Mapping[str, int]) -> set[str]:
    """Return the ordering ids whose record lies in a wrong partition and in its own."""
    strays = [record for record in evidence.records if '"misplaced-' in record.value]
    right = {record.key for record in strays if record.partition == own.get(record.key)}
    wrong = {record.key for record in strays if record.partition != own.get(record.key)}
    return right & wrong


def _chosen_partitions(evidence: Evidence) -> dict[str, set[int]]:
    """Return where each ordering id's records lie, except for those misplaced on purpose."""
    by_key = partitions_by_key(r for r in evidence.records if '"misplaced-' not in r.value)
    by_key.pop(POISON_KEY, None)
    return by_key


def measure(evidence: Evidence) -> Figures:
    """Return the figures."""
    first = first_starts(evidence.runs)
    burst, steady = evidence.workload.part("burst"), evidence.workload.part("steady")
    bursting = [run for run in evidence.runs if run.task_id in burst and run.ended_us is not None]
    ended_us = max((run.ended_us or 0 for run in bursting), default=0)
    due_us = min((run.due_us for run in bursting), default=0)
    takeovers_s = _takeovers_s(evidence)
    return Figures(
        tasks=len(evidence.jobs),
        burst_tasks_per_s=len(burst) * 1_000_000 / max(1, ended_us - due_us),
        steady_per_s=STEADY_PER_S,
        lateness=lateness(first[task_id] for task_id in steady if task_id in first),
        takeover_s=min(takeovers_s, default=None),
        last_takeover_s=max(takeovers_s, default=None),
    )


def _takeovers_s(evidence: Evidence) -> list[float]:
    """Return how long after the kill another node first ran a task, for each of its partitions.

    A partition was the killed node's where that node was the last one to run a task of it.
    """
    own = {key: min(found) for key, found in _chosen_partitions(evidence).items()}
    last: dict[int, Run] = {}
    first_elsewhere: dict[int, Run] = {}
    for run in sorted(evidence.runs, key=lambda run: run.started_us):
        partition = own[run.ordering_id]
        if run.started_us <= evidence.kill_sent_us:
            last[partition] = run
        elif run.pid not in evidence.killed:
            first_elsewhere.setdefault(partition, run)
    return [
        (first_elsewhere[partition].started_us - evidence.kill_sent_us) / 1_000_000
        for partition, run in last.items()
        if run.pid in evidence.killed and partition in first_elsewhere
    ]
