"""What only Python's cyclic collector can free: it stops the whole process while it looks.

Objects that live for milliseconds by the thousand must be freed by their reference counts.
"""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cyclic_garbage() -> Iterator["Counter[str]"]:
    """Count, by class, what the block left to the collector, which waits until its end."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(type(each).__name__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
