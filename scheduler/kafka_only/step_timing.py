"""The time of a partition owner's next step.

A transaction costs the broker about the same whether it carries one record or hundreds, and
concurrent ones delay each other. So records that are not due soon are gathered. It reads no clock
and does not wait.
"""

import math

SETTLE_MS = 5.0
"""Time between two transactions: the broker answers before the first has ended everywhere, and
rejects one that begins too soon."""
MOVE_GATHER_MS = 100.0
"""Time between two transactions that move messages, if none of them is due soon."""
INTAKE_GATHER_MS = 500.0
"""Time between two transactions that read the in-topic, if none of the records is due soon."""
HURRY_MS = 150.0
"""Records that are due within this time are not delayed. Messages are moved ``MOVES_EARLY_MS``
early, which leaves time to gather them; this part of it is for two transactions and a read."""


def wait_ms(
    next_ms: int | None,
    first_due_ms: int | None,
    now_ms: int,
    since_step_ms: float,
    gather_ms: float,
) -> float | None:
    """Return the milliseconds to wait before the next step; None if there is nothing to do.

    ``next_ms`` is the time of the next step, ``first_due_ms`` the due time of its first message
    (None: no message waits for it), both in UTC milliseconds as ``now_ms``.
    """
    if next_ms is None:
        return None
    gathered_ms = gather_ms - since_step_ms
    hurries_ms = math.inf if first_due_ms is None else first_due_ms - HURRY_MS - now_ms
    settled_ms = SETTLE_MS - since_step_ms
    return max(0.0, next_ms - now_ms, settled_ms, min(gathered_ms, hurries_ms))
