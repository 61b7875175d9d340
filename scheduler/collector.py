"""Python's cyclic collector, told how much of a node's memory comes and goes.

Each busy ordering id is some twenty objects that live for milliseconds and are freed without the
collector.  With Python's own thresholds it walks all of them again and again, which takes about
as long as running the tasks.  Decides nothing else about the process.
"""

import gc

YOUNG_OBJECTS_MAX = 10_000
"""Objects made and not freed before the youngest are looked at; Python's own is 700 to 2,000."""


def calm_collector() -> None:
    """Collect less often, unless the program has raised the threshold further itself."""
    young, middle, old = gc.get_threshold()
    if 0 < young < YOUNG_OBJECTS_MAX:
        gc.set_threshold(YOUNG_OBJECTS_MAX, max(middle, 100), max(old, 100))
