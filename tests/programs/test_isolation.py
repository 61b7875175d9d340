"""What a unit test may not do, and that the one which does it fails."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROCESSES = {
    "subprocess": "import subprocess; subprocess.run(['true'])",
    "asyncio": "import asyncio; asyncio.run(asyncio.create_subprocess_exec('true'))",
    "shell": "import os; os.system('true')",
    "spawn": "import os; os.spawnlp(os.P_WAIT, 'true', 'true')",
    "posix_spawn": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "fork": "import os; os.fork() or os._exit(0)",
    "forkpty": "import pty; pty.fork()[0] or os._exit(0)",
    "exec": "import os; os.execv('/bin/true', ['true'])",
    **{
        f"multiprocessing_{method}": (
            "import multiprocessing;"
            f"multiprocessing.get_context('{method}').Process(target=print).start()"
        )
        for method in ("fork", "spawn", "forkserver")
    },
}
SOCKETS = {
    "address": "import socket; socket.create_connection(('127.0.0.1', 9))",
    "name": "import socket; socket.getaddrinfo('localhost', 80)",
    "server": "import socketserver; socketserver.TCPServer(('127.0.0.1', 0), None)",
    "datagram": "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "file": "import socket; socket.socket(socket.AF_UNIX).connect('/run/none')",
    "stream": "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', 9))",
}
WAITS = {
    "sleep": "import time; time.sleep(0.01)",
    "loop": "import asyncio; asyncio.run(asyncio.sleep(0.01))",
    "event": "import threading; threading.Event().wait(0.01)",
    "condition": (
        "import threading; condition = threading.Condition();"
        "condition.acquire(); condition.wait_for(lambda: False, 0.01)"
    ),
    "queue": "import queue; queue.Queue().get(timeout=0.01)",
    "future": "from concurrent.futures import Future; Future().result(0.01)",
    "timeout": "import asyncio; asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 0.01))",
    "join": (
        "import threading; gate = threading.Event(); each = threading.Thread(target=gate.wait);"
        "each.start(); each.join(0.01); gate.set()"
    ),
}
ALLOWED = {
    "loop": "import asyncio; asyncio.run(asyncio.sleep(0))",
    "pool": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor() as pool:\n"
        "    pool.submit(str).result(20)"
    ),
    "thread_that_ends": "import threading; threading.Thread(target=str).start()",
    "event_that_is_set": (
        "import threading; event = threading.Event()\n"
        "threading.Thread(target=event.set).start(); event.wait(20)"
    ),
    "no_time": "import threading, time; time.sleep(0); threading.Event().wait(0)",
    "thread_that_begins": (
        "import threading\n"
        "begins, held = threading.Event(), threading.Lock()\n"
        "class Slow(threading.Thread):\n"
        "    def _bootstrap(self):\n"
        "        begins.set(); held.acquire(timeout=0.2); super()._bootstrap()\n"
        "held.acquire()\n"
        "threading.Thread(target=Slow(target=str).start).start(); begins.wait(20)"
    ),
    "thread_that_waits": (
        "import threading\n"
        "event = threading.Event()\n"
        "thread = threading.Thread(target=event.wait, args=(0.01,))\n"
        "thread.start(); thread.join()"
    ),
    "look": "from tests.waiting import until; until(iter([0, 1]).__next__, look_s=0.001)",
}

HOOKS = """
from tests import isolation
from tests.isolation import (
    pytest_fixture_setup,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)
isolation.ENDING_S = 0.5
"""

SWALLOWED = """
import os, pytest, threading

gate = threading.Event()

def fork():
    try:
        os.fork()
    except BaseException:
        pass

@pytest.fixture
def before():
    fork()

@pytest.fixture
def after():
    yield
    fork()

def test_itself():
    fork()

def test_thread():
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()

def test_before(before):
    pass

def test_after(after):
    pass

def test_nothing_of_the_one_before():
    pass

def test_left():
    threading.Thread(target=gate.wait, name="lost").start()

def test_found():
    gate.set()
"""

SHARED = """
import pytest, threading

gate = threading.Event()

@pytest.fixture(scope="module")
def shared():
    threads = [threading.Thread(target=gate.wait, daemon=True) for _ in range(2)]
    threads[0].start()
    yield threads
    {}

def test_first(shared):
    pass

def test_begins(shared):
    shared[1].start()

def test_last(shared):
    pass
"""


def a_file(lines: dict[str, str], handled: str = "{}") -> str:
    """Return a file with a test of each line."""
    return "\n".join(
        f"def test_{name}():\n{textwrap.indent(handled.format(line), '    ')}"
        for name, line in lines.items()
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run all of it once, in an interpreter of its own, and return what pytest says."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "none.ini").write_text("[pytest]")
    (folder / "judged").mkdir()
    (folder / "judged/conftest.py").write_text(HOOKS)
    (folder / "judged/test_processes.py").write_text(a_file(PROCESSES))
    (folder / "judged/test_sockets.py").write_text(a_file(SOCKETS))
    expects = "try:\n    {}\nexcept Exception:\n    pass"
    (folder / "judged/test_waits.py").write_text(a_file(WAITS, expects))
    (folder / "judged/test_allowed.py").write_text(a_file(ALLOWED))
    (folder / "judged/test_swallowed.py").write_text(SWALLOWED)
    (folder / "judged/test_shared.py").write_text(SHARED.format("gate.set()"))
    (folder / "judged/test_shared_lost.py").write_text(SHARED.format("pass"))
    (folder / "test_others.py").write_text(a_file({"sleep": WAITS["sleep"]}))

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "none.ini", "-rA", "-p", "no:cacheprovider"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "500",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    return ended.stdout + ended.stderr


def outcomes(said: str, test: str) -> list[str]:
    """Return what became of a test, and of what it left to be put away."""
    return sorted(
        re.findall(rf"^(PASSED|FAILED|ERROR) judged/test_{test}(?: |$)", said, re.MULTILINE)
    )


def reason(said: str, test: str) -> str:
    """Return the line that says why it failed."""
    (line,) = re.findall(rf"^(?:FAILED|ERROR) judged/test_{test} - (.*)$", said, re.MULTILINE)
    return str(line)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_test_that_starts_a_process_fails(said: str, name: str) -> None:
    """By whatever name, and before the process is there."""
    test = f"processes.py::test_{name}"

    assert outcomes(said, test) == ["FAILED"]
    assert "a unit test starts a process" in reason(said, test)
    assert "belongs into tests/programs" in reason(said, test)


@pytest.mark.parametrize("name", SOCKETS)
def test_a_test_that_opens_a_socket_fails(said: str, name: str) -> None:
    """Wherever it leads."""
    test = f"sockets.py::test_{name}"

    assert outcomes(said, test) == ["FAILED"]
    assert "s a socket" in reason(said, test)


@pytest.mark.parametrize("name", WAITS)
def test_a_test_that_lets_time_pass_fails(said: str, name: str) -> None:
    """Also where it expects that the time runs out."""
    test = f"waits.py::test_{name}"

    assert outcomes(said, test) == ["FAILED"]
    assert re.search("sleeps for 0.01 s|lets .* s pass", reason(said, test))


@pytest.mark.parametrize("name", ALLOWED)
def test_a_test_may_wait_to_be_told(said: str, name: str) -> None:
    """By a thread of what it tests, on whatever loop."""
    assert outcomes(said, f"allowed.py::test_{name}") == ["PASSED"]


@pytest.mark.parametrize(
    ("name", "became"),
    [
        ("itself", ["FAILED"]),
        ("thread", ["FAILED"]),
        ("before", ["FAILED"]),
        ("after", ["ERROR", "PASSED"]),
    ],
)
def test_a_refusal_that_is_swallowed_fails_the_test(
    said: str, name: str, became: list[str]
) -> None:
    """Of the test, of a thread, or of a fixture: the code under test handles errors, too."""
    test = f"swallowed.py::test_{name}"

    assert outcomes(said, test) == became
    assert "this unit test starts a process (os.fork" in reason(said, test)
    assert "judged/test_swallowed.py:8" in said


def test_the_next_test_is_judged_by_itself(said: str) -> None:
    """And may end a thread that it found."""
    assert outcomes(said, "swallowed.py::test_nothing_of_the_one_before") == ["PASSED"]
    assert outcomes(said, "swallowed.py::test_found") == ["PASSED"]


def test_a_thread_that_is_left_behind_fails_its_test(said: str) -> None:
    """And is named."""
    assert outcomes(said, "swallowed.py::test_left") == ["ERROR", "PASSED"]
    assert "leaves the thread 'lost' behind" in reason(said, "swallowed.py::test_left")


def test_threads_of_what_a_file_shares_are_judged_at_its_end(said: str) -> None:
    """A node that all tests of it use begins threads as they come."""
    for name in ("first", "begins", "last"):
        assert outcomes(said, f"shared.py::test_{name}") == ["PASSED"]
    for name in ("first", "begins"):
        assert outcomes(said, f"shared_lost.py::test_{name}") == ["PASSED"]
    assert outcomes(said, "shared_lost.py::test_last") == ["ERROR", "PASSED"]


def test_others_may_do_what_they_like(said: str) -> None:
    """A folder whose conftest does not import the hooks is not judged."""
    assert "PASSED test_others.py::test_sleep" in said
