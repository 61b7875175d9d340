"""Runs batches: each on a thread of its own, or on the event loop.

Never decides the content of a batch.  A blocking batch takes no worker, because a batch that waits
for a database would delay single attempts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from functools import partial

from hourhand.actors.model.execution.batch_executor import BatchOutcome
from hourhand.actors.model.execution.executor_attributes import timeout_ms_of
from hourhand.actors.model.values.display import log_raised
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Begun, Calls, batched
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.node.workers.async_loop import LoopThread
from hourhand.scheduler.node.workers.machine import MACHINE, Machine
from hourhand.scheduler.node.workers.worker_threads import own_clock

logger = logging.getLogger("hourhand.runner")

Watch = Callable[[RunningAttempt, int | None], Callable[[], object] | None]


class BatchThreads:
    """Runs batches as they come; the stage before bounds their number."""

    def __init__(
        self,
        calls: Calls,
        loop: LoopThread,
        watch: Watch,
        later: Callable[[Callable[[], None]], object],
        machine: Machine = MACHINE,
    ) -> None:
        """``watch`` reports an attempt that exceeds its timeout; ``later`` calls a function after a
        pause, when the machine may have a thread again.
        """
        self._calls, self._loop, self._watch, self._later = calls, loop, watch, later
        self._machine = machine
        self.at_work: dict[int, Sequence[RunningAttempt]] = {}
        """The members of each blocking batch, by the clock of its thread's processor time."""

    def run(self, batch: RunningBatch) -> None:
        """Begin a batch."""
        if batch.batches.runs_async:
            self._loop.submit(partial(self._run_async, batch), partial(self._lose, batch))
            return
        try:
            self._machine.start_thread(
                partial(Context().run, self.run_here, batch), "hourhand-batch"
            )
        except (RuntimeError, MemoryError):
            # Its tasks are started again: an error here would end the tree because of a short lack.
            text = "the machine has no thread for a batch of %d tasks; they are tried again"
            log_raised(logger, text, len(batch.members))
            self._refuse(batch)
            # The next batch begins after a pause: it would find no thread now either.
            self._later(batch.ended)

    def _refuse(self, batch: RunningBatch) -> None:
        for running in batch.members:
            self._calls.refuse(running)

    def _lose(self, batch: RunningBatch) -> None:
        self._refuse(batch)
        batch.ended()

    def run_here(self, batch: RunningBatch) -> None:
        """Run a blocking batch in this thread, and report the ends of its attempts."""

        def awaited(found: Awaitable[object]) -> object:
            return self._machine.result_of(self._loop.begin(found, None))

        clock = own_clock()
        self.at_work[clock] = batch.members
        try:
            begun = self._calls.begin_batch(batch.members)
            if begun:
                watches = self._watches(begun)
                outcomes = batch.batches.run(batched(begun), awaited)
                for call_off in watches:
                    call_off()
                self._calls.end_batch(begun, outcomes)
        except BaseException as error:  # noqa: BLE001 - an attempt without an end blocks its id
            self._break_off(batch, error)
        del self.at_work[clock]
        batch.ended()

    async def _run_async(self, batch: RunningBatch) -> None:
        try:
            begun = self._calls.begin_batch(batch.members)
            if begun:
                # Without the loop's task factory, which user code may have set.
                work = batch.batches.run_async(batched(begun))
                running = asyncio.Task(work, loop=asyncio.get_running_loop())
                self._let_cancel_together([each for each, _ in begun], running)
                self._calls.end_batch(begun, await running)
        except BaseException as error:  # noqa: BLE001 - as for a thread
            self._break_off(batch, error)
        batch.ended()

    def _watches(self, begun: Begun) -> Sequence[Callable[[], object]]:
        """Report attempts of a blocking batch that exceed its timeout; return functions that cancel
        the reports.
        """
        first = begun[0][0]
        try:
            timeout_ms = timeout_ms_of(first.executor, first.attempt.timeout_ms)
        except BaseException:  # noqa: BLE001 - the batch reads it too, and fails of it
            return ()
        watches = (self._watch(running, timeout_ms) for running, _ in begun)
        return [each for each in watches if each is not None]

    def _let_cancel_together(
        self, members: Sequence[RunningAttempt], running: "asyncio.Task[Sequence[BatchOutcome]]"
    ) -> None:
        """Cancel a batch once the cancel of all its attempts was requested, and not before."""
        loop, asked = asyncio.get_running_loop(), set[int]()

        def cancel(number: int) -> None:
            asked.add(number)
            if len(asked) == len(members):
                running.cancel()

        for number, each in enumerate(members):
            each.task = running
            cancel_one = partial(loop.call_soon_threadsafe, cancel, number)
            self._calls.registry.let_cancel(each, cancel_one)

    def _break_off(self, batch: RunningBatch, error: BaseException) -> None:
        for running in batch.members:
            if running.ended is None:
                self._calls.end(running, self._calls.broken_off(running, error))
