"""A node of the version before, as what it reads and writes beside nodes of this one.

That version is the last one before hours are thinned: it does not know the columns
``thinned_until`` and ``topic_id`` of a partition's row, leaves them as they are, and deletes failed
tasks with their hour.  Decides what such a node sees of the store, never what it does with it: that
is the present code, with the setting under which it deletes so.  What an older node cannot read of
the log is sent once all nodes are updated (``docs/operations/upgrading.md``), so no client here
sends it; ``tests/two_versions`` runs the real code of versions before.
"""

from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import Claim, Watermark
from hourhand.actors.model.values.settings import TreeSettings
from hourhand.scheduler.adapters.memory.delivery import at_once
from hourhand.scheduler.adapters.memory.ownership import MemoryOwnership
from hourhand.scheduler.adapters.memory.tables import MemoryStores, View, request


class OlderOwnership(MemoryOwnership):
    """``OwnershipStore`` of a node that knows fewer columns of a partition's row."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        super().__init__(data, view)
        self._now = MemoryOwnership(data, View(at_once))

    @request
    def claim(self, partition: int, initial_watermark_ms: int) -> Claim:
        """Raise the owner epoch by one and return it with what is known of the row."""
        return _as_read(self._now.claim(partition, initial_watermark_ms).result())

    @request
    def save_watermark(self, partition: int, epoch: int, watermark: Watermark) -> None:
        """Replace the columns that are known."""
        found = self._data.claims.get(partition)
        saved = watermark if found is None else _over(found.watermark, watermark)
        self._now.save_watermark(partition, epoch, saved).result()

    @request
    def read_watermark(self, partition: int) -> Claim | None:
        """Read what is known of the row."""
        found = self._data.claims.get(partition)
        return None if found is None else _as_read(found)


def older_settings(tree: TreeSettings) -> TreeSettings:
    """Return the settings under which this version deletes failed tasks as the one before."""
    watermark = tree.watermark.model_copy(update={"failed_retention_ms": 0})
    return tree.model_copy(update={"watermark": watermark})


def _as_read(claim: Claim) -> Claim:
    return Claim(claim.epoch, replace(claim.watermark, thinned_until_ms=0, topic_id=""))


def _over(stored: Watermark, saved: Watermark) -> Watermark:
    return replace(saved, thinned_until_ms=stored.thinned_until_ms, topic_id=stored.topic_id)
