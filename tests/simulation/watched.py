"""The parts of a simulated node that remember what happened to them: clock, dispatcher, log, lease.

They behave as what they stand for does, and decide nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from hourhand.actors.kernel.context import ActorContext, Timer
from hourhand.actors.kernel.simulated import SimulatedSystem, VirtualClock
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import Polled
from hourhand.actors.turn import AttemptsEnded
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.group import Membership
from hourhand.scheduler.adapters.memory.log import MemoryLog
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.node.lease import Lease

TRACE_MAX = 30
_FAR_MS = 100_000
"""No run of small steps leads as far."""

Trace = deque[tuple[float, str, ActorContext, object]]


class NodeClock:
    """The clock of one machine: its wall part is off by an offset that can be stepped."""

    def __init__(self, clock: VirtualClock, offset_ms: int) -> None:
        self._clock = clock
        # Asked more often than anything else: no method of its own is in between.
        self.monotonic_ms = clock.monotonic_ms
        self._offset_ms, self._usual_ms = offset_ms, offset_ms
        self.off_most_ms = abs(offset_ms)
        """Its largest error, either way."""

    @property
    def offset_ms(self) -> int:
        """Its present error."""
        return self._offset_ms

    @offset_ms.setter
    def offset_ms(self, offset_ms: int) -> None:
        self._offset_ms = offset_ms
        self.off_most_ms = max(self.off_most_ms, abs(offset_ms))

    @property
    def is_far(self) -> bool:
        """True if it is off by more than clocks are that are looked after."""
        return abs(self.offset_ms - self._usual_ms) >= _FAR_MS

    def set_right(self) -> int:
        """Set it as far off as it was in the beginning; return by how much it was stepped."""
        step_ms = self._usual_ms - self.offset_ms
        self.offset_ms = self._usual_ms
        return step_ms

    def now_ms(self) -> int:
        """Return this machine's wall time."""
        return self._clock.now_ms() + self._offset_ms


class TracingSystem(SimulatedSystem):
    """Keeps the last messages of the whole world, for a run that fails."""

    trace: Trace
    name: str
    woken: Callable[[], None]
    pace: float

    def set_timer(self, delay_ms: float, context: ActorContext, message: object) -> Timer:
        """Look for a lease at the pace of the scenario: no setting says how often that is."""
        paced_ms = delay_ms * self.pace if isinstance(message, AttemptsEnded) else delay_ms
        return super().set_timer(paced_ms, context, message)

    def post(self, context: ActorContext, message: object) -> None:
        """Note the message, then put it in its mailbox, and say that there is work."""
        self.trace.append((self.clock.monotonic_ms(), self.name, context, message))
        self._made_ready(context).others.append(message)
        self.woken()


class WatchedLog(MemoryLog):
    """Counts what is delivered again: records that some node was given before."""

    def __init__(
        self,
        broker: MemoryBroker,
        settings: Settings,
        clock: Clock,
        delivered: Callable[[Sequence[LogRecord]], None],
    ) -> None:
        super().__init__(broker, settings, clock)
        self._delivered = delivered

    @property
    def membership(self) -> Membership | None:
        """The membership it believes to have."""
        return self._member

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Poll, and tell what came."""
        polled = super().poll(records_max, timeout_ms)
        if polled.records:
            self._delivered(polled.records)
        return polled


class WatchedLease(Lease):
    """Remembers when the node gave a partition up, and tells how many it has."""

    def __init__(
        self,
        clock: Clock,
        membership_ends_ms: Callable[[], float],
        tell_held: Callable[[int], None],
        gives_up: Callable[[int], None],
    ) -> None:
        super().__init__(clock, membership_ends_ms)
        self._now_ms = clock.monotonic_ms
        self._tell_held, self._gives_up = tell_held, gives_up
        self.withdrawn_ms: dict[tuple[int, int], float] = {}
        """By partition and epoch."""

    def grant(self, partition: int, epoch: int) -> None:
        """Tell how many it has then."""
        super().grant(partition, epoch)
        self._tell_held(self.count)

    def withdraw(self, partitions: Iterable[int]) -> None:
        """Note the moment of the first withdrawal of each epoch."""
        withdrawn = tuple(partitions)
        for partition in withdrawn:
            if partition in self._epochs:
                self._gives_up(partition)
                place = (partition, self._epochs[partition])
                self.withdrawn_ms.setdefault(place, self._now_ms())
        super().withdraw(withdrawn)
        self._tell_held(self.count)
