"""Refuses what a unit test may not do: start a process, open a socket, let real time pass, or
leave a thread behind.

Decides what counts as each of them, and fails the test that did it, also where the code under
test swallows the refusal.  Never decides which tests are judged: a ``conftest.py`` that imports
the hooks below has those of its folder judged.

What the interpreter does is heard through its audit events, whatever name it is called by; what a
library in C does by itself is not heard.  To wait to be told is not a sleep: a wait is counted
only where its time ran out, and only of the thread that runs the test.  What another thread waits
for delays no test that is told of its end.
"""

import functools
import multiprocessing.util
import selectors
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ENDING_S = 30.0
"""For how long a thread that was told to end may take until it counts as left behind."""

_WHERE = "such a test belongs into tests/programs"

_PROCESSES = frozenset(
    {
        "subprocess.Popen",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pty.spawn",
    }
)
_SOCKETS = frozenset(
    {
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyaddr",
        "socket.gethostbyname",
        "socket.getnameinfo",
        "socket.sendmsg",
        "socket.sendto",
    }
)
_RAN_OUT = "tests.isolation.ran_out"
_HEARD = _PROCESSES | _SOCKETS | {"socket.__new__", "time.sleep", _RAN_OUT}
_POLLING = str(Path(__file__).with_name("waiting.py"))
"""Looks again and again for what a thread of the object under test does, and ends with it."""


class Refused(BaseException):
    """A unit test, or the code that it tests, did what belongs into another folder.

    No handler of ``Exception`` takes it.
    """


class Watch:
    """What one test did that it may not do."""

    def __init__(self) -> None:
        self._thread = threading.current_thread()
        self._faults: list[str] = []

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise ``Refused`` for what may not begin; note a wait that is over already."""
        if event == _RAN_OUT and not self._sleeps():
            return
        fault = _fault(event, arguments)
        if fault is None:
            return
        self._faults.append(f"{fault}, in {_place()}")
        if event != _RAN_OUT:
            raise Refused(f"a unit test {fault}: {_WHERE}")

    def _sleeps(self) -> bool:
        """True if the thread of the test has waited, and for what no other thread does."""
        return threading.current_thread() is self._thread and not _polls()

    def take_faults(self) -> list[str]:
        """Return what was done since this was asked before, each once."""
        faults, self._faults = list(dict.fromkeys(self._faults)), []
        return faults


_watches: list[Watch] = []
"""Of the test that runs; empty while none does that is judged."""

_KEY = pytest.StashKey[Watch]()
_FOUND = pytest.StashKey[set[threading.Thread]]()
_SHARED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Begin to watch, before any fixture of the test."""
    item.stash[_KEY] = Watch()
    item.stash[_FOUND] = set(threading.enumerate())
    _module_of(item).stash.setdefault(_FOUND, item.stash[_FOUND])
    with _watching(item.stash[_KEY]):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail the test for what it or a fixture of it did."""
    with _watching(item.stash[_KEY]):
        try:
            result = yield
        except Refused:
            item.stash[_KEY].take_faults()
            raise
    _judge(item.stash[_KEY].take_faults())
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """Note whether the tests of a file share an object with threads of its own."""
    before = set(threading.enumerate())
    result = yield
    if request.scope != "function" and set(threading.enumerate()) - before:
        _module_of(request.node).stash[_SHARED] = True
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    """Look what is left, after the fixtures have put away what is theirs.

    What the tests of a file share may begin threads while any of them runs, and is put away
    after the last one.
    """
    with _watching(item.stash[_KEY]):
        result = yield
    faults = item.stash[_KEY].take_faults()
    module = _module_of(item)
    if nextitem is None or _module_of(nextitem) is not module:
        faults += _threads_left(module.stash[_FOUND])
    elif not module.stash.get(_SHARED, False):
        faults += _threads_left(item.stash[_FOUND])
    _judge(faults)
    return result


def _module_of(node: pytest.Item | pytest.Collector) -> pytest.Module:
    module = node.getparent(pytest.Module)
    assert module is not None, "only functions of files are judged"
    return module


def _threads_left(found: set[threading.Thread]) -> list[str]:
    """Return the threads that began since then and do not end."""
    # One that Python did not start, a driver's, cannot be waited for.
    begun = {
        each
        for each in set(threading.enumerate()) - found
        if not isinstance(each, threading._DummyThread)
    }
    for each in begun:
        # One that is listed while it begins cannot be joined yet.
        each._started.wait(ENDING_S)  # type: ignore[attr-defined]
        if each.is_alive():
            _join(each, ENDING_S)
    return [f"leaves the thread {each.name!r} behind" for each in begun if each.is_alive()]


@contextmanager
def _watching(watch: Watch) -> Iterator[None]:
    """Have a watch hear what happens meanwhile, on any thread."""
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)


def _judge(faults: list[str]) -> None:
    if faults:
        pytest.fail("\n".join(f"this unit test {each}: {_WHERE}" for each in faults), pytrace=False)


def _fault(event: str, arguments: tuple[Any, ...]) -> str | None:
    if event in _PROCESSES:
        return f"starts a process ({event}{_shown(arguments)})"
    if event in _SOCKETS:
        return f"uses a socket ({event}{_shown(arguments[1:])})"
    # The loop of asyncio wakes itself through a pair of this family.
    if event == "socket.__new__" and arguments[1] not in {socket.AF_UNIX, -1}:
        return f"opens a socket ({arguments[1]!r})"
    if event == "time.sleep" and arguments[0] > 0:
        return f"sleeps for {arguments[0]} s"
    if event == _RAN_OUT:
        return f"lets {arguments[1]:.3f} s pass, until the time of {arguments[0]} runs out"
    return None


def _shown(arguments: tuple[Any, ...]) -> str:
    return f"({', '.join(map(repr, arguments))})"[:200]


def _place() -> str:
    """Where in this repository it was asked for, and by which test's thread."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _polls() -> bool:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _POLLING:
            return True
        frame = frame.f_back
    return False


def _is_ours(file: str) -> bool:
    return file != __file__ and "/lib/python" not in file and not file.startswith("<")


def _audit_processes_of_multiprocessing() -> None:
    """Tell of those that its own C function starts, which tells nothing."""
    start = multiprocessing.util.spawnv_passfds

    def audited(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
        sys.audit("subprocess.Popen", path, args, None, None)
        return start(path, args, passfds)

    multiprocessing.util.spawnv_passfds = audited


def _audit_sleeps() -> None:
    """Tell of them where the interpreter does not."""
    sleep = time.sleep

    def audited(seconds: Any, /) -> None:
        sys.audit("time.sleep", seconds)
        sleep(seconds)

    time.sleep = audited


def _audit_waits() -> None:
    """Tell of those whose time ran out: of an event, a queue, a future, a loop, a join."""
    _tell(threading.Condition, "wait", lambda condition, told: not told)
    _tell(threading.Thread, "join", lambda thread, _: thread.is_alive())
    for kind in {selectors.DefaultSelector, selectors.PollSelector, selectors.SelectSelector}:
        _tell(kind, "select", lambda selector, events: not events)


def _tell(owner: type[Any], name: str, ran_out: Callable[[Any, Any], bool]) -> None:
    wait = getattr(owner, name)

    @functools.wraps(wait)
    def audited(waiting: Any, timeout: float | None = None) -> Any:
        result = wait(waiting, timeout)
        if timeout is not None and timeout > 0 and ran_out(waiting, result):
            sys.audit(_RAN_OUT, f"{owner.__name__}.{name}", timeout)
        return result

    setattr(owner, name, audited)


def _hear(event: str, arguments: tuple[Any, ...], heard: Collection[str] = _HEARD) -> None:
    # The interpreter tells of each import and of each file that is opened, too, also at its end,
    # when names of modules are gone.
    if event in heard:
        for watch in tuple(_watches):
            watch.hear(event, arguments)


_join = threading.Thread.join
sys.addaudithook(_hear)
_audit_processes_of_multiprocessing()
_audit_waits()
if sys.version_info < (3, 13):
    _audit_sleeps()
