"""How a process ends with the one that started it.

Decides nothing else.  Where the system has no signal for it, as macOS, the closed end of a pipe has
to tell.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "500"


def die_with_parent(parent: int) -> None:
    """Have the system kill this process once the thread that started it ends; at once where the
    process ``parent`` is gone already.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def be_killed_first() -> None:
    """Have a machine that runs out of memory end this process before the one that started it."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
