"""Counts of a program's syncs and statements, taken below it."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bench import Bench
from benchmarks.families.writes import Counting
from benchmarks.servers import open_servers
from benchmarks.sizes import SMOKE
from tests.servers.preload import CannotPreload

_PROGRAM = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("CREATE TABLE row (number)")
connection.executemany("INSERT INTO row VALUES (?)", [(each,) for each in range(100)])
with open(sys.argv[1] + "-other", "wb") as file:
    os.fsync(file.fileno())
print(os.getpid())
"""


def test_what_a_program_syncs_and_asks_of_sqlite_is_counted(tmp_path: Path) -> None:
    """Each insert of the hundred commits by itself, with a sync at least."""
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        try:
            counting = Counting(Bench(servers, SMOKE, frozenset()))
        except CannotPreload as error:
            pytest.skip(str(error))
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(tmp_path / "file.db")],
            env=dict(counting.bench.environment),
            capture_output=True,
            check=True,
        )
        counts = counting.read(int(done.stdout))

    assert counts.syncs > 100
    assert counts.written_bytes > 100 * 4_096
    assert counts.steps >= 101 or not _is_a_library_of_its_own()


def _is_a_library_of_its_own() -> bool:
    assert sqlite3.sqlite_version, "loaded, wherever it is"
    return "libsqlite3" in Path("/proc/self/maps").read_text(encoding="utf-8")
