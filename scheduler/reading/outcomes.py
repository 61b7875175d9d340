"""What a command achieved, found by the place its receipt names.

Decides which row of the store is that command's; never what it means that there is none yet.
"""

from actors.model.key import TaskKey
from actors.model.log_offset import RECORDS_MAX, era_of, kept_offset
from actors.model.ownership import Claim
from actors.model.status import RecordedOutcome
from actors.ports.store import OwnershipStore
from scheduler.futures.steps import Steps


def found_outcome(
    store: OwnershipStore, partition: int, offset: int, key: TaskKey | None
) -> Steps[RecordedOutcome | None]:
    """Return what the command at the broker's ``offset`` achieved; None while that is undecided.

    ``key`` is the command's, where it is known: of a topic that was made anew another command may
    have stood at the same offset.
    """
    asked = store.find_outcome(partition, offset)
    claim: Claim | None = yield store.find_watermark(partition)
    found: RecordedOutcome | None = yield asked
    era = 0 if claim is None else era_of(claim.watermark.next_offset)
    if era:
        if offset >= RECORDS_MAX:
            return None
        found = yield store.find_outcome(partition, kept_offset(era, offset))
    return found if found is None or key in (None, found.key) else None
