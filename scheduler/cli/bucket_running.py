"""A relay node that needs Kafka alone: it owns partitions of the pending topic, and of the
in-topic.

Puts the parts together on threads. Each thread may die at any moment: its work is either committed
or has no effect, and another node continues.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

from hourhand.actors.model.operations.events import BucketSplit
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.actors.model.window.budget import NodeBudget, PartitionBudget
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.running import StartedOnEntry
from hourhand.scheduler.configuration.memory_limit import measures_of, tree_within_memory
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.kafka_only.arrivals import Arrivals, IntakeRules
from hourhand.scheduler.kafka_only.layouts import LayoutBook, Splitter
from hourhand.scheduler.kafka_only.member import Member
from hourhand.scheduler.kafka_only.owner import Owner
from hourhand.scheduler.kafka_only.ports import HeldLog, Outgoing
from hourhand.scheduler.kafka_only.scanner import Scanner
from hourhand.scheduler.kafka_only.waiting import BucketRules, Waiting
from hourhand.scheduler.observe.health import Dispatching, NodeProbes
from hourhand.scheduler.observe.observation import Observation
from hourhand.scheduler.runtime.collector import tune_gc
from hourhand.scheduler.runtime.guarded_loop import run_guarded
from hourhand.scheduler.runtime.interrupts import signals_taken_by
from hourhand.scheduler.runtime.light_future import resolve

logger = logging.getLogger("hourhand.buckets")


class BucketRelay(StartedOnEntry):
    """A running node; as a context manager it starts on entry and stops on exit.

    ``intake``: True to read the relay's in-topic too, besides the messages of ``send_later``.
    Raises SettingsInvalid where retention is too short for the longest delay, TopicMissing and
    LogUnavailable.
    """

    def __init__(
        self, settings: Settings, *, intake: bool = True, telemetry: Telemetry | None = None
    ) -> None:
        if settings.store != "kafka":
            raise SettingsInvalid(f"store is {settings.store!r}: this node needs store 'kafka'")
        self._settings = settings
        self._clock = wiring.open_clock()
        self._closing = ExitStack()
        if telemetry is None:
            telemetry = log = wiring.build_telemetry(settings)
            self._closing.callback(log.close)
        self._observation = wiring.observe(settings, self._clock, telemetry)
        self._telemetry = self._observation.telemetry
        self._closing.callback(self._observation.close)
        self._stop_requested = threading.Event()
        self._turns = threading.Lock()
        self._memory = NodeBudget(tree_within_memory(settings).window.memory_bytes_max)
        try:
            self._open(intake=intake)
        except BaseException:
            self._closing.close()
            raise

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions of the pending topic that this node owns, in order."""
        return tuple(sorted(self._pending.owners))

    @property
    def observation(self) -> Observation:
        """The node's metrics and, once it was started, its health."""
        return self._observation

    @property
    def is_ready(self) -> bool:
        """True if every partition that this node owns has begun."""
        owners = [each for member in self._members for each in member.owners.values()]
        return bool(owners) and all(each.has_begun for each in owners)

    def start(self) -> None:
        """Join the groups and work, on threads."""
        if self._settings.calm_collector:
            self._closing.callback(tune_gc())
        self._observation.begin(self._probes())
        for member in self._members:
            member.start()
        if self._settings.buckets.split_records_max:
            self._split_thread.start()

    def wait(self) -> None:
        """Wait until the node is asked to stop, then stop."""
        self._stop_requested.wait()
        self.stop()

    def stop(self) -> None:
        """Finish the work under way, leave the groups, close connections; repeatable."""
        self._stop_requested.set()
        self._closing.close()

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Have SIGINT and SIGTERM end ``wait``, within the block."""
        with signals_taken_by(lambda *_: self._stop_requested.set()):
            yield

    def _open(self, *, intake: bool) -> None:
        storage = self._storage = wiring.open_buckets(self._settings, self._clock)
        self._admin = storage.admin()
        self._closing.callback(self._admin.close)
        self._asking = Asking(self._admin.partition_count)
        self._delay_ms_max = self._admin.delay_ms_max()
        buckets = self._settings.buckets
        self._book = LayoutBook(self._admin, buckets.layout_topic)
        self._closing.callback(self._book.close)
        self._rules = self._rules_of(self._settings)
        self._pending = self._member("hourhand-pending", storage.pending_log, self._own_pending)
        self._members = [self._pending]
        if intake:
            self._members.append(self._member("hourhand-in", storage.in_log, self._own_arrivals))
        self._split_thread = threading.Thread(
            target=run_guarded,
            args=(self._split, "splitting a bucket", logger, self._stop_requested),
            kwargs={"every_s": buckets.split_check_ms / 1000},
            name="hourhand-split",
            daemon=True,
        )
        self._splitter = Splitter(self._admin, self._book, buckets, self._clock, self._announce)

    def _member(
        self,
        name: str,
        open_log: Callable[[], HeldLog],
        own: Callable[[HeldLog, int], Owner],
    ) -> Member:
        # The polls of both members may be under way at once, so each gets half.
        poll_bytes = self._memory.polled_bytes_max // 2
        member = Member(name, open_log, own, self._clock, self._telemetry, poll_bytes)
        self._closing.callback(member.stop)
        return member

    def _rules_of(self, settings: Settings) -> BucketRules:
        buckets, topic = settings.buckets, settings.topic
        own_topics = (topic.name, topic.dead_letter, *buckets.own_topics)

        def allows(target: str) -> str | None:
            if settings.relay.allows_sending(target, own_topics):
                return None
            return "it is Hourhand's own, or relay.target_topics names others only"

        return BucketRules(
            buckets.topic,
            topic.dead_letter,
            allows,
            buckets.batch_records_max,
            buckets.batch_bytes_max,
            buckets.held_records_max,
            buckets.held_bytes_max,
            self._storage.away_until_ms,
        )

    def _own_pending(self, log: HeldLog, partition: int) -> Owner:
        planner = Waiting(self._rules, self._begin_window())
        scanner = Scanner(planner, log.transactions(partition), self._clock, self._telemetry)
        return self._owner(f"hourhand-pending-{partition}", partition, scanner)

    def _own_arrivals(self, log: HeldLog, partition: int) -> Owner:
        settings = self._settings
        names = (settings.topic.name, settings.topic.dead_letter, *settings.buckets.own_topics)
        rules = IntakeRules(
            self._rules,
            settings.relay,
            self._delay_ms_max,
            lambda target: settings.relay.allows_target(target, names),
            self._telemetry,
        )
        scanner = Scanner(
            Arrivals(rules, self._begin_window()),
            log.transactions(partition),
            self._clock,
            self._telemetry,
            marks=False,
        )
        return self._owner(f"hourhand-in-{partition}", partition, scanner)

    def _begin_window(self) -> PartitionBudget:
        """Return a new owner's share of the budget; the previous owner keeps its share until it
        ends.
        """
        return self._memory.begin(object())

    def _owner(self, name: str, partition: int, scanner: Scanner) -> Owner:
        return Owner(name, partition, scanner, self._book, self._clock, self._turns)

    def _probes(self) -> NodeProbes:
        return NodeProbes(
            dispatching=lambda: Dispatching(0, 0),
            partitions=lambda: self.partitions,
            works=lambda: self.is_ready,
            # A lease is not needed: the writes of a fenced owner never take effect.
            lease_ends_ms=lambda: math.inf,
            ask_store=self._asking.ask,
            polled_ms=lambda: min(member.polled_ms for member in self._members),
            poll_failure=lambda: next((m.failure for m in self._members if m.failure), None),
            measures={
                **measures_of(self._memory),
                "owned_partitions": lambda: {"": sum(len(m.owners) for m in self._members)},
                "held_messages": lambda: {p: o.count for p, o in self._pending.owners.items()},
                "oldest_overdue_seconds": lambda: {
                    p: o.overdue_ms() / 1000 for p, o in self._pending.owners.items()
                },
            },
        )

    def _announce(self, record: Outgoing) -> bool:
        owner = self._pending.owners.get(0)
        return owner is not None and owner.announce(record)

    def _split(self) -> None:
        if 0 in self._pending.owners and (split := self._splitter.look()) is not None:
            self._telemetry.emit(BucketSplit(split.version))


class Asking:
    """Asks whether the broker answers, on a thread of its own; used from any thread.

    At most one question is open. All probes share its answer, so a broker that was away for hours
    has one question to answer when it returns.
    """

    def __init__(self, question: Callable[[], Any]) -> None:
        self._question = question
        self._lock = threading.Lock()
        self._asked: Future[Any] | None = None

    def ask(self) -> "Future[Any]":
        """Return the answer to the open question; ask one first if none is open."""
        with self._lock:
            if self._asked is None or self._asked.done():
                asked: Future[Any] = Future()
                self._asked = asked
                # A daemon thread: a process that ends does not wait for a broker that is away.
                threading.Thread(
                    target=resolve,
                    args=(asked, self._question),
                    name="hourhand-asking",
                    daemon=True,
                ).start()
            return self._asked
