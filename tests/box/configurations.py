"""The configurations in which a box is driven: what kinds of tasks, how small the windows, how
hostile everything around.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.settings import TreeSettings
from tests.box.kinds import (
    BLOCKING,
    LETTER,
    LIMITED,
    PAIR,
    PLAIN,
    RUN,
    SWARM,
    TENANT,
    UNKNOWN,
    URGENT,
)
from tests.builders import NOW_MS

_WINDOW = {
    "look_ahead_ms": 1_000,
    "prefetch_ms": 300,
    "tick_ms": 40,
    "page_tasks": 4,
    "tasks_max": 10,
    "executing_tasks_max": 5,
    "ordering_queue_tasks_max": 2,
    "slow_attempt_ms": 100,
    "completions_max": 100,
    "clock_check_ms": 200,
}
_TO_THE_HOUR_MS = HOUR_MS - NOW_MS % HOUR_MS
_WATERMARK = {"interval_ms": 250, "lag_ms": 200, "stragglers_max": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One of them; shares are of 1."""

    name: str
    kinds: tuple[str | None, ...] = (PLAIN,)
    ids: int = 3
    steps: int = 700
    window: Mapping[str, int] = field(default_factory=dict)
    watermark: Mapping[str, int] = field(default_factory=dict)
    bad: float = 0.15
    """Share of attempts that do not end well."""
    again: float = 0.2
    """Share of records that are about a known key."""
    late: float = 0.1
    """Share of tasks that are due long before they are scheduled."""
    commands: float = 0.15
    """Share of records that are commands."""
    foul: float = 0.0
    """Share of records that are poison, or of another partition."""
    failing: float = 0.0
    """Share of requests that fail."""
    pauses: bool = False
    moves: bool = False
    """True if the partition is given up and comes back."""
    outages: bool = False
    """True if nobody has it now and then for long, while much falls due."""
    flows: bool = False
    """True if kinds have limits, priorities and fair shares."""
    backlog: int = 0
    """Tasks that are overdue when the partition is first assigned."""
    late_ids: int = 100
    """Number of ordering ids with tasks that are due long before they are scheduled."""
    start_ms: int = 0
    """When it begins, from the usual moment on."""
    pad_bytes: int = 0
    """Further bytes of data of each task."""

    def tree(self) -> TreeSettings:
        """Return the settings of the tree."""
        return TreeSettings.model_validate(
            {
                "window": {**_WINDOW, **self.window},
                "watermark": {**_WATERMARK, **self.watermark},
                "execution": {"lease_retry_ms": 50, "row_bytes_max": 1_000_000},
                "recovery": {"catch_up_deadline_ms": 3_000, "drain_deadline_ms": 3_600_000},
            }
        )


_ALL = (PLAIN, BLOCKING, LETTER, PAIR, SWARM, RUN)

CONFIGURATIONS: Mapping[str, Configuration] = {
    each.name: each
    for each in (
        Configuration(name="plain", bad=0.05, commands=0.05),
        Configuration(name="commands", commands=0.4, again=0.5, ids=2),
        Configuration(name="retries", kinds=(PLAIN, BLOCKING, LETTER), bad=0.75),
        Configuration(name="places", kinds=(PLAIN, PAIR, SWARM), ids=2, again=0.3),
        Configuration(name="runs", kinds=(RUN, RUN, RUN, PLAIN), ids=2, bad=0.2),
        Configuration(
            name="moved_runs",
            kinds=(RUN, RUN, RUN, PLAIN),
            ids=2,
            bad=0.2,
            commands=0.25,
            again=0.35,
            failing=0.004,
            moves=True,
        ),
        Configuration(
            name="moved_places",
            kinds=(PLAIN, PAIR, PAIR, SWARM),
            ids=2,
            bad=0.2,
            commands=0.2,
            again=0.35,
            failing=0.004,
            moves=True,
            pauses=True,
        ),
        Configuration(
            name="small",
            ids=2,
            window={"executing_tasks_max": 2, "ordering_queue_tasks_max": 1, "page_tasks": 2},
        ),
        Configuration(name="pauses", kinds=_ALL, pauses=True, ids=2),
        Configuration(name="moves", kinds=_ALL, moves=True, ids=3),
        Configuration(name="failures", kinds=_ALL, failing=0.01, moves=True, foul=0.2),
        Configuration(
            name="flows",
            kinds=(PLAIN, LIMITED, URGENT, TENANT, TENANT),
            flows=True,
            window={"executing_tasks_max": 8, "tasks_max": 12},
            ids=6,
            again=0.4,
        ),
        Configuration(
            name="backlog", backlog=90, ids=6, late_ids=3, commands=0.2, again=0.4, moves=True
        ),
        Configuration(
            name="outages",
            ids=14,
            late_ids=7,
            commands=0.15,
            again=0.3,
            moves=True,
            outages=True,
            steps=500,
        ),
        Configuration(
            name="stored_herd",
            kinds=(TENANT, TENANT, URGENT, PLAIN),
            ids=12,
            late_ids=6,
            flows=True,
            moves=True,
            outages=True,
            window={"executing_tasks_max": 8, "tasks_max": 12},
            steps=400,
        ),
        Configuration(
            name="herd",
            kinds=(TENANT, TENANT, URGENT, PLAIN),
            backlog=60,
            ids=8,
            late_ids=4,
            flows=True,
            window={"executing_tasks_max": 8, "tasks_max": 12},
        ),
        Configuration(
            name="large",
            pad_bytes=150_000,
            window={"memory_bytes_max": 1_048_576},
            ids=4,
            steps=400,
        ),
        Configuration(
            name="hours", start_ms=_TO_THE_HOUR_MS - 1_000, moves=True, failing=0.002, late=0.3
        ),
        Configuration(name="kinds", kinds=(PLAIN, UNKNOWN, PAIR), ids=2, moves=True),
    )
}
