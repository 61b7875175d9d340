"""The front door: a node and a client in one object.

Opens everything a node needs, runs it on one polling thread, and stops it gracefully.  Decides
nothing about tasks: the tree does.
"""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType, TracebackType
from typing import Self

from actors.kernel.supervision import FailureListener
from actors.kernel.system import ThreadedSystem
from actors.model.errors import HourhandError, NodeStopped, PartitionCountChanged
from actors.ports.clock import Clock
from actors.ports.effects import Effects
from actors.ports.log import LogWriter, TaskLog
from actors.ports.runner import Executable
from actors.ports.store import OwnershipStore, Stores
from actors.ports.telemetry import Telemetry
from scheduler import wiring
from scheduler.client import ClientPorts, SchedulerClient
from scheduler.collector import calm_collector
from scheduler.lease import Lease
from scheduler.node import Node
from scheduler.own_kinds import OwnKinds, open_caller
from scheduler.runner import WorkerRunner
from scheduler.settings import Settings

logger = logging.getLogger("hourhand.node")

POLL_MS = 50
"""Longest wait for a record; also how soon a stop is noticed."""
FAILED_ROUND_PAUSE_S = 1.0
AGREE_TIMEOUT_S = 30.0


class Scheduler(SchedulerClient):
    """A node of the consumer group, and a client of the same installation.

    ``executor`` is a ``TaskExecutor`` subclass, or any function without arguments that
    returns one.  As a context manager it starts on entry, and on exit lets running attempts
    finish (bounded by ``tree.recovery.drain_deadline_ms``).  Raises InvalidExecutor where no
    task could ever be run by what was given, and OperatorError where the installation is not
    as it must be: LogUnavailable, TopicMissing, StoreUnavailable, SchemaMissing, FolderLocked,
    FolderDamaged, PartitionCountChanged.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        executor: Callable[[], Executable],
        telemetry: Telemetry | None = None,
    ) -> None:
        executor = wiring.checked_factory("executor", executor)
        clock = wiring.open_clock()
        telemetry = telemetry or wiring.build_telemetry(settings)
        writer, stores, log, partition_count = _open_installation(settings, clock)
        ports = ClientPorts(writer, lambda: stores, clock, telemetry)
        super().__init__(settings, ports)
        self._close_stores = stores.close
        lease = Lease(clock, log.lease_ends_ms)
        self._runner = WorkerRunner(
            clock=clock,
            gate=lease.allows,
            telemetry=telemetry,
            settings=settings.tree.execution,
        )
        self._systems: list[ThreadedSystem] = []
        self._own_kinds = _own_kinds(settings, ports, stores, partition_count)
        effects = Effects(
            settings=settings.tree,
            partition_count=partition_count,
            stores=stores,
            writer=writer,
            runner=self._runner,
            telemetry=telemetry,
            make_executor=self._own_kinds.beside(executor),
        )
        try:
            self._node = Node(
                log=log,
                lease=lease,
                clock=clock,
                effects=effects,
                make_system=partial(self._make_system, clock),
                commit_interval_ms=settings.group.commit_interval_ms,
                lease_ms=settings.group.session_timeout_ms - settings.group.lease_margin_ms,
            )
        except BaseException:
            # Joining the group may be refused, as where the embedded folder is locked.
            log.close()
            self._let_go()
            raise
        self._stop_requested = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-node", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self.wait()

    @property
    def is_ready(self) -> bool:
        """Whether this node works on every partition assigned to it, and has one."""
        return self._node.is_ready and not self._stopped.is_set()

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions this node holds, in order."""
        return self._node.partitions

    def start(self) -> None:
        """Begin to poll; NodeStopped where this scheduler was stopped before."""
        if self._stop_requested.is_set():
            raise NodeStopped("this scheduler was stopped; make another one to go on")
        if self._calms_collector:
            calm_collector()
        self._thread.start()

    def stop(self) -> None:
        """Ask for a graceful stop; returns at once, ``wait`` waits for it."""
        self._stop_requested.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, at most ``timeout`` seconds, until the node has stopped; return whether it has.

        In the main thread the first SIGINT or SIGTERM asks for a graceful stop, and a second
        one raises KeyboardInterrupt at once.
        """
        if not self._thread.is_alive() and not self._stopped.is_set():
            # Never started: nothing runs, but the group was joined and ports are open.
            self._stop_requested.set()
            self._run()
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
        previous = {
            number: signal.signal(number, self._take_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Stop gracefully and let go of everything; repeatable."""
        self.stop()
        self.wait()

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._stop_requested.is_set():
            raise KeyboardInterrupt
        # Before anything else, so that a second signal finds that this one was taken.
        self.stop()
        logger.info("signal %d: running attempts may finish; once more leaves at once", number)

    # On the polling thread.

    def _run(self) -> None:
        """Poll until a stop is asked for, drain, and let go; never end for any other reason."""
        try:
            while not self._stop_requested.is_set():
                self._round(POLL_MS)
            drained = self._node.request_stop()
            while not drained.done():
                self._round(POLL_MS)
            self._node.close()
        except Exception:
            logger.exception("the node did not stop cleanly; its successors lose nothing by it")
        finally:
            self._let_go()
            self._stopped.set()

    def _make_system(self, clock: Clock, on_failure: FailureListener) -> ThreadedSystem:
        self._systems.append(ThreadedSystem(clock, on_failure))
        return self._systems[-1]

    def _let_go(self) -> None:
        self._runner.close()
        for system in self._systems:
            system.close()
        super().close()
        self._own_kinds.close()
        self._close_stores()

    def _round(self, timeout_ms: int) -> None:
        try:
            self._node.step(timeout_ms)
        except HourhandError as error:
            logger.warning("a round failed and is tried again: %s", error)
            self._stop_requested.wait(FAILED_ROUND_PAUSE_S)
        except Exception:
            # A polling thread that dies in silence is the worst failure such a system has:
            # the group would go on believing in this member until its poll interval ends.
            logger.exception("a round failed and is tried again; please report this")
            self._stop_requested.wait(FAILED_ROUND_PAUSE_S)


def _own_kinds(
    settings: Settings, ports: ClientPorts, stores: Stores, partition_count: int
) -> OwnKinds:
    """Return what runs Hourhand's own tasks beside the user's."""
    return OwnKinds(
        settings=settings,
        stores=stores,
        writer=ports.writer,
        partition_count=partition_count,
        clock=ports.clock,
        telemetry=ports.telemetry,
        open_messages=partial(wiring.open_messages, settings),
        open_caller=partial(open_caller, settings.timers),
    )


def _open_installation(settings: Settings, clock: Clock) -> tuple[LogWriter, Stores, TaskLog, int]:
    """Open log and stores, and agree on the number of partitions; all of it or nothing."""
    opened: list[Callable[[], None]] = []
    try:
        writer = wiring.open_writer(settings)
        opened.append(writer.close)
        stores = wiring.open_stores(settings)
        opened.append(stores.close)
        partition_count = agreed_partition_count(writer, stores.ownership, settings)
        return writer, stores, wiring.open_log(settings, clock), partition_count
    except BaseException:
        for close in reversed(opened):
            close()
        raise


def agreed_partition_count(writer: LogWriter, ownership: OwnershipStore, settings: Settings) -> int:
    """Return the topic's number of partitions, which the store was begun with too.

    Raises PartitionCountChanged where they differ: tasks would be looked for, and their
    ordering ids run, in the wrong partitions.
    """
    count = writer.partition_count()
    stored = ownership.agree_partition_count(count).result(timeout=AGREE_TIMEOUT_S)
    if stored != count:
        raise PartitionCountChanged(
            f"topic {settings.topic.name!r} has {count} partitions, but the store was begun"
            f" with {stored}, and the number is fixed for the life of a topic: use a topic with"
            f" {stored} partitions, or move to a new topic and keyspace with"
            " `hourhand pipeline repartition`"
        )
    return stored
