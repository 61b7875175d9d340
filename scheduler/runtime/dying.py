"""Ends a process with the one that started it.

Decides nothing else. On systems without a signal for it, such as macOS, the closed end of a pipe is
the sign.
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
    """Let the system kill this process once the thread that started it ends; at once if the process
    ``parent`` is already gone.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def be_killed_first() -> None:
    """Let a machine without free memory kill this process before the one that started it."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
