"""Scenarios as data: a TOML file each, workload x faults x duration."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hourhand.actors.model.values.settings import TreeSettings
from hourhand.scheduler.adapters.memory.broker import BATCH_BYTES_MAX
from hourhand.scheduler.configuration.settings import ClientSettings, GroupSettings, Settings

FOLDER = Path(__file__).parent / "scenarios"
_GROUP_MS = {
    "session_timeout_ms": 5_000,
    "max_poll_interval_ms": 15_000,
    "lease_margin_ms": 500,
    "commit_interval_ms": 500,
}
LATE_MS = (3_000, 60_000, 600_000, 7_200_000, 30 * 3_600_000, 2 * 86_400_000)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Workload(_Part):
    """The work of clients and other producers."""

    ordering_ids: int = 8
    """Ids whose tasks are short and succeed; promise P7 is judged by them."""
    sick_ordering_ids: int = 3
    """Ids whose tasks fail, hang, retry and block."""
    sick: float = 0.35
    """Share of tasks that are of those."""
    tasks_per_s: float = 3.0
    commands_per_s: float = 0.5
    strange_per_s: float = 0.2
    """Poison, misplaced and late records of other producers."""
    burst_tasks: int = 0
    """Tasks of one sick id, all due at once, sent in the first second."""
    ahead_ms: int = 15_000
    """Tasks are due up to this long after they are sent."""
    races: float = 0.1
    """Share of tasks that get a command at about the moment they fall due."""
    ends: float = 0.0
    """Share of cancels that also ask what runs to end."""
    pairs: float = 0.0
    """Share of commands that name a pair of ids, and of tasks that have both of an earlier one."""
    replaces: float = 0.0
    """Share of commands that bring a new task instead of the one that has both ids."""
    followed: float = 0.0
    """Share of tasks that bring a follower, some only where they succeed."""
    groups_per_s: float = 0.0
    """Groups of two to five tasks with one follower; commands name their tasks as well."""
    again: float = 0.0
    """Share of tasks that are scheduled once more, with new data, after they fell due."""
    returns_per_s: float = 0.0
    """Failed tasks of any age that an operator brings back."""
    volleys_per_s: float = 0.0
    """Times at which many tasks are sent at one moment."""
    volley_tasks: int = 0
    """Tasks of one volley, of many ids, due within the next few seconds."""
    late_ms: tuple[int, ...] = LATE_MS
    """Lateness of the late records of foreign producers, one of these."""
    backlog_tasks: int = 0
    """Tasks of foreign producers, overdue and far ahead, all sent in the first seconds."""
    backlog_ahead_ms: int = 40_000
    """Reach of the backlog, before and after now."""
    backlog_of_one: float = 0.0
    """Share of it that is of the first tenant, with an ordering id and a long attempt for each."""
    outside_per_s: float = 0.0
    """Batches of rows written beside the log, then told through it where they must be."""
    outside_pause_ms: int = 20_000
    """Longest pause between such rows and the look at how far the owner has loaded."""
    sized_per_s: float = 0.0
    """Records about as large as some limit, with any headers."""
    sized_misplaced: float = 0.5
    """Share of these that stand in a wrong partition."""
    sized_commands: float = 0.0
    """Share of such records that are commands of tasks sent so before."""
    sized: float = 0.0
    """Share of a client's tasks that are about as large as some limit."""
    heavy: float = 0.0
    """Share of tasks with much data."""
    heavy_bytes: int = 0
    """How much."""
    kills: float = 0.0
    """Share of sick tasks that take their process down."""
    deadly: float = 0.0
    """Share of sick tasks that do so at every attempt."""
    hostile: float = 0.0
    """Share of sick tasks, and of calls of their executors, that raise what is not an Exception."""
    hostile_setup: float = 0.0
    """Share of constructors, readings of ``retry`` and waits of sick ids' executors that raise
    such; every sick task ends well then, after waits of the default policy.
    """
    kinds: float = 0.0
    """Share of tasks of sick ids that have a kind, which not every node knows at first."""
    sealed: bool = False
    """True if clients seal data, some with a key that not every node has at first, and nodes have
    middleware.
    """
    swapped_per_s: float = 0.0
    """Records of other producers with the sealed data of another task."""
    middleware_raises: float = 0.0
    """Share of attempts of sick ids before which middleware raises, and of those after which."""
    pretends: bool = False
    """True if data has members that pretend to be a kind, a priority, a trace or a seal."""
    unknowing: float = 0.0
    """Share of node processes that do not know it, until there is peace."""
    expiring: float = 0.0
    """Share of tasks that expire, at an instant or a duration after their time."""
    snoozing: float = 0.0
    """Share of sick tasks whose first or second attempt is snoozed, some too often."""
    tenants: int = 0
    """Tasks have tenants, which share what runs; the first has most of them.  With none, no kind
    has a rule of flow control.
    """
    limits: bool = False
    """True if most tasks of sick ids are of kinds with limits."""
    lend: bool = False
    """True if these are of kinds whose rates nodes lend each other, as they report."""
    hot_partitions: int = 0
    """Sick ids are of the first so many partitions; with 0 of all."""
    unordered: bool = False
    """True if two of three tasks are of kinds without order."""
    processes: bool = False
    """All tasks run in processes, which die where a plan says so, and with their node."""
    checkpoints: bool = False
    """True if user code makes checkpoints, four in a second."""
    silent: float = 0.0
    """Share of tasks that make none anyway."""
    results: bool = False
    """True if attempts that end well return a value, three of four of them."""
    outcomes: bool = False
    """True if nodes tell a topic of closed tasks."""
    runs: int = 0
    """Most tasks of one ordering id in a batch; with 0 there are no batches."""
    guests: float | None = None
    """Share of tasks of sick ids that do harm to what they find where they run, on the workers of
    every node: its threads and event loops.  Without it simulated workers play the tasks.
    """
    hang_ms: int = 6_000
    """Duration of a hanging attempt."""
    attempts_max: int = 4
    on_exhausted: str = "skip"

    @property
    def one_attempt_kinds(self) -> frozenset[str | None]:
        """The kinds of which each start is durable; tasks without a kind are the only ones."""
        return frozenset({None}) if self.attempts_max == 1 else frozenset()

    @property
    def runs_by_kind(self) -> dict[str | None, int]:
        """Most tasks of one ordering id in a batch, by kind."""
        return {None: self.runs} if self.runs else {}


class DoorLoad(_Part):
    """Requests to relay, timer service, recurring schedules, unique and debounced tasks."""

    messages_per_s: float = 0.0
    message_ids: int = 25
    """Ids that messages take turns with: the fewer, the more often one waits already."""
    sized: float = 0.0
    """Share of messages about as large as some limit, raw or encoded, with any headers and ids
    of any length.
    """
    in_batch_bytes_max: int = 1_000_000
    """Limit of the in-topic's broker, which also takes the letters of what is put aside."""
    malformed: float = 0.04
    """Share of messages whose headers cannot be used."""
    controls_per_s: float = 0.0
    """Records that cancel or reschedule what waits."""
    idle_controls_per_s: float = 0.0
    """Records that cancel or reschedule where nothing waits any more."""
    later_per_s: float = 0.0
    """Messages of ``send_later``."""
    in_partitions: int = 2
    advance_ms: int = 0
    timers_per_s: float = 0.0
    timer_changes_per_s: float = 0.0
    inside: float = 0.05
    """Share of callbacks that change their own timer."""
    tries_max: int = 4
    schedules: int = 0
    schedule_changes_per_s: float = 0.0
    declared: bool = False
    """True if every node declares the recurring schedules of its version of one application."""
    deploys_per_s: float = 0.0
    """Versions that nodes have from their next start on."""
    operator_changes_per_s: float = 0.0
    """Pauses and resumes of schedules that are declared."""
    unique_per_s: float = 0.0
    """Requests for tasks of which one is made in a window of time."""
    debounced_per_s: float = 0.0
    """Calls for tasks that the last of several calls makes."""
    unique_ids: int = 3


class OutboxLoad(_Part):
    """Tasks that an application schedules in its own transactions, and their movers."""

    transactions_per_s: float = 2.0
    rolled_back: float = 0.3
    """Share of transactions."""
    cancelled: float = 0.2
    """Share of writes that cancel what was committed before."""
    replaced: float = 0.15
    """Share of writes that schedule it once more, with new data."""
    foreign: float = 0.0
    """Share of transactions that another program makes, of rows that cannot be records."""
    ordering_ids: int = 5
    ahead_ms: int = 12_000
    """Tasks are due up to this long after they are written."""
    movers: int = 2


class Scenario(_Part):
    """One kind of run."""

    name: str
    description: str
    duration_s: int = 40
    settle_s: int = 240
    """Everything must be closed this long after the last fault."""
    partitions: int = 3
    nodes: int = 3
    assignors: tuple[str, ...] = ("cooperative-sticky", "range", "roundrobin")
    pace: float = 1.0
    """Everything but the network takes this many times longer than what is said here."""
    segments: bool = False
    """True if the store keeps many successes in one row, as the embedded one does."""
    older: float = 0.0
    """Share of node processes that are of the version before, until there is peace."""
    skew_ms: int = 1_500
    """Wall clocks are off by up to this much either way."""
    workload: Workload = Workload()
    doors: DoorLoad | None = None
    """Load of the doors, if nodes have any."""
    outbox: OutboxLoad | None = None
    """Load of an outbox, if there is one."""
    faults: dict[str, float] = Field(default_factory=dict)
    """Kind to how many a minute, where the run's seed leaves it switched on."""
    record_bytes_max: int = 1_000_000
    """A client's and a node's own limit of a record."""
    batch_bytes_max: int = BATCH_BYTES_MAX
    """The log's limit, with headers and as compressed."""
    tree: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Settings of the tree that differ from those below, by group."""

    def paced(self, duration_ms: float) -> float:
        """Return how long something lasts at this scenario's pace."""
        return duration_ms * self.pace

    def settings(self, assignor: str) -> Settings:
        """Return settings scaled so that minutes of operation pass in seconds."""
        tree = {
            "window": {
                "look_ahead_ms": 8_000,
                "prefetch_ms": 3_000,
                "tick_ms": 200,
                "page_tasks": 20,
                "slow_attempt_ms": 400,
                "completions_max": 100,
                "clock_check_ms": 1_000,
            },
            "watermark": {
                "interval_ms": 900,
                "lag_ms": 1_500,
                "stragglers_max": 5,
                "completion_retention_ms": 14 * 86_400_000,
                "failed_retention_ms": 7 * 86_400_000,
            },
            "execution": {"workers": 16, "row_bytes_max": 2_000, "lease_retry_ms": 150},
            "recovery": {
                "catch_up_deadline_ms": 5_000,
                "drain_deadline_ms": 2_000,
                "persist_deadline_ms": 10_000,
                "rebuild_pause_min_ms": 100,
                "rebuild_pause_max_ms": 3_000,
            },
        }
        for group, values in self.tree.items():
            tree[group].update(values)
        settings = Settings(
            tree=TreeSettings.model_validate(tree),
            group=GroupSettings.model_validate({"assignor": assignor, **_GROUP_MS}),
            client=ClientSettings(record_bytes_max=self.record_bytes_max),
            **self._door_settings(),
        )
        return settings if self.pace == 1.0 else self._slowed(settings, tree)

    def _door_settings(self) -> dict[str, Any]:
        load = self.doors
        if load is None:
            return {}
        timers = {"callback_retry_ms": 300, "callback_tries_max": load.tries_max}
        relay = {"timing_advance_ms": load.advance_ms, "inline_bytes_max": 1_000}
        return {"timers": timers, "relay": relay}

    def _slowed(self, settings: Settings, tree: dict[str, dict[str, int]]) -> Settings:
        """Return settings whose times are longer, also where a user may not set them so."""
        groups = {
            name: getattr(settings.tree, name).model_copy(update=self._paced_times(values))
            for name, values in tree.items()
        }
        return settings.model_copy(
            update={
                "tree": settings.tree.model_copy(update=groups),
                "group": settings.group.model_copy(update=self._paced_times(_GROUP_MS)),
            }
        )

    def _paced_times(self, values: dict[str, int]) -> dict[str, int]:
        times = {name: value for name, value in values.items() if name.endswith("_ms")}
        return {name: round(self.paced(value)) for name, value in times.items()}


def load_scenarios() -> dict[str, Scenario]:
    """Return every scenario, by name, in the order of their names."""
    return {
        path.stem: Scenario.model_validate({"name": path.stem, **tomllib.loads(path.read_text())})
        for path in sorted(FOLDER.glob("*.toml"))
    }
