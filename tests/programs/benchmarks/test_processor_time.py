"""How processor time of processes is read, on real ones."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.processor_time import Followed, cpu_s

_WORKS_S = 0.2
_READ_TO_S = 0.02
"""The kernel counts in hundredths of a second, and user and system time each."""
_WORK = f"""
import sys, time
sys.stdin.readline()
while time.process_time() < {_WORKS_S}: pass
print("worked", flush=True)
sys.stdin.readline()
"""
_HAVE_A_CHILD_WORK = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux says it, others do not")


@contextmanager
def _program(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        yield child
        child.communicate()


def _work(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"go\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"worked\n"


@pytest.mark.parametrize("arguments", [(_WORK,), (_HAVE_A_CHILD_WORK, _WORK)])
def test_a_process_is_counted_with_those_it_started(arguments: tuple[str, ...]) -> None:
    """As PostgreSQL starts one for each connection."""
    with _program(*arguments) as child:
        _work(child)
        taken_s = cpu_s(child.pid)

    assert taken_s is not None
    assert taken_s >= _WORKS_S - _READ_TO_S


def test_only_what_is_taken_inside_the_block_counts_for_a_task() -> None:
    """A node has taken time to start."""
    followed = Followed()
    with _program(_WORK) as child:
        _work(child)
        with followed.following({"node": child.pid}):
            pass

    assert followed.us_a_task(1_000)["node"] <= _READ_TO_S * 1e6 / 1_000


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    """Neither at the beginning nor at the end: no figure is better than a zero."""
    followed = Followed()
    with _program(_WORK) as child:
        pass
    with followed.following({"node": child.pid}):
        pass

    assert cpu_s(child.pid) is None
    assert followed.us_a_task(1_000) == {}
