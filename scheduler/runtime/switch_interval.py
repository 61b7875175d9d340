"""The interval after which a computing thread has to release the interpreter's lock.

With Python's own, 5 ms, each hand-over waits that long: beside two computing threads, a task that
is handed on several times starts seconds late. Decides how short it is while user code computes. A
value that the program has set itself stays, and the last node restores the old value.
"""

import sys
from threading import Lock

USUAL_S = 0.005
"""Python's own."""
_ROUND_S = 0.001
"""Time in which each computing thread should get the lock once."""
_SHORTEST_S, _LONGEST_S = 0.0001, 0.0005


def interval_s(computing: int) -> float:
    """Return the interval for this number of computing threads."""
    if computing == 0:
        return USUAL_S
    return min(_LONGEST_S, max(_SHORTEST_S, _ROUND_S / computing))


class SwitchInterval:
    """The process's interval, while any number of nodes run in it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._computing: dict[object, int] = {}
        self._chosen_s = self._shown_s = USUAL_S
        """The value chosen here last, and the value that Python, which rounds it, shows for
        that."""

    def choose(self, node: object, computing: int) -> None:
        """Choose the interval for a node with ``computing`` threads that compute; 0 for none."""
        with self._lock:
            if computing:
                self._computing[node] = computing
            else:
                self._computing.pop(node, None)
            wanted_s = interval_s(sum(self._computing.values()))
            is_ours = sys.getswitchinterval() == self._shown_s
            if is_ours and wanted_s != self._chosen_s:
                sys.setswitchinterval(wanted_s)
                self._chosen_s, self._shown_s = wanted_s, sys.getswitchinterval()


process_interval = SwitchInterval()
"""The one of this process."""
