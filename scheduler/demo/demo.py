"""``hourhand demo``: a node runs a few thousand tasks, is killed in the middle, and continues.

Decides the sequence of events; the audit judges the executors' records. Uses only tools that every
user has: the client, the command line's ``run``, one folder.
"""

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from hourhand.actors.model.task.status import CommandOutcome
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.client.client import Receipt, SchedulerClient
from hourhand.scheduler.configuration.settings import (
    ClientSettings,
    EmbeddedSettings,
    Settings,
    TopicSettings,
)
from hourhand.scheduler.demo import audit as demo_audit
from hourhand.scheduler.demo import screen as demo_screen
from hourhand.scheduler.demo.audit import Planned, Run
from hourhand.scheduler.demo.node import NodeFailed, NodeProcess, node_environment
from hourhand.scheduler.demo.records import FOLDER_VARIABLE, RecordReader
from hourhand.scheduler.demo.screen import LATE_MS, DemoProgress, Screen
from hourhand.scheduler.runtime.interrupts import interruptible, interrupts_held

DUE_SPREAD_MS = 15_000
"""From the first task's time to the last one's."""
WORK_MIN_MS, WORK_MAX_MS = 2, 30
ORDERINGS_MAX = 150
_FAILING_SHARE = 0.05
TASKS_DEFAULT = 3_000
TASKS_MIN = 80
TASKS_MAX = 10_000
_LEAD_MS = 2_500
"""From scheduling to the first task's time: long enough to accept all of them before."""
_KILL_AFTER_MS = DUE_SPREAD_MS * 45 // 100
_QUIET_MS = 1_000
"""Time without running attempts before the audit."""
_READY_MS = 15_000.0
_GIVE_UP_MS = 25_000
_LOOK_S = 0.1
_COMMAND_TIMEOUT_S = 10.0

_NEXT_STEPS = """\
Next:
  [bold]hourhand run --executor yourmodule:YourExecutor[/]    your own code
  [bold]hourhand schedule --ordering-id customer-7 --in 10s[/]
In a clone of the repository:
  [bold]make demo-cluster[/]    real Kafka and Cassandra, three nodes, one of them killed
  docs/guides/demo.md    how to read this table"""


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The tasks of one run, and the three that commands are sent for."""

    tasks: Sequence[Task]
    cancelled: Task
    rescheduled: Task
    moved_to_ms: int
    run_now: Task

    @property
    def orderings(self) -> int:
        """The number of ordering ids."""
        return len({task.ordering_id for task in self.tasks})

    def expectations(self) -> list[Planned]:
        """Return the plan for the audit after all three commands."""
        return [self._expected(task) for task in self.tasks]

    def _expected(self, task: Task) -> Planned:
        key = task.key
        due_us: int | None = key.scheduled_ms * 1000
        if task is self.rescheduled:
            due_us = self.moved_to_ms * 1000
        elif task is self.run_now:
            due_us = None
        return Planned(
            task_id=key.uniqueness_key,
            ordering_id=key.ordering_id,
            due_us=due_us,
            runs=task is not self.cancelled,
            # Moved tasks lose their place in the order of acceptance.
            in_order=task is not self.rescheduled and task is not self.run_now,
        )


def make_plan(tasks_count: int, first_due_ms: int) -> DemoPlan:
    """Spread ``tasks_count`` tasks evenly from ``first_due_ms`` over the next seconds."""
    rng = random.Random(tasks_count)  # noqa: S311 - a plan that can be made again
    orderings = max(1, min(ORDERINGS_MAX, tasks_count // 8))
    tasks = []
    for number in range(tasks_count):
        work_ms = rng.randint(WORK_MIN_MS, WORK_MAX_MS)
        failures = rng.choice((1, 1, 2)) if rng.random() < _FAILING_SHARE else 0
        tasks.append(
            Task(
                ordering_id=f"customer-{number % orderings:03}",
                scheduled_time=from_millis(first_due_ms + number * DUE_SPREAD_MS // tasks_count),
                uniqueness_key=f"job-{number:06}",
                data={"work_ms": work_ms, "failures": failures},
                kind="charge-card" if failures else "send-mail",
            )
        )
    # From the second half, so that each of them still waits when its command arrives.
    return DemoPlan(
        tasks=tasks,
        cancelled=tasks[tasks_count * 5 // 8],
        rescheduled=tasks[tasks_count * 6 // 8],
        moved_to_ms=first_due_ms + DUE_SPREAD_MS // 2,
        run_now=tasks[tasks_count * 7 // 8],
    )


def run_demo(
    tasks: int = TASKS_DEFAULT, folder: Path | None = None, console: Console | None = None
) -> int:
    """Run the demonstration; return 0 if every promise held, 1 if one did not.

    All data is in a temporary folder, or, to be inspected afterwards, in ``folder``, which must not
    exist or be empty. Raises InvalidTask for too few or too many tasks, and KeyboardInterrupt after
    Ctrl-C, when everything is removed.
    """
    if not TASKS_MIN <= tasks <= TASKS_MAX:
        raise InvalidTask(f"{tasks} tasks asked for: the demo takes {TASKS_MIN} to {TASKS_MAX}")
    console = console or Console()
    with interruptible(), _work_folder(folder) as (path, keep):
        holds = _Demo(path, tasks, console).run()
        if not holds and folder is None:
            keep()
            console.print(f"Everything is still in {path}", highlight=False)
    return 0 if holds else 1


@contextmanager
def _work_folder(folder: Path | None) -> Iterator[tuple[Path, "_Keep"]]:
    keep = _Keep()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidTask(f"{folder} is not empty: the demo takes a folder of its own")
        yield folder.resolve(), keep
        return
    path: Path | None = None
    try:
        with interrupts_held():
            path = Path(tempfile.mkdtemp(prefix="hourhand-demo-"))
        yield path, keep
    finally:
        if path is not None and not keep.kept:
            with interrupts_held():
                shutil.rmtree(path, ignore_errors=True)


class _Keep:
    """Called if the temporary folder must be kept as evidence."""

    kept = False

    def __call__(self) -> None:
        self.kept = True


class _Demo:
    """One run, in the order of its methods."""

    def __init__(self, folder: Path, tasks: int, console: Console) -> None:
        self._folder = folder
        self._tasks = tasks
        self._clock = wiring.open_clock()
        self._screen = Screen(console)
        self._records = folder / "records"
        self._records.mkdir()
        self._reader = RecordReader(self._records)
        # Every group is set, so that the user's own settings cannot change any of them.
        self._settings = Settings(
            log="embedded",
            store="embedded",
            topic=TopicSettings(),
            embedded=EmbeddedSettings(folder=folder / "data"),
            client=ClientSettings(),
        )
        self._nodes: list[NodeProcess] = []
        self._node_state = ""
        self._tally = _Tally()
        self._killed: dict[int, int] = {}

    def run(self) -> bool:
        """Run everything; return True if every promise held."""
        say = self._screen.say
        say("[bold]Hourhand[/] on the embedded default: one folder, no server\n")
        try:
            with self._screen:
                self._start_node()
                with SchedulerClient(self._settings) as client:
                    plan = self._schedule(client)
                    first_due_ms = plan.tasks[0].key.scheduled_ms
                    self._watch_until(first_due_ms)
                    self._command(client, plan)
                self._watch_until(first_due_ms + _KILL_AFTER_MS)
                self._kill_node()
                self._start_node()
                self._watch_to_the_end()
        finally:
            with interrupts_held():
                for node in self._nodes:
                    if node.is_running:
                        node.stop()
        self._reader.read()
        return self._judge(plan)

    def _start_node(self) -> None:
        executor = f"{RecordReader.__module__}:DEMO"
        environment = node_environment(
            {
                "HOURHAND_EMBEDDED__FOLDER": str(self._folder / "data"),
                FOLDER_VARIABLE: str(self._records),
            }
        )
        log = self._folder / f"node-{len(self._nodes) + 1}.log"
        with interrupts_held():
            node = NodeProcess(executor, environment, log)
            self._nodes.append(node)
        self._node_state = f"[yellow]starting[/], pid {node.pid}"
        give_up_ms = self._clock.monotonic_ms() + _READY_MS
        while not node.says_ready:
            self._look()
            if self._clock.monotonic_ms() > give_up_ms:
                raise NodeFailed(f"the node did not start in time:\n{node.tail()}")
        self._node_state = f"[green]running[/], pid {node.pid}"
        again = " again" if len(self._nodes) > 1 else ""
        self._screen.say(f"  [green]●[/] node started{again}: pid {node.pid}")

    def _schedule(self, client: SchedulerClient) -> DemoPlan:
        started_ms = self._clock.monotonic_ms()
        plan = make_plan(self._tasks, self._clock.now_ms() + _LEAD_MS)
        client.schedule_tasks(plan.tasks).raise_if_rejected()
        took_ms = self._clock.monotonic_ms() - started_ms
        if self._clock.now_ms() >= plan.tasks[0].key.scheduled_ms:
            raise NodeFailed(f"scheduling took {took_ms:.0f} ms, too long to judge the order")
        self._tally.expect(plan)
        self._screen.say(
            f"  [green]●[/] {len(plan.tasks):,} tasks of {plan.orderings} customers accepted"
            f" in {took_ms / 1000:.1f} s, due over the next {DUE_SPREAD_MS // 1000} s"
        )
        return plan

    def _command(self, client: SchedulerClient, plan: DemoPlan) -> None:
        """Cancel one task, move one, run one now, and wait for each outcome."""
        sent = {
            "cancelled": client.cancel_task(plan.cancelled.key),
            "moved": client.reschedule_task(plan.rescheduled.key, from_millis(plan.moved_to_ms)),
            "run now": client.run_task_now(plan.run_now.key),
        }
        tasks = {"cancelled": plan.cancelled, "moved": plan.rescheduled, "run now": plan.run_now}
        for name, future in sent.items():
            receipt = future.result(_COMMAND_TIMEOUT_S)
            outcome = self._outcome(client, receipt)
            self._screen.say(f"  [green]●[/] {tasks[name].uniqueness_key} {name}: {outcome}")
            if outcome is not CommandOutcome.APPLIED:
                raise NodeFailed(f"{name}: the outcome is {outcome}, expected applied")

    def _outcome(self, client: SchedulerClient, receipt: Receipt) -> CommandOutcome | None:
        give_up_ms = self._clock.monotonic_ms() + _COMMAND_TIMEOUT_S * 1000
        while self._clock.monotonic_ms() < give_up_ms:
            recorded = client.outcome(receipt)
            if recorded is not None:
                return recorded.outcome
            self._look()
        return None

    def _kill_node(self) -> None:
        node = self._nodes[-1]
        node.kill()
        self._killed[node.pid] = self._clock.now_ms() * 1000 + 999
        self._node_state = "[bold red]killed[/]"
        self._screen.say(f"  [bold red]●[/] node killed with SIGKILL: pid {node.pid}")

    def _watch_until(self, now_ms: int) -> None:
        while self._clock.now_ms() < now_ms:
            self._look()

    def _watch_to_the_end(self) -> None:
        """Watch until all have run, and then a while, to see tasks that run twice."""
        give_up_ms = self._clock.now_ms() + _GIVE_UP_MS
        while not self._tally.is_complete and self._clock.now_ms() < give_up_ms:
            self._look()
        self._watch_until(self._clock.now_ms() + _QUIET_MS)

    def _look(self) -> None:
        """Read new records, show them, and pause; NodeFailed if the node ended by itself."""
        self._tally.take(self._reader.read())
        self._screen.show(self._tally.progress(self._node_state), self._clock.monotonic_ms())
        node = self._nodes[-1]
        if node.ended_within(_LOOK_S):
            raise NodeFailed(f"the node ended by itself:\n{node.tail()}")

    def _judge(self, plan: DemoPlan) -> bool:
        runs = self._reader.runs
        findings = demo_audit.audit(plan.expectations(), runs, self._killed)
        firsts = list(demo_audit.first_starts(runs).values())
        died_us = next(iter(self._killed.values()))
        back_us = demo_audit.outage_end_us(firsts, died_us)
        on_time = demo_audit.undisturbed(firsts, died_us, back_us)
        console = self._screen.console
        console.print()
        console.print(demo_screen.findings_table(findings))
        console.print(
            demo_screen.lateness_table(
                {
                    "outside the outage": demo_audit.lateness(on_time),
                    "the outage included": demo_audit.lateness(firsts),
                }
            )
        )
        console.print(demo_screen.histogram(firsts))
        console.print()
        for line in demo_screen.fault_lines(findings):
            console.print(f"  {line}", highlight=False, markup=False)
        outage_s = (back_us - died_us) / 1_000_000
        console.print(demo_screen.verdict_line(findings, outage_s), soft_wrap=True)
        console.print(_NEXT_STEPS, highlight=False, soft_wrap=True)
        return findings.holds


class _Tally:
    """Counts for the screen."""

    def __init__(self) -> None:
        self._scheduled = 0
        self._missing: set[str] = set()
        self._succeeded = 0
        self._retried = 0
        self._late = 0

    @property
    def is_complete(self) -> bool:
        """True if every task that has to run has ended well."""
        return self._scheduled > 0 and not self._missing

    def expect(self, plan: DemoPlan) -> None:
        """Set the expected tasks."""
        self._missing = {task.task_id for task in plan.expectations() if task.runs}
        self._scheduled = len(self._missing)

    def take(self, ended: list[Run]) -> None:
        """Count attempts that ended."""
        for run in ended:
            self._retried += run.attempt > 1
            if run.attempt == 1 and run.started_us - run.due_us > LATE_MS * 1000:
                self._late += 1
            if run.succeeded and run.task_id in self._missing:
                self._missing.remove(run.task_id)
                self._succeeded += 1

    def progress(self, node_state: str) -> DemoProgress:
        """Return the counts in the screen's form."""
        return DemoProgress(self._scheduled, self._succeeded, self._retried, self._late, node_state)
