"""``OwnershipStore`` in memory: requests are served at once, so they never interleave."""

from concurrent.futures import Future

from hourhand.actors.model.operations.ownership import Claim, Watermark, initial_watermark
from hourhand.actors.model.task.status import RecordedOutcome
from hourhand.actors.model.values.errors import OwnershipLost
from hourhand.scheduler.adapters.memory.tables import MemoryTables, request


class MemoryOwnership(MemoryTables):
    """Rows of ``partition_watermark``, ``command_outcome`` and ``schedule_meta``."""

    @request
    def claim(self, partition: int, initial_watermark_ms: int) -> Claim:
        found = self._data.claims.get(partition)
        claim = (
            Claim(1, initial_watermark(initial_watermark_ms))
            if found is None
            else Claim(found.epoch + 1, found.watermark)
        )
        self._data.claims[partition] = claim
        return claim

    @request
    def save_watermark(self, partition: int, epoch: int, watermark: Watermark) -> None:
        """Replace the row, unless a later save is there; OwnershipLost by a newer epoch."""
        found = self._data.claims.get(partition)
        if found is None or found.epoch != epoch:
            raise OwnershipLost(partition, epoch)
        if found.watermark.write_time <= watermark.write_time:
            self._data.claims[partition] = Claim(epoch, watermark)

    @request
    def read_watermark(self, partition: int) -> Claim | None:
        return self._data.claims.get(partition)

    def find_watermark(self, partition: int) -> "Future[Claim | None]":
        """As ``read_watermark``."""
        return self.read_watermark(partition)

    @request
    def insert_outcome(
        self, partition: int, offset: int, outcome: RecordedOutcome, write_time: int
    ) -> None:
        found = self._data.outcomes.get((partition, offset))
        if found is None or found[0] < write_time:
            self._data.outcomes[partition, offset] = (write_time, outcome)

    @request
    def find_outcome(self, partition: int, offset: int) -> RecordedOutcome | None:
        found = self._data.outcomes.get((partition, offset))
        return None if found is None else found[1]

    @request
    def agree_partition_count(self, count: int) -> int:
        if self._data.partition_count is None and count:
            self._data.partition_count = count
        return self._data.partition_count or 0
