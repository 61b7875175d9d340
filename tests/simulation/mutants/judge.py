"""Runs tests over one source tree, in a process of its own, until one fails.

It judges what the simulation replaces, such as the runner and the HTTP doors.  It decides
nothing about mutants: the tests import whatever tree they stand in.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tests.simulation.mutants.hunt import Catch, HuntFailed

DEADLINE_S = 120
"""How long the tests of one mutant may take."""
_TEST_TIMEOUT_S = 30
_WITHOUT = ("--noconftest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""What these tests do not need takes longer to import than they last."""
_PASSED, _FAILED = 0, 1
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+?)::(.*?)(?: - (.*))?$", re.MULTILINE)


@lru_cache
def false_alarm(tree: Path, tests: tuple[str, ...]) -> Catch | None:
    """Return the first of these tests that fails in a tree without a fault; asked once for each."""
    return judge(tree, tests)


def judge(tree: Path, tests: Sequence[str]) -> Catch | None:
    """Return the first of these tests that fails in ``tree``; HuntFailed where none can run."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--no-header", "--tb=no"]
    command += ["-o", f"timeout={_TEST_TIMEOUT_S}", *_WITHOUT, *tests]
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            # Nothing of the caller's tree may be imported instead of this one's.
            env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "500"},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HuntFailed(f"the tests went on for {DEADLINE_S} s") from error
    if done.returncode == _PASSED:
        return None
    found = _FAILURE.search(done.stdout)
    if done.returncode != _FAILED or found is None:
        shown = f"{done.stdout[-1_000:]}{done.stderr[-1_000:]}"
        raise HuntFailed(f"the tests ended with {done.returncode}: {shown}")
    file, name, why = found.groups()
    complaint = f"{name}: {why or 'failed'}"
    return Catch(file, 0, 1, (name.partition("[")[0],), complaint[:300])
