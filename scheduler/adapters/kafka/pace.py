"""How long a poll waits for more records once it has one: longer where many come.

Every poll is a round through the tree and, by partition, a request to the store; a few records at
a time they cost several times what they cost together.  Decides nothing of what is read.
"""

FEW_WAIT_S = 0.002
"""Where few records come: whoever waits for one should have it soon."""
MANY_WAIT_S = 0.02
"""Where many come: less than what a round of single records would fall behind."""
MANY_PER_S = 1_000
_WINDOW_MS = 100.0


class Pace:
    """Counts what the polls of one member return; told monotonic times."""

    def __init__(self) -> None:
        self._began_ms = 0.0
        self._records = 0
        self._many = False

    def note(self, records: int, now_ms: float) -> None:
        """Count the records of a poll."""
        self._records += records
        passed_ms = now_ms - self._began_ms
        if passed_ms >= _WINDOW_MS:
            self._many = self._records * 1000 >= MANY_PER_S * passed_ms
            self._began_ms, self._records = now_ms, 0

    @property
    def wait_s(self) -> float:
        """How long to wait for more."""
        return MANY_WAIT_S if self._many else FEW_WAIT_S
