"""Starts doomed processes, kills them at moments drawn from a seed, keeps what they wrote."""

import json
import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.crash.journal import Event

_WAIT_S = 120.0
"""Longest wait for a process to do anything at all."""
_QUIET_S = 30.0
"""A process that runs what is left and writes nothing for so long has nothing left."""
_EARLY = 0.15
"""Share of the kills that hit a process while it opens the folder."""
_EARLY_S = 0.2
_EVENTS_MAX = {"acknowledged": 200, "started": 120, "ended": 120, "told": 12, "failed": 4}
"""A process is killed near the n-th event of one kind, n up to this."""
_AFTER_S = 0.01


class Killer:
    """A nursery, and the journal of all its copies."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.events: list[Event] = []
        self._folder = folder
        self._seed = seed
        self._rng = random.Random(seed)
        self._run = 0
        self._rest = b""
        self._process: int | None = None
        self._journal, writing_end = os.pipe()
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery", str(writing_end)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(writing_end,),
            bufsize=0,
        )
        os.close(writing_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            # The test failed while it ran; it would keep the nursery waiting.
            os.kill(self._process, signal.SIGKILL)
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        self._nursery.wait(_WAIT_S)
        assert self._nursery.stdout is not None
        self._nursery.stdout.close()
        os.close(self._journal)

    def kill_one(self) -> None:
        """Start a process under load and kill it at some moment of its life."""
        process = self._begin({"do": "load", "seed": self._seed})
        if self._rng.random() < _EARLY:
            self._read(self._rng.uniform(0, _EARLY_S))
        else:
            kind = self._rng.choice(sorted(_EVENTS_MAX))
            wanted = self._rng.randint(1, _EVENTS_MAX[kind])
            first = len(self.events)
            while sum(event.kind == kind for event in self.events[first:]) < wanted:
                self._read(_WAIT_S, at_least_one=True)
            self._read(self._rng.uniform(0, _AFTER_S))
        os.kill(process, signal.SIGKILL)
        assert self._ended() == -signal.SIGKILL, "the process ended by itself"

    def begin_draining(self, told: object) -> int:
        """Start a process that is not killed; return its id."""
        return self._begin({"do": "drain", "told": json.dumps(told)})

    def read_on(self) -> bool:
        """Wait for more to be written; False where nothing comes any more."""
        return self._read(_QUIET_S) > 0

    def stop(self, process: int) -> None:
        """Ask a process to stop, and wait for it."""
        os.kill(process, signal.SIGTERM)
        assert self._ended() == 0, "the process did not stop cleanly"

    def _begin(self, order: dict[str, object]) -> int:
        self._run += 1
        order |= {"folder": str(self._folder), "run": self._run}
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(json.dumps(order).encode() + b"\n")
        self._process = self._answer()
        return self._process

    def _ended(self) -> int:
        """Read the journal until the process is gone, and then to its end; return its code."""
        assert self._nursery.stdout is not None
        answer = self._nursery.stdout
        while not select.select([answer], [], [], 0)[0]:
            self._read(_WAIT_S, until=answer.fileno())
        code = self._answer()
        self._process = None
        while self._read(0):
            pass
        return code

    def _answer(self) -> int:
        assert self._nursery.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            byte = self._nursery.stdout.read(1)
            assert byte, "the nursery ended"
            line += byte
        return int(line)

    def _read(self, timeout_s: float, *, at_least_one: bool = False, until: int = -1) -> int:
        """Read what there is, waiting for the first; return how many bytes."""
        watched = [self._journal] if until < 0 else [self._journal, until]
        if at_least_one:
            assert self._nursery.stdout is not None
            watched.append(self._nursery.stdout.fileno())
        ready, _, _ = select.select(watched, [], [], timeout_s)
        if self._journal not in ready:
            assert not at_least_one, f"run {self._run} writes nothing, or ended by itself"
            assert until < 0 or ready, f"run {self._run} does not end"
            return 0
        chunk = os.read(self._journal, 65_536)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self.events += map(Event.parse, lines)
        return len(chunk)
