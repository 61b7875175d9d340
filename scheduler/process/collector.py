"""Python's cyclic collector, told how much of a node's memory comes and goes.

Each busy ordering id is some twenty objects that live for milliseconds and are freed without the
collector.  With Python's own thresholds it walks all of them again and again, which takes about
as long as running the tasks.  What outlives one look is looked at once more soon, while it is
little: the process stands still meanwhile.  Decides nothing else about the process.
"""

import gc

YOUNG_OBJECTS_MAX = 10_000
"""Objects made and not freed before the youngest are looked at; Python's own is 700 to 2,000."""
OLD_LOOKS_MIN = 1_000
"""Looks at those of middle age before all objects are looked at; Python's own is 10."""


def tune_gc() -> None:
    """Collect less often, unless the program has raised the threshold further itself."""
    young, middle, old = gc.get_threshold()
    if 0 < young < YOUNG_OBJECTS_MAX:
        gc.set_threshold(YOUNG_OBJECTS_MAX, middle, max(old, OLD_LOOKS_MIN))
