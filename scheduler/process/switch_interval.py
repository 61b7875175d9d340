"""The interval after which a thread that computes has to hand on the interpreter's lock.

Python's own, 5 ms, is waited for at each hand-over: beside two threads that compute, a task that is
handed on several times starts seconds late.  Decides how short it is while user code computes.
What the program has chosen itself stays, and with the last node all is as before.
"""

import sys
from threading import Lock

USUAL_S = 0.005
"""Python's own."""
_ROUND_S = 0.001
"""So long the threads that compute may take to have the lock once each."""
_SHORTEST_S, _LONGEST_S = 0.0001, 0.0005


def interval_s(computing: int) -> float:
    """Return the interval while so many threads compute."""
    if computing == 0:
        return USUAL_S
    return min(_LONGEST_S, max(_SHORTEST_S, _ROUND_S / computing))


class SwitchInterval:
    """The process's interval, while any number of nodes run in it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._computing: dict[object, int] = {}
        self._chosen_s = self._shown_s = USUAL_S
        """What was chosen here last, and what Python, which rounds it, shows of that."""

    def choose(self, node: object, computing: int) -> None:
        """Have the interval suit a node with so many threads that compute; 0 for none."""
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
"""Of this process."""
