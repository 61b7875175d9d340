"""The links before servers of this machine, which a test may cut, slow, lose, reset and half-close.

A proxy of its own process listens for each server; a client that is told the proxy's ports comes
through it.  Decides nothing about which links there are, nor about when they fail.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any, Self

from tests.servers.link_faults import Blight, Counts
from tests.servers.link_proxy import Front, Rule
from tests.servers.process import ServerFailed

_STOP_S = 10.0


class Links:
    """A running proxy; a context manager.  Used by one thread at a time."""

    def __init__(self) -> None:
        # A session of its own keeps the terminal's Ctrl-C away.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.link_proxy"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def open(self, *fronts: Front) -> None:
        """Listen before these servers, too; raises ServerFailed where a port is taken."""
        self._ask({"do": "open", "fronts": [asdict(each) for each in fronts]})

    def strike(self, blight: Blight, *rules: Rule) -> Counts:
        """Let a fault begin; return how many connections it struck at once."""
        asked = {"blight": asdict(blight), "rules": [asdict(each) for each in rules]}
        return Counts(**self._ask({"do": "strike", **asked}))

    def heal(self) -> Counts:
        """Let it end; return what it did."""
        return Counts(**self._ask({"do": "heal"}))

    @property
    def forsaken(self) -> int:
        """The number of connections that are half-open without their client's knowledge."""
        return int(self._ask({"do": "count"})["forsaken"])

    def close(self) -> None:
        """End the proxy, and all connections through it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it has ended"}
        if "error" in answer:
            raise ServerFailed(f"the proxy of links: {answer['error']}")
        return answer
