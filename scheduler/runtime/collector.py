"""Tunes Python's cyclic collector for the memory of a node.

Each busy ordering id is some twenty objects that live for milliseconds and are freed without the
collector. With Python's own thresholds it walks all of them again and again, which takes about as
long as running the tasks. Objects that survive one look are looked at once more soon, while they
are few: the process stands still meanwhile. Only a running node does this; it changes nothing else
of the process.
"""

import gc
from collections.abc import Callable
from threading import Lock

YOUNG_OBJECTS_MAX = 10_000
"""New objects before the youngest are looked at; Python's own is 700 to 2,000."""
OLD_LOOKS_MIN = 1_000
"""Looks at objects of middle age before all objects are looked at; Python's own is 10."""


class _Thresholds:
    """The process's thresholds, while any number of nodes run in it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._nodes = 0
        self._before: tuple[int, int, int] | None = None
        self._raised: tuple[int, int, int] | None = None

    def raise_them(self) -> None:
        with self._lock:
            self._nodes += 1
            young, middle, old = gc.get_threshold()
            if 0 < young < YOUNG_OBJECTS_MAX:
                self._before = young, middle, old
                self._raised = YOUNG_OBJECTS_MAX, middle, max(old, OLD_LOOKS_MIN)
                gc.set_threshold(*self._raised)

    def put_back(self) -> None:
        with self._lock:
            self._nodes -= 1
            if self._nodes:
                return
            before, raised, self._before, self._raised = self._before, self._raised, None, None
            # Thresholds that the program has set meanwhile stay.
            if before is not None and gc.get_threshold() == raised:
                gc.set_threshold(*before)


_thresholds = _Thresholds()


def tune_gc() -> Callable[[], None]:
    """Collect less often, unless the program has raised the threshold further itself.

    Call the returned function when the node has stopped: the last of them restores the old
    thresholds. Further calls of it do nothing.
    """
    _thresholds.raise_them()
    pending = [_thresholds.put_back]

    def restore() -> None:
        if pending:
            pending.pop()()

    return restore
