"""The history of a run: offers, commands, attempts, and faults.

Plain values that records are read into and the judge recounts; nothing of the engine is
imported, so the engine cannot be wrong in the same way twice.  A moment is microseconds of
CLOCK_BOOTTIME, which all processes of the machine share and nobody sets; only ``*_wall_us``
is the wall clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

SECOND_US = 1_000_000

Answer = Literal["accepted", "committed", "refused", "withdrawn", "unknown"]
"""Result of the client's future; ``unknown`` if it failed: the log may hold the record.  In an
outbox a task is ``committed``, or ``withdrawn`` where its transaction was rolled back."""
Work = Literal["plain", "slow", "retry", "limited", "process"]
"""``slow`` works for a second or two, ``retry`` asks for a second attempt, ``limited`` is of a kind
with a limit, ``process`` works in a process for longer than a lease; each on ordering ids of its
own, so that they make nothing else late."""
How = Literal["killed", "frozen", "drained", "unpowered"]
"""SIGKILL; SIGSTOP until SIGCONT; SIGTERM until the process has ended; a power cut."""
Harm = Literal["nodes", "log", "replica", "store", "clock"]
"""A part that a fault may harm: nodes, the service of brokers to somebody, one of several
Cassandra nodes, the service of Cassandra to somebody, the moment at which a node takes tasks for
due."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A task that was given to the client, and how that ended."""

    task_id: str
    """Its uniqueness key, which no other task of the run has."""
    ordering_id: str
    due_wall_us: int
    work: Work
    answer: Answer
    answered_wall_us: int = 0
    partition: int | None = None
    """Partition of its record; None unless accepted."""
    tenant: str = ""
    """Tenant to whose limit it counts; empty without one."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command for a task, and what it achieved."""

    task_id: str
    word: str
    told_us: int | None
    """Time at which the log's acknowledgement was noted; None: the log may hold it."""
    outcome: str = ""
    """The outcome that was reported; empty without one."""
    to_wall_us: int = 0
    """New time of the task that it moved."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as the executor saw it."""

    task_id: str
    ordering_id: str
    due_wall_us: int
    number: int
    fence: int
    node: int
    pid: int
    """The process of its node."""
    thread: int
    started_wall_us: int
    started_us: int
    ended_us: int | None = None
    """None where the process died first."""
    succeeded: bool = False
    """True if it ended and said that the task is done."""
    process: int = 0
    """The process of its node that ran it; 0 for the node's own."""
    alive_us: int = 0
    """Time at which it was last seen at work; 0 if it does not say so."""


@dataclass(frozen=True, slots=True)
class Told:
    """A record of the topic of outcomes."""

    task_id: str
    ordering_id: str
    result: str
    partition: int
    offset: int
    at_us: int
    """Time at which it was read."""


@dataclass(frozen=True, slots=True)
class Blow:
    """A fault that struck one node process."""

    how: How
    node: int
    pid: int
    from_us: int
    """Before the signal was sent."""
    struck_us: int
    """Time at which the signal surely had its effect: until then the process may have run."""
    to_us: int
    """When it was gone or, frozen, went on."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the plan, from its beginning until what was struck was back."""

    number: int
    kind: str
    target: str
    harm: Harm
    from_us: int
    back_us: int
    """Time at which the struck part was started again or went on."""
    to_us: int
    """Time at which it was seen to be back."""
    blows: Sequence[Blow] = ()
    met: int | None = None
    """Number of times it was met, as links, clocks and disks count it; None without a count."""
    pid: int = 0
    """The node process whose clock was set."""
    ahead_us: int = 0
    """By how much it was ahead."""

    def sets_clock_of(self, attempt: Attempt, settles_us: int = 0) -> bool:
        """True if an attempt began under the set clock, or within ``settles_us`` after it."""
        is_within = self.from_us <= attempt.started_us <= self.to_us + settles_us
        return bool(self.ahead_us) and self.pid == attempt.pid and is_within


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of each tenant."""

    per_s: int
    burst: int


@dataclass(frozen=True, slots=True)
class History:
    """Everything that the judge looks at."""

    offers: Sequence[Offer]
    attempts: Sequence[Attempt]
    faults: Sequence[Fault]
    wall_minus_boot_us: int
    """Difference of the wall clock and the boot clock when the run began."""
    commands: Sequence[Command] = ()
    begun_us: Mapping[int, int] = field(default_factory=dict)
    """Node processes, and when each began; one that is not named began at an unknown time."""
    limit: Limit | None = None
    told: Sequence[Told] | None = None
    """Records of the topic of outcomes, in the order in which they were read; None without one."""

    def partitions(self) -> dict[str, int]:
        """Return where the log put each ordering id."""
        return {
            offer.ordering_id: offer.partition
            for offer in self.offers
            if offer.partition is not None
        }
