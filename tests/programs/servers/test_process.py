"""A server that is frozen, let go on, killed: each is true when the call returns."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.freezing import freeze, states_of, thaw
from tests.servers.ports import free_ports
from tests.servers.process import ServerProcess, accepts_connections
from tests.waiting import until

THREADS = 24
_BUSY = f"""
import hashlib, threading

def work():
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000)

for _ in range({THREADS}):
    threading.Thread(target=work).start()
"""
"""As many threads compute as a server has, so the last one stands long after the first."""
_LISTENS = """
import socket, sys, threading

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
threading.Event().wait()
"""

_STARTS = """
import os, sys
from pathlib import Path
from tests.servers.process import ServerProcess

ServerProcess("a listener", Path(sys.argv[1])).start(sys.argv[2:])
os._exit(0)
"""
ROOT = Path(__file__).parents[3]


@pytest.fixture
def busy() -> Iterator[int]:
    """The pid of a process whose threads all compute."""
    with subprocess.Popen([sys.executable, "-c", _BUSY]) as process:
        try:
            until(lambda: len(states_of(process.pid)) > THREADS, "its threads never ran")
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[tuple[ServerProcess, int]]:
    """A server that takes connections, and its port."""
    (port,) = free_ports(1)
    server = ServerProcess("a listener", tmp_path)
    server.start([sys.executable, "-c", _LISTENS, str(port)])
    try:
        server.wait_until(lambda: accepts_connections("127.0.0.1", port), 60)
        yield server, port
    finally:
        server.stop()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="shows no threads")
def test_no_thread_of_a_frozen_process_runs_any_more(busy: int) -> None:
    """A request that was on its way is not answered by a thread that had not heard of it yet."""
    for _ in range(5):
        freeze(busy)
        frozen = states_of(busy)
        thaw(busy)
        running = states_of(busy)

        assert set(frozen) == {"T"}, frozen
        assert "T" not in running, running


def test_what_has_ended_is_neither_waited_for_nor_an_error() -> None:
    """A process may end by itself before it is frozen."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(60)

    freeze(process.pid)
    thaw(process.pid)


def test_a_paused_server_answers_nobody_until_it_is_resumed(
    listening: tuple[ServerProcess, int],
) -> None:
    """It can also be stopped while it is paused."""
    server, _ = listening
    pid = server.pid
    assert pid is not None

    server.pause()
    assert set(states_of(pid)) == {"T"}
    server.resume()
    assert "T" not in states_of(pid)
    server.pause()
    server.stop()

    assert server.pid is None


def test_the_port_of_a_killed_server_refuses_at_once(
    listening: tuple[ServerProcess, int],
) -> None:
    """So another may take it, and no client is answered by what is dying."""
    server, port = listening

    server.kill()

    assert not accepts_connections("127.0.0.1", port)
    assert server.pid is None


def test_a_server_of_another_process_is_gone_when_it_was_killed(tmp_path: Path) -> None:
    """``make down`` stops what another command started, and is not its parent."""
    (port,) = free_ports(1)
    starting = [sys.executable, "-c", _STARTS, str(tmp_path), sys.executable, "-c", _LISTENS]
    subprocess.run([*starting, str(port)], cwd=ROOT, check=True)
    server = ServerProcess("the listener of somebody else", tmp_path)
    server.wait_until(lambda: accepts_connections("127.0.0.1", port), 60)

    server.kill()

    assert not accepts_connections("127.0.0.1", port)
    assert server.pid is None
