"""The tasks of a run that need no order, and how many of them one ordering id may run at once.

Its name gives a task its kind, so that a later record, or one of another time, has the same.
"""

import zlib

from hourhand.actors.model.task.key import TaskKey

PAIR, SWARM = "pair", "swarm"
PLACES: dict[str | None, int | None] = {PAIR: 2, SWARM: None}
"""By kind; None for no limit."""
_KINDS = (None, PAIR, SWARM)


def kind_of(key: TaskKey) -> str | None:
    """Return the kind of a task: a third of all have an order."""
    return _KINDS[zlib.crc32(key.uniqueness_key.encode()) % len(_KINDS)]
