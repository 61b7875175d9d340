"""Claims on their way to the log: their form, and the number of them in one task.

Decides for how long a claim may wait for others; that is short if its message is due soon. Batches
of different partitions are sent at different times: sent at once they would block this process and
the store. The claims themselves are decided elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.runtime.light_future import LightFuture, resolve
from hourhand.scheduler.services.relay.claim_state import claim_name
from hourhand.scheduler.services.relay.headers import RelayAction
from hourhand.scheduler.services.relay.message import CLAIMS_BYTES_MAX

CLAIMS = "claims"
"""The kind of ordering ids that batches of claims have."""
GATHER_MS = 500
"""Longest wait of a claim for others; also the interval of a partition's batches."""
SOON_MS = 1_500
"""The claim of a message that is due within this time waits less."""
GATHER_SOON_MS = 20
BATCH_CLAIMS_MAX = 500
_CLAIM_REST_BYTES = 100
"""Size of a claim besides its two ids: action, place, two times, quotes and commas."""
_encode = msgspec.json.Encoder().encode


class ClaimRequest(msgspec.Struct, frozen=True, array_like=True):
    """A record of the in-topic that claims an id, or changes its claim."""

    action: RelayAction
    id: str
    place: str
    delivery_ordering_id: str
    due_ms: int
    """0 for a cancel."""
    asked_ms: int
    """The time at which the record came."""

    @property
    def delivery_key(self) -> TaskKey:
        """The key of the delivery that the claim is for."""
        return TaskKey(self.due_ms, self.delivery_ordering_id, self.place)


class ClaimBatch(msgspec.Struct, frozen=True):
    """The data of a task that decides claims, in the order in which they came."""

    claims: Sequence[ClaimRequest]


@lru_cache
def claim_ordering_ids(partition_count: int) -> Mapping[int, str]:
    """Return for each partition the ordering id of its batches, the same on every node."""
    found: dict[int, str] = {}
    for number in count():
        ordering_id = f"{RESERVED}{CLAIMS}:{number}"
        found.setdefault(partition_of(ordering_id, partition_count), ordering_id)
        if len(found) == partition_count:
            break
    return found


def single_claim(request: ClaimRequest, partition_count: int) -> tuple[TaskKey, bytes]:
    """Return key and data of a batch of one claim: due at the time of the request, and the same for
    each repetition of the request.
    """
    partition = partition_of(claim_name(request.id).ordering_id, partition_count)
    unique = f"{request.asked_ms:015d}-{request.place}"
    key = TaskKey(request.asked_ms, claim_ordering_ids(partition_count)[partition], unique)
    return key, _encode(ClaimBatch([request]))


class _Batch:
    """Claims that wait for others."""

    def __init__(self, opened_ms: int) -> None:
        self.opened_ms = opened_ms
        self.claims: list[ClaimRequest] = []
        self.size_bytes = 0
        self.first_due_ms = opened_ms + 2 * SOON_MS
        self.durable: LightFuture[Any] = LightFuture()


class ClaimGatherer:
    """One open batch for each partition of the task log; used from one thread."""

    def __init__(
        self, append: "Callable[[int, ClaimBatch], Future[Any]]", partition_count: int
    ) -> None:
        """``append`` appends the task of a batch to the log, in the given partition."""
        self._append = append
        self._partition_count = partition_count
        self._open: dict[int, _Batch] = {}

    def add(self, partition: int, request: ClaimRequest, now_ms: int) -> "Future[Any]":
        """Add a claim; the future resolves when its batch is durable in the log."""
        # Sizes are of the encoded form, as a character may take six bytes; an ordering id of ours
        # takes one byte for each.
        size_bytes = len(_encode(request.id)) + len(request.delivery_ordering_id)
        size_bytes += _CLAIM_REST_BYTES
        batch = self._open.get(partition)
        if batch is not None and batch.size_bytes + size_bytes > CLAIMS_BYTES_MAX:
            self._close(partition)
            batch = None
        if batch is None:
            batch = self._open[partition] = _Batch(now_ms)
        batch.claims.append(request)
        batch.size_bytes += size_bytes
        batch.first_due_ms = min(batch.first_due_ms, request.due_ms)
        if len(batch.claims) >= BATCH_CLAIMS_MAX:
            self._close(partition)
        return batch.durable

    def flush(self, now_ms: int, *, idle: bool) -> None:
        """Append batches that have waited long enough, or have messages that are due soon.

        ``idle``: True appends all, because no further claims come now.
        """
        for partition, batch in tuple(self._open.items()):
            soon = batch.first_due_ms < now_ms + SOON_MS
            wait_ms = GATHER_SOON_MS if soon else self._turn_in_ms(partition, batch.opened_ms)
            if idle or not batch.opened_ms <= now_ms < batch.opened_ms + wait_ms:
                self._close(partition)

    def flush_all(self) -> None:
        """Append everything."""
        for partition in tuple(self._open):
            self._close(partition)

    def _turn_in_ms(self, partition: int, now_ms: int) -> int:
        """Return the time to a partition's next turn, above zero."""
        turn_ms = GATHER_MS * partition // self._partition_count
        return GATHER_MS - (now_ms - turn_ms) % GATHER_MS

    def _close(self, partition: int) -> None:
        batch = self._open.pop(partition)

        appended = self._append(partition, ClaimBatch(batch.claims))
        appended.add_done_callback(lambda done: resolve(batch.durable, done.result))
