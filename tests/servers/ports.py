"""Ports for servers of this machine, each given to one process at a time.

They lie below those that systems give to outgoing connections.  A client that tries a server
again and again while it is down would otherwise be given the server's own port, sooner or later.
Never decides what listens, and never takes a port back before the process that asked has ended.
"""

import fcntl
import itertools
import os
import socket
import tempfile
from pathlib import Path

_FIRST, _END = 10_000, 32_768
_STEP = 61
"""From where one process begins to look to where the next one does."""
_kept: list[int] = []
"""Open files: the lock on each ends with this process, however that ends."""


def free_ports(count: int) -> list[int]:
    """Return ports nobody listens on, and that no other caller on this machine is given.

    Raises RuntimeError where there are not so many.
    """
    start = os.getpid() * _STEP % (_END - _FIRST)
    candidates = itertools.chain(range(_FIRST + start, _END), range(_FIRST, _FIRST + start))
    found = list(itertools.islice(filter(_is_kept, candidates), count))
    if len(found) < count:
        raise RuntimeError(f"{count} ports asked for, {len(found)} are free: end other test runs")
    return found


def _is_kept(port: int) -> bool:
    """Keep a port for this process; whether nobody had it."""
    folder = Path(tempfile.gettempdir()) / f"hourhand-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    file = os.open(folder / str(port), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as free:
            free.bind(("", port))
    except OSError:
        os.close(file)
        return False
    _kept.append(file)
    return True
