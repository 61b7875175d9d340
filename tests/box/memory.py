"""The memory of the subtree, told by the references to rows of the store.

It counts references, and knows nothing of who holds them.
"""

import gc
import sys
from collections import Counter
from collections.abc import Iterator

from hourhand.actors.model.task.key import TaskKey
from tests.box.ledger import Ledger
from tests.box.owner import PARTITION
from tests.simulation.history import History, OutcomeStored
from tests.simulation.truth import Truth


def remembered(truth: Truth, ledger: Ledger, history: History) -> Iterator[TaskKey]:
    """Yield open keys, of which no attempt was ever asked for, whose row somebody holds.

    Nothing may be under way: each row is in the store, and whoever refers to it besides, or to
    its data, is the subtree.
    """
    asked = {fact.run.key for fact in ledger.asked}
    # An outcome that was stored may have the data of the row that it replaced.
    moved = {id(each.outcome.moved_data) for each in history.of(OutcomeStored)}
    found = [truth.row(PARTITION, key) for key in ledger.known_keys()]
    found += [fact.run.attempt.task for fact in ledger.asked]
    # A moved task has the data of the row that it was.
    rows = {id(row): row for row in found if row is not None}
    alike = Counter(id(row.data) for row in rows.values())
    found.clear()
    rows.clear()
    held = [
        key
        for key in ledger.open_keys()
        if key not in asked and _data_of(truth, key) not in moved and _is_held(truth, key, alike)
    ]
    if held:
        # A forgotten circle of objects may still be there.
        gc.collect()
    yield from (key for key in held if _is_held(truth, key, alike))


def _is_held(truth: Truth, key: TaskKey, alike: Counter[int]) -> bool:
    row = truth.row(PARTITION, key)
    assert row is not None, "an open key has a row"
    # The store's cell and two names here; rows, and a name.
    rows = alike[id(row.data)]
    return sys.getrefcount(row) > 3 or sys.getrefcount(row.data) > rows + 1


def _data_of(truth: Truth, key: TaskKey) -> int:
    row = truth.row(PARTITION, key)
    assert row is not None, "an open key has a row"
    return id(row.data)
