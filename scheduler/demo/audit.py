"""Judges a run by the records of its executors, and by the list of scheduled tasks.

It imports nothing of the engine, so the engine cannot be wrong in the same way twice. All times are
microseconds of the machine's wall clock. It never repairs or guesses: a record that fits nothing is
a finding.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

FLUSH_US = 5_000_000
"""A completion of this age at a kill must have been durable: it explains no duplicate."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A task that was accepted, or one that must not run."""

    task_id: str
    """Its uniqueness key, which is unique within the run."""
    ordering_id: str
    due_us: int | None
    """None if the time is only known later: run now."""
    runs: bool = True
    """False for a cancelled one."""
    in_order: bool = True
    """True if it was accepted well before the first task of its ordering id was due."""


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt, as its executor recorded it."""

    task_id: str
    ordering_id: str
    due_us: int
    attempt: int
    fence: int
    pid: int
    started_us: int
    ended_us: int | None = None
    """None if the process died first."""
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of the audit; every list except ``repeated`` must be empty."""

    scheduled: int
    """Number of tasks that had to run."""
    run: int
    """Number of tasks that ended well at least once."""
    retried: int
    """Number of attempts that followed a failed one."""
    repeated: Sequence[str]
    """Attempts repeated because their process was killed before they were durable."""
    duplicates: Sequence[str]
    """Attempts repeated without such a reason."""
    overlapping: Sequence[str]
    out_of_order: Sequence[str]
    lost: Sequence[str]
    early: Sequence[str]
    unexpected: Sequence[str]
    """Attempts of tasks that were not scheduled, or cancelled, or ran at another time."""
    unended: Sequence[str]
    """Attempts that never ended although their process was not killed."""
    fences: Sequence[str]
    """Attempts with a lower fence than an earlier one of their ordering id."""

    @property
    def faults(self) -> Mapping[str, Sequence[str]]:
        """The lists that must be empty, by name."""
        return {
            "lost": self.lost,
            "early": self.early,
            "duplicates": self.duplicates,
            "overlapping": self.overlapping,
            "out of order": self.out_of_order,
            "unexpected": self.unexpected,
            "unended": self.unended,
            "fences": self.fences,
        }

    @property
    def holds(self) -> bool:
        """True if the audit has no fault."""
        return not any(self.faults.values())


def audit(planned: Iterable[Planned], runs: Iterable[Run], killed: Mapping[int, int]) -> Findings:
    """Compare the attempts with the plan.

    ``killed`` maps the pid of each killed process to the moment it was known to be gone.
    """
    plan = {task.task_id: task for task in planned}
    ordered = sorted(runs, key=lambda run: run.started_us)
    by_task: dict[str, list[Run]] = defaultdict(list)
    by_ordering: dict[str, list[Run]] = defaultdict(list)
    for run in ordered:
        by_task[run.task_id].append(run)
        by_ordering[run.ordering_id].append(run)
    succeeded = {run.task_id for run in ordered if run.succeeded}
    must_run = [task for task in plan.values() if task.runs]
    repeated, duplicates = _repetitions(by_task, by_ordering, killed)
    return Findings(
        scheduled=len(must_run),
        run=len(succeeded),
        retried=sum(
            _follows_failure(*pair) for of_task in by_task.values() for pair in pairwise(of_task)
        ),
        repeated=repeated,
        duplicates=duplicates,
        overlapping=_overlaps(by_ordering, killed),
        out_of_order=_disorder(plan, by_task, killed),
        lost=[task.task_id for task in must_run if task.task_id not in succeeded],
        early=[_told(run) for run in ordered if run.started_us < run.due_us],
        unexpected=[_told(run) for run in ordered if not _is_expected(run, plan)],
        unended=[_told(run) for run in ordered if run.ended_us is None and run.pid not in killed],
        fences=[
            _told(later)
            for of_id in by_ordering.values()
            for earlier, later in pairwise(of_id)
            if later.fence < earlier.fence
        ],
    )


def _told(run: Run) -> str:
    return f"{run.task_id} (ordering id {run.ordering_id}, attempt {run.attempt}, pid {run.pid})"


def _is_expected(run: Run, plan: Mapping[str, Planned]) -> bool:
    task = plan.get(run.task_id)
    if task is None or not task.runs or task.ordering_id != run.ordering_id:
        return False
    return task.due_us is None or task.due_us == run.due_us


def _follows_failure(earlier: Run, later: Run) -> bool:
    ended_badly = earlier.ended_us is not None and not earlier.succeeded
    return ended_badly and later.attempt > earlier.attempt


def _repetitions(
    by_task: Mapping[str, Sequence[Run]],
    by_ordering: Mapping[str, Sequence[Run]],
    killed: Mapping[int, int],
) -> tuple[list[str], list[str]]:
    """Return the attempts that a kill explains, and the unexplained ones."""
    repeated: list[str] = []
    duplicates: list[str] = []
    for of_task in by_task.values():
        for earlier, later in pairwise(of_task):
            if _follows_failure(earlier, later):
                continue
            explained = _was_in_flight(earlier, by_ordering[earlier.ordering_id], killed)
            (repeated if explained else duplicates).append(_told(later))
    return repeated, duplicates


def _was_in_flight(run: Run, of_id: Sequence[Run], killed: Mapping[int, int]) -> bool:
    """True if its process was killed before its completion had to be durable.

    The next task of an ordering id starts only when the previous completion is durable, so only the
    last attempt of an id in a killed process can be in doubt.
    """
    died_us = killed.get(run.pid)
    if died_us is None or run.started_us > died_us:
        return False
    if run.ended_us is not None and died_us - run.ended_us > FLUSH_US:
        return False
    return not any(o.pid == run.pid and o.started_us > run.started_us for o in of_id)


def _end_us(run: Run, killed: Mapping[int, int]) -> int:
    """Return the end of an attempt: at the latest its process's; infinity without any end."""
    if run.ended_us is not None:
        return run.ended_us
    return killed.get(run.pid, 2**62)


def _overlaps(by_ordering: Mapping[str, Sequence[Run]], killed: Mapping[int, int]) -> list[str]:
    found = []
    for of_id in by_ordering.values():
        longest = of_id[0]
        for run in of_id[1:]:
            if run.started_us < _end_us(longest, killed):
                found.append(f"{_told(run)} while {_told(longest)}")
            longest = max(longest, run, key=lambda each: _end_us(each, killed))
    return found


def _disorder(
    plan: Mapping[str, Planned], by_task: Mapping[str, Sequence[Run]], killed: Mapping[int, int]
) -> list[str]:
    """Find tasks that began before an earlier one of their ordering id had ended for good."""
    by_ordering: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for task in plan.values():
        if task.runs and task.in_order and task.due_us is not None and task.task_id in by_task:
            by_ordering[task.ordering_id].append((task.due_us, task.task_id))
    found = []
    for keys in by_ordering.values():
        for (_, earlier), (_, later) in pairwise(sorted(keys)):
            ended_us = max(_end_us(run, killed) for run in by_task[earlier])
            if by_task[later][0].started_us < ended_us:
                found.append(f"{later} before {earlier} had ended")
    return found


@dataclass(frozen=True, slots=True)
class Lateness:
    """Delay from a task's time to its first attempt, in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


def first_starts(runs: Iterable[Run]) -> dict[str, Run]:
    """Return each task's first attempt."""
    first: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.started_us):
        first.setdefault(run.task_id, run)
    return first


def lateness(first: Iterable[Run]) -> Lateness | None:
    """Summarise first attempts; None if there are none."""
    late = sorted((run.started_us - run.due_us) / 1000 for run in first)
    if not late:
        return None
    return Lateness(
        len(late), percentile(late, 50), percentile(late, 99), percentile(late, 99.9), late[-1]
    )


def percentile(ascending: Sequence[float], percent: float) -> float:
    """Return the smallest value that ``percent`` % of the values do not exceed."""
    rank = -(-len(ascending) * percent // 100)
    return ascending[max(0, int(rank) - 1)]


def outage_end_us(first: Iterable[Run], died_us: int) -> int:
    """Return the time when the last task that was due during an outage had started.

    The outage lasts from ``died_us`` to the next first attempt. Without one it has no duration.
    """
    firsts = list(first)
    back_us = min((r.started_us for r in firsts if r.started_us > died_us), default=died_us)
    waited = (r.started_us for r in firsts if r.due_us <= back_us)
    return max((started for started in waited if started >= died_us), default=died_us)


def undisturbed(first: Iterable[Run], from_us: int, to_us: int) -> list[Run]:
    """Return the first attempts whose wait from due to start did not touch an outage."""
    return [run for run in first if run.started_us < from_us or run.due_us > to_us]
