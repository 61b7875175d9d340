"""The state of a node's tree: batches without an answer, and the time of the next rebuild.

Decides how many more records may be polled, by number and bytes, which bounds memory (P13), and how
long a round may wait for an answer.  Never looks into a batch.
"""

import random
import threading
from collections.abc import Sequence

from hourhand.actors.model.execution.backoff import growing_pause_ms
from hourhand.actors.model.task.codec import LogRecord, record_bytes
from hourhand.actors.model.values.settings import RecoverySettings
from hourhand.actors.model.window.budget import NodeBudget

POLL_RECORDS_MAX = 2_000
RECORDS_IN_FLIGHT_MAX = 20_000
"""Most records that are delivered to the tree and not yet durable."""
HEALTHY_AFTER_MS = 60_000
"""A failure of a tree that lived this long is counted as the first one."""


class BatchesInFlight:
    """Batch numbers with the monotonic time of their sending, their records and their bytes.

    The caller's lock guards all but ``wait_for_answer``.
    """

    def __init__(self, memory: NodeBudget) -> None:
        self._memory = memory
        self._batches: dict[int, tuple[float, int, int]] = {}
        self._record_bytes = 1
        """Average size of the last batch's records; the next ones are probably as large."""
        self._answered = threading.Event()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def send(self, batch: int, now_ms: float, records: Sequence[LogRecord]) -> None:
        """Add a batch, whose answer is expected."""
        size_bytes = sum(map(record_bytes, records))
        self._batches[batch] = (now_ms, len(records), size_bytes)
        self._memory.poll(size_bytes)
        if records:
            self._record_bytes = size_bytes // len(records)

    def settle(self, batch: int) -> bool:
        """Take an answer; return True if it was expected."""
        settled = self._batches.pop(batch, None)
        if settled is None:
            return False
        self._memory.poll(-settled[2])
        return True

    def clear(self) -> None:
        """Expect no answer any more."""
        self._batches.clear()
        self._memory.poll(-self._memory.polled_bytes)

    def oldest_ms(self) -> float | None:
        """Return the monotonic time at which the oldest batch was sent; None if there is none."""
        return min((sent_ms for sent_ms, *_ in self._batches.values()), default=None)

    def room(self) -> int:
        """Return the number of records that may be polled: as many as one poll takes, or none.

        If records are large, it is the number that fits, and at least one if none is in flight.
        """
        records = sum(records for _, records, _ in self._batches.values())
        if RECORDS_IN_FLIGHT_MAX - records < POLL_RECORDS_MAX:
            return 0
        left_bytes = self._memory.polled_bytes_max - self._memory.polled_bytes
        fitting = max(left_bytes // self._record_bytes, 0 if self._batches else 1)
        return min(POLL_RECORDS_MAX, fitting)

    def note_answer(self) -> None:
        """End the wait for an answer; from any thread."""
        self._answered.set()

    def wait_for_answer(self, timeout_ms: int) -> None:
        """Wait until the tree answers; an answer since the last wait counts."""
        if self._answered.wait(timeout_ms / 1000):
            self._answered.clear()


class Rebuilds:
    """Counts failures in a row, and decides when the next tree may be built (monotonic ms).

    The pause doubles, and half of it is random, so that nodes do not all ask a failed store at
    once.
    """

    def __init__(self, settings: RecoverySettings, rng: random.Random | None = None) -> None:
        self.failures = 0
        self._settings = settings
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards no secret
        self._built_at_ms = 0.0
        self._due_ms = 0.0

    def is_due(self, now_ms: float) -> bool:
        """True if a tree may be built now."""
        return now_ms >= self._due_ms

    def note_built(self, now_ms: float) -> None:
        """Note that a tree was built."""
        self._built_at_ms = now_ms

    def note_failed(self, now_ms: float) -> float:
        """Note that a tree failed; return the pause before the next one, in milliseconds."""
        if now_ms - self._built_at_ms >= HEALTHY_AFTER_MS:
            self.failures = 0
        self.failures += 1
        shortest_ms, longest_ms = (
            self._settings.rebuild_pause_min_ms,
            self._settings.rebuild_pause_max_ms,
        )
        pause_ms = growing_pause_ms(self.failures, shortest_ms, longest_ms, self._rng)
        self._due_ms = now_ms + pause_ms
        return pause_ms
