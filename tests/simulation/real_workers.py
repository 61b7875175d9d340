"""The real workers of a simulated node: its threads and event loops, on a machine that takes turns.

Tells who watches of each attempt that begins and ends.  Decides nothing: gate, stages, threads,
loops and calls are those of every node.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError as FutureCancelled

from hourhand.actors.model.execution.attempts import AttemptEnded, Ending
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.limits.node_limits import NodeLimits
from hourhand.scheduler.node.runner import NodeRunner
from hourhand.scheduler.node.stages import Following
from hourhand.scheduler.node.workers.workers import NodeWorkers
from tests.simulation.execution import AttemptObserver
from tests.simulation.guests import TIMEOUT_MS
from tests.simulation.machine import ProcessGone, VirtualMachine
from tests.simulation.task_maker import HEALTHY

_TURNS_MAX = 10_000
_CANCELLED = (asyncio.CancelledError, FutureCancelled)
TIMED_OUT_WITHIN_MS = 1_000.0
"""Time after its timeout in which an attempt ends, while others keep its loop."""


class WatchedCalls(Calls):
    """Tells of each begin and end; after the end of its process it does nothing any more."""

    def __init__(
        self,
        *,
        clock: Clock,
        gate: Callable[..., bool],
        telemetry: Telemetry,
        rng: random.Random,
        observer: AttemptObserver,
        machine: VirtualMachine,
    ) -> None:
        def asked(attempt: object) -> bool:
            machine.step_aside()
            return gate(attempt)

        super().__init__(clock=clock, gate=asked, telemetry=telemetry, rng=rng)
        self._observer, self._machine = observer, machine
        self._numbers: dict[RunningAttempt, int] = {}
        self.queued_ms: dict[RunningAttempt, float] = {}
        """Times at which attempts came to the stage behind their limits."""

    def begin(self, running: RunningAttempt, started_ms: int | None = None) -> int:
        """Note that user code is called."""
        now_ms = self.clock.monotonic_ms()
        queued_ms = self.queued_ms.pop(running, now_ms)
        self._numbers[running] = self._observer.attempt_started(running, queued_ms)
        begun_ms = super().begin(running, started_ms)
        self._machine.step_aside()
        return begun_ms

    def end(self, running: RunningAttempt, ended: AttemptEnded) -> None:
        """Note that it ended, which it does once."""
        self._refuse_the_gone()
        self._machine.step_aside()
        self.queued_ms.pop(running, None)
        if running.ended is not None:
            self._observer.miscalled(running, f"ended twice, as {running.ended} and as {ended}")
        number = self._numbers.pop(running, None)
        if number is not None:
            is_cancelled = running.abandoned and running.cancel is not None
            ending = "cancelled" if is_cancelled else ended.ending
            self._observer.attempt_ended(number, ending)
        super().end(running, ended)

    def failed(
        self,
        running: RunningAttempt,
        error: BaseException,
        started_ms: int,
        ending: Ending = Ending.FAILED,
    ) -> AttemptEnded:
        """Return the end of an attempt, except for that of the whole process."""
        self._refuse_the_gone()
        key = running.attempt.task.key
        # Others may cancel it, and nothing else: none of its code raises.
        if key.ordering_id.startswith(HEALTHY) and not isinstance(error, _CANCELLED):
            self._observer.miscalled(running, f"failed of {error!r}, which it never raises")
        late_ms = 0.0
        if ending is Ending.TIMED_OUT and running.started_monotonic_ms is not None:
            late_ms = self.clock.monotonic_ms() - running.started_monotonic_ms - TIMEOUT_MS
        if late_ms > TIMED_OUT_WITHIN_MS:
            self._observer.miscalled(running, f"timed out {late_ms:.0f} ms late")
        return super().failed(running, error, started_ms, ending)

    def broken_off(self, running: RunningAttempt, error: BaseException) -> AttemptEnded:
        """Return the end of an attempt, except for that of the whole process."""
        self._refuse_the_gone()
        if not isinstance(error, GeneratorExit):
            self._observer.miscalled(running, f"failed outside of user code, of {error!r}")
        return super().broken_off(running, error)

    def _refuse_the_gone(self) -> None:
        if self._machine.is_gone:
            raise ProcessGone


class RealRunner:
    """The runner of one node as it is on every node; ``SimulatedRunner`` to whoever steps it."""

    def __init__(
        self,
        calls: WatchedCalls,
        settings: ExecutionSettings,
        limits: NodeLimits,
        machine: VirtualMachine,
    ) -> None:
        self._calls, self._machine = calls, machine
        self.workers = RealWorkers(calls, settings, machine=machine)
        self.runner = NodeRunner(calls, self.workers, settings, limits)
        if self.runner.limits:
            self.runner.limits._following = self._noting(self.runner.limits._following)
        else:
            ahead = self.runner.made_ahead
            ahead._following = self._noting(ahead._following)

    def _noting(self, following: Following) -> Following:
        def enter(attempts: Sequence[RunningAttempt]) -> None:
            now_ms = self._calls.clock.monotonic_ms()
            self._calls.queued_ms.update(dict.fromkeys(attempts, now_ms))
            following(attempts)

        return enter

    def is_woken(self) -> bool:
        """True if a thread may go on now."""
        return self._machine.is_ready()

    def next_ms(self) -> float | None:
        """Return the monotonic time at which there is something to do."""
        return self._machine.next_ms()

    def work_one(self) -> bool:
        """Give one thread its turn; return whether there was one."""
        return self._machine.run_one()

    def close(self) -> None:
        """Close as a node does, and see that nothing goes on but what user code keeps."""
        self.runner.close()
        self.workers.close()
        for _ in range(_TURNS_MAX):
            if not self._machine.run_one():
                break
        lasting = self._machine.lasting()
        assert not lasting, f"{lasting} went on after the stop"

    def end(self) -> None:
        """The process is gone."""
        for loop in (self.workers._loop, self.workers._timers):
            # Nothing else ends a loop: what its threads raise now is not user code's.
            loop._ended = True
        self._machine.end()


class RealWorkers(NodeWorkers):
    """The workers of every node, and what faults ask of them."""

    def blocking_partitions(self) -> tuple[int, ...]:
        """Return the partitions of which code runs that cannot be cancelled."""
        running = (each for each in self._threads.at_work.values() if each is not None)
        attempts = (each.attempt for each in running)
        own = (each for each in attempts if not each.task.key.ordering_id.startswith(RESERVED))
        return tuple(sorted({each.partition for each in own}))
