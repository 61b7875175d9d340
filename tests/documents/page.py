"""Runs the Python of one page as its reader would: top to bottom, with nothing that is not shown.

Decides nothing about what a page says.  A block that is meant for a file is written there and
imported, a file of tests is given to pytest; all other blocks share one namespace, as if they were
typed into one session.  Executors and tests that a block defines run as well.
"""

import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hourhand import SchedulerClient, Task, TaskExecutor
from hourhand.scheduler.testing import VirtualScheduler, execute_task
from tests.documents.blocks import Block

_SAMPLE = Task(
    ordering_id="customer-7",
    scheduled_time=datetime(2026, 1, 2, tzinfo=UTC),
    uniqueness_key="invoice-42",
    data={
        "account": "ada",
        "args": [42],
        "card": "4711",
        "celsius": 20.5,
        "cents": 990,
        "invoice": 42,
        "job": 1,
        "kind": "remind",
        "name": "tasks.remind",
    },
)
"""Everything that an executor of a page looks for in its data."""


class Page(AbstractContextManager["Page"]):
    """One page's session in one folder; at the end it closes what the page left open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names: dict[str, Any] = {"__name__": "page"}

    def __exit__(self, *_error: object) -> None:
        for name, module in [*sys.modules.items()]:
            # Two pages may have a file of one name.
            if str(getattr(module, "__file__", None)).startswith(str(self._folder)):
                del sys.modules[name]
        for value in self.names.values():
            if isinstance(value, SchedulerClient):
                value.close()
            elif isinstance(value, VirtualScheduler):
                value.stop()

    def run(self, block: Block, name: str) -> None:
        """Run a block; whatever it raises comes through, with the page's name and line."""
        if block.file is None:
            self._run_lines(block, name)
            return
        file = self._folder / block.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")
        if file.name.startswith("test_"):
            self._run_tests(file)
        else:
            runpy.run_path(str(file), run_name=file.stem)

    def _run_lines(self, block: Block, name: str) -> None:
        before = {**self.names}
        code = compile("\n" * (block.line - 1) + block.text, name, "exec")
        exec(code, self.names)  # noqa: S102 - the point is to run it
        for found in [*self._new(before)]:
            if isinstance(found, type) and issubclass(found, TaskExecutor):
                execute_task(found(), _SAMPLE, attempt=3)
            elif getattr(found, "__name__", "").startswith("test_"):
                found()

    def _new(self, before: dict[str, Any]) -> Iterator[Any]:
        for name, value in self.names.items():
            if before.get(name) is not value and getattr(value, "__module__", "") == "page":
                yield value

    def _run_tests(self, file: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
