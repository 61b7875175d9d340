"""User code that computes, hangs, leaks, crashes and behaves, side by side on one embedded node.

Schedules all of it for the same seconds, and judges each task by its state in the end and by the
starts that user code wrote down.  The exit code is 0 only if each promise holds.
"""

import json
import os
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console

from examples.demo_processes.work import COMPUTE_S, CRASHES_MAX, FOLDER, STARTS, TIMEOUT_S, app
from examples.demo_stage.checks import Check, number_check, show_checks
from hourhand import Scheduler, Settings, Task, TaskInfo
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.cgroup import allowed_cores

COUNTS = {"behave": 200, "compute": 4, "hang": 2, "leak": 1, "crash": 2, "exit": 2}
"""Tasks that run in processes, by kind."""
PLAIN, PLAIN_PER_S = 1_000, 100
"""Tasks that run in threads of the node meanwhile."""
PROCESSES = 4
KILL_GRACE_MS = 500
MEMORY_BYTES_MAX = 256 << 20
BEGIN_S, DEADLINE_S = 2.0, 50.0
PLAIN_LATE_MS_MAX = 100.0
"""In the median; the machine may be busy with all that computes."""
_ERRORS = {
    "hang": ("TimeoutError", "killed"),
    "leak": ("ProcessTooLarge", "memory"),
    "crash": ("ProcessDied", "SIGSEGV"),
    "exit": ("ProcessDied", "7"),
}
_clock, _never = SystemClock(), threading.Event()


@dataclass(frozen=True, slots=True)
class Start:
    """One start of user code, as it wrote it down."""

    kind: str
    key: str
    pid: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """Evidence for the judge."""

    due_s: Mapping[str, float]
    """When each task was due, by key, by the clock of the starts."""
    starts: Sequence[Start]
    infos: Mapping[str, Sequence[TaskInfo]]
    """The state of each task in the end, by kind."""

    def of(self, kind: str) -> dict[str, list[Start]]:
        """Return the starts of a kind, by key."""
        found: dict[str, list[Start]] = defaultdict(list)
        for start in self.starts:
            if start.kind == kind:
                found[start.key].append(start)
        return found


def tasks_due(begin: datetime) -> Iterator[tuple[Task, float]]:
    """Yield all tasks, and how many seconds after the begin each is due."""
    spread_s = PLAIN / PLAIN_PER_S
    for kind, count in COUNTS.items():
        for number in range(count):
            after_s = spread_s * number / count if kind == "behave" else 0.0
            yield _task(kind, number, begin, after_s), after_s
    for number in range(PLAIN):
        after_s = number / PLAIN_PER_S
        yield _task("plain", number, begin, after_s), after_s


def _task(kind: str, number: int, begin: datetime, after_s: float) -> Task:
    return Task(
        ordering_id=f"{kind}-{number}",
        scheduled_time=begin + timedelta(seconds=after_s),
        uniqueness_key="once",
        kind=kind,
    )


def judged(seen: Seen) -> Iterator[Check]:
    """Yield what was promised, beside what was seen."""
    for kind in ("behave", "compute"):
        yield _judged_success(seen, kind)
    yield _judged_cores(seen)
    yield _judged_plain(seen)
    for kind in _ERRORS:
        yield _judged_error(seen, kind)
    yield _judged_attempts(seen)
    yield _judged_bystanders(seen)
    pids = {start.pid for start in seen.starts if start.kind == "plain"}
    yield Check(
        "process of what runs in threads",
        f"{os.getpid()}",
        ", ".join(map(str, sorted(pids))),
        pids == {os.getpid()},
    )


def _judged_success(seen: Seen, kind: str) -> Check:
    states = Counter(info.state.value for info in seen.infos[kind])
    return number_check(f"tasks that {kind}: success", COUNTS[kind], states["success"])


def _judged_cores(seen: Seen) -> Check:
    """Judge that computing tasks ran at the same time, where there are two cores."""
    ended = [info.finished_time for info in seen.infos["compute"] if info.finished_time is not None]
    begun = [info.key.scheduled_time for info in seen.infos["compute"]]
    took_s = (max(ended) - min(begun)).total_seconds() if ended else float("inf")
    alone_s = COMPUTE_S * COUNTS["compute"]
    cores = allowed_cores()
    # Beside them others hang and leak until they are killed, so the bound is far above a half.
    most_s = alone_s * 0.95 + TIMEOUT_S + KILL_GRACE_MS / 1_000 if cores > 1 else alone_s * 3
    return Check(
        f"{COUNTS['compute']} x {COMPUTE_S} s on {cores} cores",
        f"<= {most_s:.1f} s",
        f"{took_s:.1f} s",
        took_s <= most_s,
    )


def _judged_plain(seen: Seen) -> Check:
    late_ms = sorted(
        1_000 * (starts[0].at_s - seen.due_s[key]) for key, starts in seen.of("plain").items()
    )
    if len(late_ms) < PLAIN:
        return Check("tasks in threads", f"{PLAIN}", f"{len(late_ms)} ran", holds=False)
    p50_ms, p99_ms = late_ms[len(late_ms) // 2], late_ms[int(len(late_ms) * 0.99)]
    return Check(
        f"{PLAIN:,} tasks in threads: median lateness",
        f"<= {PLAIN_LATE_MS_MAX:.0f} ms",
        f"{p50_ms:.1f} ms (p99 {p99_ms:.0f} ms)",
        p50_ms <= PLAIN_LATE_MS_MAX,
    )


def _judged_error(seen: Seen, kind: str) -> Check:
    error_class, words = _ERRORS[kind]
    errors = [info.error or "" for info in seen.infos[kind]]
    right = sum(error_class in error and words in error for error in errors)
    return number_check(f"tasks that {kind}: {error_class}, {words!r}", COUNTS[kind], right, errors)


def _judged_attempts(seen: Seen) -> Check:
    """Judge that a death or a timeout costs one attempt of its own task: each kind in turn."""
    allowed = {"hang": 1, "leak": 1, "crash": CRASHES_MAX, "exit": 1}
    starts = {kind: {len(each) for each in seen.of(kind).values()} for kind in allowed}
    return Check(
        f"starts of {', '.join(allowed)}",
        "/".join(str(count) for count in allowed.values()),
        "/".join(" ".join(map(str, sorted(counts))) for counts in starts.values()),
        all(starts[kind] == {count} for kind, count in allowed.items()),
    )


def _judged_bystanders(seen: Seen) -> Check:
    charged = [
        info
        for kind in ("behave", "compute")
        for info in seen.infos[kind]
        if len(info.attempts) > 1 or any(each.error_class for each in info.attempts)
    ]
    repeated = [
        key
        for kind in ("behave", "compute", "plain")
        for key, each in seen.of(kind).items()
        if len(each) > 1
    ]
    return Check(
        "other tasks: failed, repeated",
        "0, 0",
        f"{len(charged)}, {len(repeated)}",
        not charged and not repeated,
        [str(info.key) for info in charged] + repeated,
    )


def _play(console: Console, folder: Path) -> Seen:
    os.environ[FOLDER] = str(folder)
    settings = Settings(
        embedded={"folder": folder / "data"},
        tree={
            "execution": {
                "processes": PROCESSES,
                "kill_grace_ms": KILL_GRACE_MS,
                "memory_bytes_per_process_max": MEMORY_BYTES_MAX,
            }
        },
    )
    with Scheduler(settings, executors=app) as scheduler:
        begin = scheduler.now + timedelta(seconds=BEGIN_S)
        begin_s = _clock.monotonic_ms() / 1_000 + BEGIN_S
        made = list(tasks_due(begin))
        for future in [scheduler.schedule_task(task) for task, _ in made]:
            future.result(30)
        console.print(f"{len(made):,} tasks are scheduled; they run now", highlight=False)
        ends_s = begin_s + DEADLINE_S
        infos: dict[str, list[TaskInfo]] = defaultdict(list)
        for task, _ in made:
            left_s = max(0.1, ends_s - _clock.monotonic_ms() / 1_000)
            infos[str(task.kind)].append(scheduler.wait_task(task.key, left_s))
    due_s = {str(task.key): begin_s + after_s for task, after_s in made}
    return Seen(due_s, list(_starts_in(folder)), infos)


def _starts_in(folder: Path) -> Iterator[Start]:
    for line in (folder / STARTS).read_text(encoding="utf-8").splitlines():
        yield Start(**json.loads(line))


def main() -> int:
    """Run it; return the exit code."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hourhand-processes-") as folder:
        seen = _play(console, Path(folder))
    title = "User code in processes: what was promised, and what was seen"
    return 0 if show_checks(console, title, list(judged(seen))) else 1


if __name__ == "__main__":
    sys.exit(main())
