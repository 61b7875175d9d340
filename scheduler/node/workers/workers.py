"""The workers of a node: threads for blocking ``execute``, an event loop for ``async``, processes.

Decides which of them runs an attempt.  Threads receive attempts one by one and never as a list,
because a slow task must not delay others (P7).  Never decides when an attempt may go, or the effect
of an outcome.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from hourhand.actors.model.operations.events import AttemptStuck
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.node.worker_watch import LoopAtHand, WorkerPool
from hourhand.scheduler.node.workers.async_loop import LoopThread
from hourhand.scheduler.node.workers.batch_threads import BatchThreads
from hourhand.scheduler.node.workers.executor_calls import ExecutorCalls, left_ms
from hourhand.scheduler.node.workers.fast_path import FastPath
from hourhand.scheduler.node.workers.machine import MACHINE, Machine
from hourhand.scheduler.node.workers.process_thread import ProcessThread
from hourhand.scheduler.node.workers.worker_threads import WorkerThreads
from hourhand.scheduler.ports.processes import ProcessBatches, is_in_process
from hourhand.scheduler.runtime.user_code import runs_async

THREADS, ASYNC, PROCESSES = "threads", "async", "processes"


class NodeWorkers:
    """The last stage of a node that runs tasks; implements ``stages.Workers``."""

    def __init__(
        self,
        calls: Calls,
        settings: ExecutionSettings,
        processes: ProcessThread | None = None,
        machine: Machine = MACHINE,
    ) -> None:
        """``processes`` run the attempts of kinds that run in processes; None if no kind does."""
        self._calls, self._settings = calls, settings
        self.processes = processes
        # A loop of their own: user code may block the other one.
        self._timers = LoopThread(1, "hourhand-timers", machine)
        self.call_later = self.tell_later = self.wake_later = self._timers.call_later
        self._loop = LoopThread(settings.async_attempts_max, machine=machine)
        self._executors = ExecutorCalls(calls, self._loop, self.watch, machine=machine)
        run = self._executors.run
        self._threads = WorkerThreads(run, settings.workers, "hourhand-worker", machine)
        # One suspect at a time runs, and does not wait for a worker behind slow tasks.
        self._suspects = WorkerThreads(run, 1, "hourhand-suspects", machine)
        self._batches = BatchThreads(
            *(calls, self._loop, self.watch),
            partial(self.call_later, settings.lease_retry_ms),
            machine,
        )
        self._fast_path = FastPath(calls, machine)

    def start(self) -> None:
        """Start the processes, if any; InvalidExecutor if they cannot load user code."""
        if self.processes is not None:
            self.processes.start()

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Run each attempt as soon as a worker is free for it."""
        blocking: list[RunningAttempt] = []
        processes = self.processes
        if processes is not None:
            there = [each for each in attempts if is_in_process(each.executor)]
            if there:
                processes.run(there)
                attempts = [each for each in attempts if not is_in_process(each.executor)]
        for running in attempts:
            if running.attempt.suspect:
                self._submit(self._suspects, (running,))
            elif runs_async(running.executor):
                self._submit_async(running)
            else:
                blocking.append(running)
        if blocking:
            self._submit(self._threads, blocking)

    def run_at_once(self, running: RunningAttempt) -> bool:
        """Run a system task that passes no stage and takes no worker; False for any other."""
        executor = running.executor
        if running.attempt.suspect or not isinstance(executor, SystemExecutor):
            return False
        work = executor.immediate(running.attempt.task)
        if work is not None:
            self._fast_path.submit(running, work)
        elif executor.unslotted:
            self._submit_async(running, slotted=False)
        return work is not None or executor.unslotted

    def run_batch(self, batch: RunningBatch) -> None:
        """Run some attempts together."""
        if self.processes is not None and isinstance(batch.batches, ProcessBatches):
            self.processes.run_batch(batch)
        else:
            self._batches.run(batch)

    def pool_of(self, running: RunningAttempt) -> str | None:
        """Return the name of the pool that an attempt waits for; None if it waits for no pool."""
        if self.processes is not None and is_in_process(running.executor):
            return PROCESSES
        if running.attempt.suspect:
            return None
        return ASYNC if runs_async(running.executor) else THREADS

    def ahead(self, pool: str) -> int:
        """Return how many attempts more than run in a pool at once begin there without a wait."""
        return self.processes.pool.ahead if self.processes is not None and pool == PROCESSES else 0

    def pools(self) -> tuple[WorkerPool, ...]:
        """Return the pools to be watched; suspects are not, because they wait for each other."""
        of_threads, of_loop = "tree.execution.workers", "tree.execution.async_attempts_max"
        threads_max, loop_max = self._settings.workers, self._settings.async_attempts_max
        here = (
            WorkerPool(THREADS, threads_max, of_threads, self._threads.load),
            WorkerPool(ASYNC, loop_max, of_loop, self._loop.load),
        )
        if self.processes is None:
            return here
        places, of_processes = self.processes.places, "tree.execution.processes"
        return (*here, WorkerPool(PROCESSES, places, of_processes, self.processes.load))

    def drain(self, partitions: Collection[int] | None) -> None:
        """End attempts of partitions that go to another owner in time, as far as that is possible.

        With None, ask the gate once more about attempts that it let through and that have not
        begun.
        """
        if self.processes is not None:
            self.processes.drain(partitions)

    def loop_at_hand(self) -> LoopAtHand:
        """Return the attempt whose code the event loop runs, and the position in that code."""
        task, frame = self._loop.at_hand()
        attempt = None if task is None else self._calls.registry.of_task(task)
        if frame is None:
            return LoopAtHand(attempt, "")
        code = frame.f_code
        return LoopAtHand(attempt, f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")

    def at_work(self) -> Mapping[int, object]:
        """Return the work of each thread with user code, by the clock of its processor time."""
        threads = {**self._threads.at_work, **self._suspects.at_work}
        return {**threads, **self._batches.at_work, **self._loop.at_work()}

    def blocking_batches(self) -> Collection[Sequence[RunningAttempt]]:
        """Return the members of each batch that a thread runs."""
        return tuple(self._batches.at_work.values())

    @property
    def ask_turn(self) -> Callable[[Callable[[], object]], bool]:
        """Calls a function in the event loop's next turn; returns False if there is no loop."""
        return self._loop.ask_turn

    def nudge(self) -> None:
        """Start threads that the machine did not have when they were needed."""
        for each in (self._threads, self._suspects, self._loop, self._timers, self._fast_path):
            each.nudge()
        if self.processes is not None:
            self.processes.nudge()

    def close(self) -> None:
        """Take no more attempts; async ones are cancelled, blocking ones end by themselves."""
        for each in (self._fast_path, self._threads, self._suspects, self._loop, self._timers):
            each.close()
        if self.processes is not None:
            self.processes.close()

    def watch(self, running: RunningAttempt, timeout_ms: int | None) -> Callable[[], object] | None:
        """Report a blocking attempt that exceeds its timeout; return a function that cancels the
        report.
        """
        if timeout_ms is None:
            return None
        remaining_ms = left_ms(running, timeout_ms, self._calls.clock)
        if remaining_ms is None:
            return None
        attempt = running.attempt
        event = AttemptStuck(attempt.partition, attempt.task.key, "timeout", timeout_ms)
        return self.call_later(remaining_ms, lambda: self._calls.telemetry.emit(event))

    def _submit(self, threads: WorkerThreads, ready: Sequence[RunningAttempt]) -> None:
        if not threads.submit(ready):
            for running in ready:
                self._calls.refuse(running)

    def _submit_async(self, running: RunningAttempt, *, slotted: bool = True) -> None:
        run, lost = (
            partial(self._executors.run_async, running),
            partial(self._calls.refuse, running),
        )
        self._loop.submit(run, lost, slotted=slotted)
