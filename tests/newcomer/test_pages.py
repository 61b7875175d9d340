"""Quickstart, tutorial and README, typed line by line by somebody who thinks of nothing.

Beside them is what they call a clone: a copy of this checkout.
"""

import json
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.documents.blocks import blocks
from tests.newcomer.terminal import Terminal, follow
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.tidy.source import ROOT

pytestmark = [pytest.mark.newcomer, pytest.mark.integration]


PIP = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def type_page(name: str, folder: Path, variables: dict[str, str]) -> list[str]:
    """Follow a page in a fresh folder with a clone; return what was typed."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT, folder / "hourhand", ignore=ignored)
    with Terminal(folder, {**PIP, **variables}) as terminal:
        return [*follow([*blocks(ROOT / name)], folder, terminal)]


def test_the_quickstart_can_be_typed(tmp_path: Path) -> None:
    """With Python, a clone and nothing else."""
    typed = type_page("docs/quickstart.md", tmp_path / "fresh", {})

    assert "pip install './hourhand[dev]'" in typed
    assert "python hello.py" in typed
    assert any(line.startswith("hourhand dev hello:app") for line in typed)


def test_the_tutorial_can_be_typed(
    tmp_path: Path,
    kafka_server: KafkaServer,
    cassandra_server: CassandraServer,
) -> None:
    """From pip to three nodes, one of which is killed; the page's addresses are these servers'."""
    servers = {
        "HOURHAND_KAFKA__BOOTSTRAP_SERVERS": kafka_server.bootstrap_servers,
        "HOURHAND_CASSANDRA__CONTACT_POINTS": json.dumps(cassandra_server.addresses),
        "HOURHAND_CASSANDRA__PORT": str(cassandra_server.port),
        "HOURHAND_CASSANDRA__KEYSPACE": f"tutorial_{uuid.uuid4().hex[:8]}",
        "HOURHAND_TOPIC__NAME": f"tutorial-{uuid.uuid4().hex[:8]}",
    }

    typed = type_page("docs/tutorial.md", tmp_path / "fresh", servers)

    assert "python plan.py" in typed
    assert sum(line.startswith("hourhand run ") for line in typed) == 5


def test_the_two_commands_work_in_a_fresh_clone(tmp_path: Path) -> None:
    """README's, in a clone of the last commit: the demo whole, of the tests one file.

    CI runs all of them, from a clone too.
    """
    subprocess.run(["git", "clone", "--quiet", ROOT.as_uri(), "clone"], cwd=tmp_path, check=True)
    clone = tmp_path / "clone"
    commands = [
        line.partition("#")[0].strip()
        for block in blocks(clone / "README.md")
        for line in block.text.splitlines()
        if line.startswith(("make demo ", "make test "))
    ]
    with Terminal(clone, {"PYTEST_ADDOPTS": "-k test_wheel"}) as terminal:
        printed = {command: terminal.type(command) for command in commands}

    assert [*printed] == ["make demo", "make test"]
    assert any("SIGKILL" in line for line in printed["make demo"])
    assert any(" passed" in line for line in printed["make test"])
