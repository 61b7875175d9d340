"""When the states of tasks have a colour."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


_PROGRAM = (
    "from hourhand.scheduler.cli.text_output import coloured; print(coloured('blocked', 'blocked'))"
)


@pytest.mark.parametrize(("no_color", "painted"), [("", True), ("1", False)])
def test_states_have_a_colour_on_a_terminal(no_color: str, *, painted: bool) -> None:
    """Unless NO_COLOR asks for none."""
    assert (b"\x1b[" in _printed_on_a_terminal(no_color)) is painted


def test_there_is_no_colour_in_a_pipe() -> None:
    """Programs read it."""
    printed = subprocess.check_output([sys.executable, "-c", _PROGRAM], cwd=ROOT)

    assert printed.split() == [b"blocked"]


def _printed_on_a_terminal(no_color: str) -> bytes:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color}
    subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT, env=environment, stdout=theirs, check=True
    )
    os.close(theirs)
    printed = os.read(ours, 1_000)
    os.close(ours)
    return printed
