"""Turns the evidence into one line per check, and into figures.

What ran, when and how often is judged from the executors' own records alone; where records
lie, from the topics and the tables as Kafka's and Cassandra's own clients read them.
"""

from collections.abc import Mapping, Sequence

from examples.demo_cluster.play import POISON_KEY, Evidence
from examples.demo_cluster.show import Check, Figures
from examples.demo_cluster.topic import partitions_by_key
from examples.demo_cluster.workload import STEADY_PER_S, Job
from scheduler.demo.audit import Run, audit, first_starts, lateness

_DETAILS_MAX = 5


def judge(evidence: Evidence) -> list[Check]:
    """Return every check with its verdict."""
    kept = promises(evidence.jobs, evidence.runs, evidence.killed)
    return [*kept, *_special_cases(evidence), *_places(evidence)]


def promises(jobs: Sequence[Job], runs: Sequence[Run], killed: Mapping[int, int]) -> list[Check]:
    """Return what the executors' records say of every job; ``killed`` as ``audit`` takes it."""
    planned = [job.planned(in_order=job.part != "old") for job in jobs]
    found = audit(planned, runs, killed)
    return [
        Check(
            "every accepted task has run",
            f"{found.scheduled:,}",
            f"{found.scheduled - len(found.lost):,}",
            not found.lost,
            found.lost[:_DETAILS_MAX],
        ),
        Check(
            "run again: in flight at the kill",
            "any",
            f"{len(found.repeated):,}",
            holds=True,
        ),
        _none("run again: for no such reason", found.duplicates),
        _none("started early", found.early),
        _none("two at once of one ordering id", found.overlapping),
        _none("out of order within an ordering id", found.out_of_order),
        _none("run, but not as scheduled", found.unexpected),
        _none("begun and never ended, though not killed", found.unended),
        _none("fence lower than an earlier one's", found.fences),
    ]


def _none(what: str, found: Sequence[str]) -> Check:
    return Check(what, "0", str(len(found)), not found, found[:_DETAILS_MAX])


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
        Check("3 h old in the log: runs", "1", str(len(of_log)), len(of_log) == 1),
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
        Check(
            "nodes that end well when asked to stop",
            str(len(codes)),
            str(codes.count(0)),
            not any(codes),
        ),
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
        Check(
            "ids: client and console chose one partition",
            f"{len(by_key)}",
            f"{len(by_key) - len(torn)}",
            not torn,
            torn[:_DETAILS_MAX],
        ),
        Check(
            "records in wrong partitions: put into their own",
            f"{len(strays)}",
            f"{len(moved)}",
            moved == strays,
        ),
        Check(
            "done in its own partition's rows, and once",
            f"{len(evidence.jobs):,}",
            f"{len(evidence.jobs) - len(elsewhere):,}",
            not elsewhere,
            elsewhere[:_DETAILS_MAX],
        ),
    ]


def _strays_moved(evidence: Evidence, own: Mapping[str, int]) -> set[str]:
    """Return the ordering ids whose record lies in a wrong partition and in its own."""
    strays = [record for record in evidence.records if '"misplaced-' in record.value]
    right = {record.key for record in strays if record.partition == own.get(record.key)}
    wrong = {record.key for record in strays if record.partition != own.get(record.key)}
    return right & wrong


def _chosen_partitions(evidence: Evidence) -> dict[str, set[int]]:
    """Return where each ordering id's records lie, but for those misplaced on purpose."""
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
