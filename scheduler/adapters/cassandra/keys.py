"""Keys as columns: how they are selected, bounded, and looked up one by one."""

from collections import defaultdict
from collections.abc import Sequence

from actors.model.bucket import hour_of
from actors.model.key import TaskKey
from actors.model.task import ID_BYTES_MAX
from scheduler.adapters.cassandra.session import CassandraSession, Row

KEY_COLUMNS = "toUnixTimestamp(scheduled_time), ordering_id, uniqueness_key"
"""What a query selects first; the time as a number, exact in every year."""
KEY_BOUND = "(scheduled_time, ordering_id, uniqueness_key)"
KEYS_MAX = 50
"""Keys of one look-up in one hour."""


class KeyFinder:
    """Looks single keys up, those of one hour together."""

    def __init__(self, session: CassandraSession, select: str) -> None:
        self._session = session
        self._find = session.prepare(
            f"{select} WHERE partition_id = ? AND hour = ? AND {KEY_BOUND} IN ?"
        )

    def find(self, partition: int, keys: Sequence[TaskKey]) -> list[Row]:
        """Return the rows of ``keys``, in no order; waits.  Raises StoreUnavailable."""
        by_hour: defaultdict[int, list[TaskKey]] = defaultdict(list)
        for key in dict.fromkeys(keys):
            if _can_exist(key):
                by_hour[hour_of(key.scheduled_ms)].append(key)
        answers = self._session.execute_all(
            [
                self._find.bind((partition, hour, asked[start : start + KEYS_MAX]))
                for hour, asked in by_hour.items()
                for start in range(0, len(asked), KEYS_MAX)
            ]
        )
        return [row for rows in answers for row in rows]


def key_of(row: Row) -> TaskKey:
    """Return the key in the first three columns."""
    return TaskKey(row[0], row[1], row[2])


def _can_exist(key: TaskKey) -> bool:
    """Whether any row can have this key: operators type keys that none can."""
    try:
        return all(len(each.encode()) <= ID_BYTES_MAX for each in key[1:])
    except UnicodeEncodeError:
        return False
