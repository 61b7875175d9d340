"""The batches that a tree was given and has not answered yet.

Decides how many more records may be polled, which bounds memory (P13), and how long a round
may wait for an answer to make room.  Never knows what is in a batch.
"""

import threading

POLL_RECORDS_MAX = 2_000
RECORDS_IN_FLIGHT_MAX = 20_000
"""Records delivered to the tree and not yet durable."""


class BatchesInFlight:
    """Batch numbers with the monotonic time they were sent at and how many records they hold.

    The caller's lock guards all but ``wait_for_answer``.
    """

    def __init__(self) -> None:
        self._batches: dict[int, tuple[float, int]] = {}
        self._answered = threading.Event()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def send(self, batch: int, now_ms: float, records: int) -> None:
        """Expect an answer."""
        self._batches[batch] = (now_ms, records)

    def settle(self, batch: int) -> bool:
        """Take an answer; return whether one was expected."""
        return self._batches.pop(batch, None) is not None

    def clear(self) -> None:
        """Expect nothing any more."""
        self._batches.clear()

    def oldest_ms(self) -> float | None:
        """Return when the batch was sent that has waited longest."""
        return min((sent_ms for sent_ms, _ in self._batches.values()), default=None)

    def room(self) -> int:
        """Return how many records may be polled: as many as one poll takes, or none."""
        records = sum(records for _, records in self._batches.values())
        return POLL_RECORDS_MAX if RECORDS_IN_FLIGHT_MAX - records >= POLL_RECORDS_MAX else 0

    def note_answer(self) -> None:
        """End the wait for an answer; from any thread."""
        self._answered.set()

    def wait_for_answer(self, timeout_ms: int) -> None:
        """Wait until the tree says something; one that spoke since the last wait counts."""
        if self._answered.wait(timeout_ms / 1000):
            self._answered.clear()
