"""Types a page's console lines into a shell, one after the other, as a reader would.

Decides what a line answers to: nothing may fail, and what the page shows below a command must
appear in its output, in that order.  ``…`` stands for what differs from run to run.
"""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

from tests.documents.blocks import Block

_LIMIT_S = 900.0
_DONE = re.compile(r"^<<done (\d+)>>$")


class Terminal:
    """One shell in one folder; as a context manager it ends with all that was started in it."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A group of its own, so that what was left in the background can be ended with it.
            start_new_session=True,
        )
        self._printed: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._reader.join()
        # Waits, and closes both pipes.
        self._shell.__exit__(None, None, None)

    def type(self, command: str) -> list[str]:
        """Run a line to its end and return what was printed; AssertionError where it fails."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f'{command}\necho "<<done $?>>"\n')
        self._shell.stdin.flush()
        lines: list[str] = []
        while True:
            try:
                line = self._printed.get(timeout=_LIMIT_S)
            except Empty:
                raise AssertionError(f"$ {command}\nprinted only {lines}") from None
            if found := _DONE.match(line):
                assert found[1] == "0", f"$ {command}\n" + "\n".join(lines)
                return lines
            lines.append(line)

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._printed.put(line.rstrip("\n"))


def follow(page: list[Block], folder: Path, terminal: Terminal) -> Iterator[str]:
    """Do what a page says; yield each command that went as the page says it does."""
    for block in page:
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.info == "console":
            for command, expected in steps(block):
                printed = terminal.type(command)
                compare(command, expected, printed)
                yield command


def steps(block: Block) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, each with the lines that it must print."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            steps.append((line.removeprefix("$ "), []))
        else:
            steps[-1][1].append(line)
    return steps


def compare(command: str, expected: list[str], printed: list[str]) -> None:
    """Raise AssertionError unless what is expected was printed, in its order."""
    left = iter(printed)
    for line in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in line.strip().split("…")))
        assert any(pattern.fullmatch(each.strip()) for each in left), (
            f"$ {command}\nprinted\n" + "\n".join(printed) + f"\nwithout {line!r}"
        )
