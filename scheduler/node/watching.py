"""All watches of a node's running attempts, put together.

Decides which watches look in each round of the node, and nothing about their findings.
"""

from collections.abc import Callable
from functools import partial

from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.node.computing_watch import ComputingWatch
from hourhand.scheduler.node.runner import NodeRunner
from hourhand.scheduler.node.silence import SilenceWatch
from hourhand.scheduler.node.worker_watch import LoopWatch, WorkerWatch
from hourhand.scheduler.node.workers.workers import NodeWorkers
from hourhand.scheduler.runtime.switch_interval import process_interval


class NodeWatch:
    """Watches one node; ``look`` is called by one thread, several times a second."""

    def __init__(
        self,
        runner: NodeRunner,
        workers: NodeWorkers,
        clock: Clock,
        telemetry: Telemetry,
        used_ms: Callable[[int], float | None],
    ) -> None:
        """``used_ms`` reads a clock of a thread's processor time."""
        self._workers = workers
        self._pools = WorkerWatch(runner.pools(workers.pools()), clock, telemetry)
        self._loop = LoopWatch(workers.ask_turn, workers.loop_at_hand, clock, telemetry)
        calls = runner.calls
        self._silence = SilenceWatch(
            *(calls.registry, calls.stuck, calls.silence_limits), workers.blocking_batches, clock
        )
        choose = partial(process_interval.choose, self)
        self._computing = ComputingWatch(workers.at_work, used_ms, clock, choose)

    def look(self) -> None:
        """Let all watches look, and start threads that the machine did not have before."""
        self._workers.nudge()
        self._pools.look()
        self._loop.look()
        self._computing.look()
        self._silence.look()

    def close(self) -> None:
        """Restore the settings of the process."""
        self._computing.close()
