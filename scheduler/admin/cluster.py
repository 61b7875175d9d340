"""What all nodes say of themselves, put together: one picture of the cluster, a second old.

A thread reads the nodes' reports from the store and the ends of the log, so an answer costs no
request to anybody.  Every figure has the time it is of; what a node has not said for long is
unknown, never guessed.
"""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from actors.model.errors import HourhandError
from actors.model.oversight import NodeReport, PartitionReport
from actors.model.pauses import PauseScope, PauseSheet
from actors.ports.clock import Clock
from actors.ports.store import Stores
from scheduler.admin.heard import Heard, heard_now, key_value, lateness_of, sum_known
from scheduler.admin.last_hour import LastHour
from scheduler.admin.owners import OWNERS_WORD, owners_word
from scheduler.admin.values import instant_value
from scheduler.ports.letters import LogEnd, LogView

logger = logging.getLogger("hourhand.admin")

READ_MS = 1_000
SILENT_MS = 5_000
"""A node that did not report for so long is silent, and what it said last is unknown by now."""
ENDS_MS = 5_000
_ANSWER_S = 5.0


class Cluster:
    """The picture; ``start`` keeps it fresh until ``close``."""

    def __init__(
        self, stores: Stores, log_view: LogView, clock: Clock, partition_count: int
    ) -> None:
        self.partition_count = partition_count
        self._stores = stores
        self._log_view = log_view
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, Heard] = {}
        self._ends: Mapping[int, LogEnd] = {}
        self._ends_ms: int | None = None
        self._read_ms: int | None = None
        self._ends_due_ms = 0.0
        self._error: str | None = None
        self._last_hour = LastHour()
        self.sheet = PauseSheet()
        self.beat = 0
        """Grows with each reading."""
        self.changed = threading.Condition()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-cluster", daemon=True)

    def start(self) -> None:
        """Read once, then keep reading."""
        self.read()
        self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._closed.set()
        with self.changed:
            self.changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_ANSWER_S)

    @property
    def is_closed(self) -> bool:
        """Whether it reads no more."""
        return self._closed.is_set()

    def read(self) -> None:
        """Read reports, pauses and, now and then, the ends of the log."""
        try:
            oversight = self._stores.oversight
            reports = oversight.read_reports().result(timeout=_ANSWER_S)
            sheet = oversight.read_pauses(self.sheet).result(timeout=_ANSWER_S)
        except (HourhandError, TimeoutError) as error:
            self._error = str(error) or "the store did not answer"
        else:
            self.learn(sheet)
            with self._lock:
                self._nodes = heard_now(self._nodes, reports)
                self._error = None
                self._read_ms = self._clock.now_ms()
        if self._clock.monotonic_ms() >= self._ends_due_ms:
            self._ends_due_ms = self._clock.monotonic_ms() + ENDS_MS
            self._read_ends()
        status = self.status()
        with self._lock:
            self._last_hour.draw(self._clock.monotonic_ms(), status, self._reports())
        with self.changed:
            self.beat += 1
            self.changed.notify_all()

    def learn(self, sheet: PauseSheet) -> None:
        """Take a sheet for the one in force, unless a later one is known."""
        with self._lock:
            if sheet.version > self.sheet.version:
                self.sheet = sheet

    # The picture.

    def status(self) -> dict[str, Any]:
        """Return the figures of the whole cluster at a glance."""
        with self._lock:
            nodes = [self._node_value(each) for each in self._nodes.values()]
            partitions = self._partition_values()
            alive = [each for each in nodes if each["state"] == "alive"]
            unknown = [each["partition"] for each in partitions if each["owner"] is None]
            lags = [each["lag"] for each in partitions]
            return {
                "time": instant_value(self._clock.now_ms()),
                "asOf": instant_value(self._read_ms),
                "stale": self._is_stale(),
                "error": self._error,
                "nodes": {"alive": len(alive), "silent": len(nodes) - len(alive)},
                "partitions": {
                    "count": self.partition_count,
                    "owned": self.partition_count - len(unknown),
                    "unknown": len(unknown),
                },
                "executionsPerS": sum_known(each["executionsPerS"] for each in alive),
                "failuresPerS": sum_known(each["failuresPerS"] for each in alive),
                "latenessMs": lateness_of([self._nodes[each["node"]] for each in alive]),
                "inFlight": sum_known(each["inFlight"] for each in alive),
                "failing": sum_known(each["failing"] for each in alive),
                "blocked": sum_known(each["blocked"] for each in alive),
                "lag": None if None in lags else sum(lags),
                "overdueMs": max((each["overdueMs"] or 0 for each in partitions), default=0),
                "paused": self._paused_value(),
            }

    def nodes(self) -> list[dict[str, Any]]:
        """Return every node heard of lately, by name."""
        with self._lock:
            return sorted(map(self._node_value, self._nodes.values()), key=lambda n: n["node"])

    def partitions(self) -> list[dict[str, Any]]:
        """Return every partition: its owner's word, or that nobody answers for it."""
        with self._lock:
            return self._partition_values()

    def troubled(self, kind: str) -> dict[str, Any]:
        """Return what nodes say is ``blocked`` or ``failing``, oldest first."""
        with self._lock:
            alive = [node for node in self._nodes.values() if self._is_alive(node)]
            listed = [
                {
                    **key_value(each.key),
                    "partition": each.partition,
                    "since": instant_value(each.since_ms),
                    "attempts": each.attempts,
                    "error": each.error,
                    "node": node.report.node,
                }
                for node in alive
                for each in getattr(node.report, kind)
            ]
            count = sum(getattr(node.report, f"{kind}_count") for node in alive)
            unknown = [p["partition"] for p in self._partition_values() if p["owner"] is None]
            return {
                "asOf": instant_value(self._read_ms),
                "count": count,
                "unknownPartitions": unknown,
                kind: sorted(listed, key=lambda each: each["since"] or ""),
            }

    def running(self) -> dict[str, tuple[int, str]]:
        """Return the tasks that nodes say run right now: key to attempt and node."""
        with self._lock:
            return {
                each.key: (each.attempt, node.report.node)
                for node in self._nodes.values()
                if self._is_alive(node)
                for each in node.report.running
            }

    def history(self, partition: int | None = None) -> dict[str, Any]:
        """Return the last hour as this process saw it, and the moments to mark on it."""
        with self._lock:
            return self._last_hour.value(self._reports(), partition)

    # Reading.

    def _run(self) -> None:
        while not self._closed.wait(READ_MS / 1000):
            try:
                self.read()
            except Exception:
                logger.exception("the cluster could not be read; please report this")

    def _read_ends(self) -> None:
        try:
            ends = self._log_view.ends()
        except HourhandError as error:
            logger.debug("the ends of the log are unknown: %s", error)
            return
        with self._lock:
            self._ends, self._ends_ms = ends, self._clock.now_ms()

    # Values, under the lock.

    def _reports(self) -> list[NodeReport]:
        return [node.report for node in self._nodes.values()]

    def _is_stale(self) -> bool:
        return self._read_ms is None or self._clock.now_ms() - self._read_ms > SILENT_MS

    def _is_alive(self, node: Heard) -> bool:
        return self._clock.now_ms() - node.report.reported_ms <= SILENT_MS

    def _node_value(self, node: Heard) -> dict[str, Any]:
        return node.value(alive=self._is_alive(node))

    def _partition_values(self) -> list[dict[str, Any]]:
        owners: dict[int, tuple[NodeReport, PartitionReport]] = {}
        for node in self._nodes.values():
            if not self._is_alive(node):
                continue
            for each in node.report.partitions:
                known = owners.get(each.partition)
                if known is None or (each.epoch or 0) > (known[1].epoch or 0):
                    owners[each.partition] = (node.report, each)
        return [self._partition_value(n, owners.get(n)) for n in range(self.partition_count)]

    def _partition_value(
        self, number: int, owned: tuple[NodeReport, PartitionReport] | None
    ) -> dict[str, Any]:
        end = self._ends.get(number)
        pause = self.sheet.of_partition(number)
        value: dict[str, Any] = {
            "partition": number,
            "owner": None,
            "state": "unknown",
            "asOf": None,
            "paused": pause.whole,
            "pausedIds": len(pause.ordering_ids),
            "endOffset": None if end is None else end.end_offset,
        }
        if owned is None:
            return {**value, **dict.fromkeys(OWNERS_WORD)}
        report, said = owned
        lag = None
        if said.next_offset is not None and self._ends_ms is not None:
            lag = max(0, (end.end_offset if end is not None else 0) - said.next_offset)
        return {
            **value,
            "owner": report.node,
            "asOf": instant_value(report.reported_ms),
            "lag": lag,
            "pauseKnown": report.pauses_version >= self.sheet.version,
            **owners_word(said),
        }

    def _paused_value(self) -> dict[str, Any]:
        scopes = [each.scope for each in self.sheet.pauses]
        return {
            "all": PauseScope.ALL in scopes,
            "partitions": scopes.count(PauseScope.PARTITION),
            "orderingIds": scopes.count(PauseScope.ORDERING),
        }
