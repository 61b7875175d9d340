"""When the owner of a partition begins its next step.

A transaction costs the broker about the same whether it carries one record or hundreds, and all
that are under way at once delay each other.  So what is not due for long gathers company.  Reads
no clock and waits for nothing.
"""

import math

SETTLE_MS = 5.0
"""Between two transactions: the broker answers before it has ended the first everywhere, and one
that begins too soon is told to come back later."""
MOVE_GATHER_MS = 100.0
"""Between two transactions that move messages, where none of them is due soon."""
INTAKE_GATHER_MS = 500.0
"""Between two transactions that read the in-topic, where none of what was read is due soon."""
HURRY_MS = 150.0
"""What is due within this is not kept waiting.  Messages are moved ``MOVES_EARLY_MS`` before they
have to be, which leaves them time to gather company; the rest is for two transactions and a read.
"""


def wait_ms(
    next_ms: int | None,
    first_due_ms: int | None,
    now_ms: int,
    since_step_ms: float,
    gather_ms: float,
) -> float | None:
    """Return how long to wait before the next step; None where there is nothing to do.

    ``next_ms`` is when there is something to do, ``first_due_ms`` when what it is about is due
    (None: nobody waits for it), both in UTC milliseconds as ``now_ms``.
    """
    if next_ms is None:
        return None
    gathered_ms = gather_ms - since_step_ms
    hurries_ms = math.inf if first_due_ms is None else first_due_ms - HURRY_MS - now_ms
    settled_ms = SETTLE_MS - since_step_ms
    return max(0.0, next_ms - now_ms, settled_ms, min(gathered_ms, hurries_ms))
