"""Runs the steps of a check side by side, and keeps what each of them printed."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Step:
    """A program to run, and the name that people know it by."""

    name: str
    command: tuple[str, ...]
    good_codes: tuple[int, ...] = (0,)
    says: str = ""
    """What it works on, in a few words."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a step ended, and after how many seconds."""

    step: Step
    code: int
    output: str
    seconds: float

    @property
    def passed(self) -> bool:
        """True if the step found nothing."""
        return self.code in self.step.good_codes


def run(steps: Sequence[Step], root: Path) -> Iterator[Result]:
    """Yield results as steps end; each core has one step at a time, in the order they are given.

    One core has two: a step that waits for its files leaves it to the other.
    """
    with ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        for future in as_completed([pool.submit(_run, step, root) for step in steps]):
            yield future.result()


def _run(step: Step, root: Path) -> Result:
    began = time.monotonic()
    done = subprocess.run(
        step.command,
        cwd=root,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
    )
    return Result(step, done.returncode, done.stdout.rstrip(), time.monotonic() - began)
