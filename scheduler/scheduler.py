"""A node and a client in one object, for users.

Runs a node on one polling thread, and stops it gracefully. The tree decides about tasks, and the
wiring about the parts of a node.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import Self

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.errors import AlreadyStarted, NodeStopped
from hourhand.actors.model.values.public import public
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.client.client import SchedulerClient
from hourhand.scheduler.client.declaring import sets_of
from hourhand.scheduler.configuration.settings import Settings, require_settings
from hourhand.scheduler.executors.middleware import Middleware
from hourhand.scheduler.executors.process_plan import plan_of
from hourhand.scheduler.executors.user_executors import Executors, UserExecutors
from hourhand.scheduler.observe.observation import Observation
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.runtime import forking, loading
from hourhand.scheduler.runtime.collector import tune_gc
from hourhand.scheduler.runtime.guarded_loop import FAILED_PAUSE_S, guarded
from hourhand.scheduler.runtime.interrupts import signals_taken_by
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from hourhand.scheduler.wiring import build_node

logger = logging.getLogger("hourhand.node")

POLL_MS = 50
"""Longest wait for a record; also the delay until a stop is noticed."""


@public("hourhand")
class Scheduler(SchedulerClient):
    """A node of the consumer group, and a client of the same installation.

    ``executor`` is a ``TaskExecutor`` subclass, or any function without arguments that
    returns one; it runs tasks without a kind.  ``executors`` has one of these for each kind, or
    is a ``Hourhand`` registry.  ``middleware`` goes around every attempt, the first outermost,
    and hears of the node's start and stop.  ``payloads``, or those of the registry, seal the data
    of tasks that are scheduled here and open that of tasks that run here.  As a context manager it
    starts on entry, and on exit lets running attempts finish (bounded by
    ``tree.recovery.drain_deadline_ms``).  Raises InvalidExecutor where no task could ever be run by
    what was given, and OperatorError where something is wrong with the installation:
    LogUnavailable, TopicMissing, StoreUnavailable, SchemaMissing, FolderLocked, FolderDamaged,
    PartitionCountChanged.
    """

    _stop_service: Callable[[], None] | None = None

    def __init__(
        self,
        settings: Settings,
        *,
        executor: Callable[[], TaskExecutor] | None = None,
        executors: Executors | None = None,
        middleware: Sequence[Middleware] = (),
        telemetry: Telemetry | None = None,
        payloads: PayloadCodecs | None = None,
    ) -> None:
        require_settings(settings)
        loading.refuse_node()
        users = UserExecutors.of(executor, executors, middleware, payloads)
        self._executors = users.with_processes(settings.tree.execution.run_in)
        self._has_default_executor = self._executors.default is not None
        declared = sets_of(executors)
        plan = plan_of(self._executors, executors, middleware, payloads, settings.tree.execution)
        self._parts = build_node(settings, self._executors, telemetry, plan)
        self._node = self._parts.node
        try:
            super().__init__(settings, self._parts.client, executors=executors, payloads=payloads)
            # The client closes what it has opened.
            self._opened_stores()
            self._declaring = self.declaring(declared)
        except BaseException:
            self._node.close()
            self._parts.close()
            raise
        self._restore_gc: Callable[[], None] | None = None
        self._stop_requested, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-node", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()
        self.wait()

    @property
    def is_ready(self) -> bool:
        """True if this node has a partition, and works on every one assigned to it."""
        return not self._stopped.is_set() and self._node.is_ready

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions this node holds, in order."""
        return () if self._forked else self._node.partitions

    @property
    def dependencies(self) -> SystemDependencies:
        """The node's connections, for relay and timers."""
        return self._parts.system_tasks.dependencies

    @property
    def observation(self) -> Observation:
        """The node's metrics and, once it was started, its health."""
        return self._parts.observation

    def stop_first(self, stop: Callable[[], None]) -> None:
        """Register a service that uses ``dependencies``: it is stopped before this node drains."""
        self._stop_service = stop

    def start(self) -> None:
        """Begin to poll, once; NodeStopped if this scheduler was stopped before."""
        if self._forked:
            raise forking.refusal("this scheduler")
        if self._thread.ident is not None and not self._stop_requested.is_set():
            raise AlreadyStarted(
                "this scheduler was started already, which entering its with block does as well:"
                " start it once"
            )
        if self._stop_requested.is_set():
            raise NodeStopped("this scheduler was stopped; make another one to go on")
        if self._settings.calm_collector:
            self._restore_gc = tune_gc()
        try:
            self._parts.start_processes()
            self._executors.middleware.start()
            self.observation.begin(self._parts.probes)
        except BaseException:
            self.close()
            raise
        self._thread.start()
        self._declaring.start()
        self._parts.reporter.start()

    def after_fork(self) -> None:
        """Behave as a stopped node, in a child that has a copy of this one."""
        super().after_fork()
        self._stop_requested, self._stopped = threading.Event(), threading.Event()
        self._stop_requested.set()
        self._stopped.set()

    def stop(self) -> None:
        """Ask for a graceful stop; returns at once, ``wait`` waits for it."""
        self._stop_requested.set()
        self._declaring.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, at most ``timeout`` seconds, until the node has stopped; return True if it has.

        In the main thread the first SIGINT or SIGTERM asks for a graceful stop, and a second one
        raises KeyboardInterrupt at once.
        """
        if not self._thread.is_alive() and not self._stopped.is_set():
            # Never started: nothing runs, but the group was joined and ports are open.
            self.stop()
            self._thread.start()
        with self.stopped_by_signals():
            return self._stopped.wait(timeout)

    @contextlib.contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM ask for a graceful stop while inside, as ``wait`` does.

        Around ``start`` it leaves no moment at which a signal ends the process instead.
        Elsewhere than in the main thread it changes nothing: Python allows no more.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with signals_taken_by(self._take_signal):
            yield

    def close(self) -> None:
        """Stop gracefully and close everything; repeatable."""
        self.stop()
        self.wait()

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._stop_requested.is_set():
            raise KeyboardInterrupt
        # Set first, so that a second signal finds that this one was taken.
        self.stop()
        recovery = self._settings.tree.recovery
        logger.info(
            "signal %d: waiting for running attempts, %d ms at most"
            " (tree.recovery.drain_deadline_ms); signal again to stop at once",
            number,
            recovery.drain_deadline_ms,
        )

    # The code of the polling thread.

    def _run(self) -> None:
        """Poll until a stop is requested, drain, and close; end for no other reason."""
        try:
            while not self._stop_requested.is_set():
                self._round(POLL_MS)
            self._let_service_stop()
            drained = self._node.request_stop()
            while not drained.done():
                self._round(POLL_MS)
            self._node.close()
        except BaseException:
            logger.exception("the node did not stop cleanly; its successors lose nothing by it")
        finally:
            try:
                self._let_go()
            finally:
                self._stopped.set()

    def _let_service_stop(self) -> None:
        """Stop the service of this node; the node goes on polling meanwhile."""
        if self._stop_service is not None:
            stopping = threading.Thread(
                target=self._stop_service, name="hourhand-stop", daemon=True
            )
            stopping.start()
            while stopping.is_alive():
                self._round(POLL_MS)

    def _let_go(self) -> None:
        try:
            self._executors.middleware.stop()
        finally:
            if self._restore_gc is not None:
                self._restore_gc()
            self._parts.close()
            super().close()

    def _round(self, timeout_ms: int) -> None:
        self._parts.watch.look()
        if not guarded(partial(self._node.step, timeout_ms), "a round", logger):
            self._stop_requested.wait(FAILED_PAUSE_S)
