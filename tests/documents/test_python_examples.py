"""Every Python example of every page runs, in the order of its page, as it stands there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hourhand import Settings
from hourhand.scheduler.wiring import create_bucket_topics
from tests.documents.blocks import Block, blocks, python_pages
from tests.documents.page import Page
from tests.servers.kafka import KafkaServer
from tests.tidy.source import ROOT

_TRIED_ELSEWHERE = {"README.md", "docs/guides/django.md"}
"""A program that waits to be stopped; a project, in ``test_django_page.py``."""
_NEEDS_KAFKA = 'store="kafka"'
_NEEDS_SPARK = "open_session"


def ours(name: str) -> list[Block]:
    """Return a page's Python of ours."""
    return [block for block in blocks(ROOT / name) if block.info == "python"]


@pytest.mark.parametrize("name", [name for name in python_pages() if name not in _TRIED_ELSEWHERE])
def test_the_examples_of_a_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, in a fresh folder; executors and tests that they define run as well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    ran = 0
    with Page(tmp_path) as page:
        for block in ours(name):
            if _NEEDS_KAFKA not in block.text and _NEEDS_SPARK not in block.text:
                page.run(block, name)
                ran += 1

    assert ran or len(ours(name)) == 1


def test_the_first_example_runs_until_it_is_stopped(tmp_path: Path) -> None:
    """That of the README, as a program of its own; Ctrl-C ends it without a trace."""
    [block] = ours("README.md")
    (tmp_path / "program.py").write_text(block.text, encoding="utf-8")
    program = subprocess.Popen(
        [sys.executable, "-u", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        receipt, sent = program.stdout.readline(), program.stdout.readline()
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=60)
    finally:
        program.kill()
        program.wait()

    assert receipt.startswith("Receipt(key=")
    assert sent == "sending invoice 42\n"
    assert program.returncode == 0, said
    assert "Traceback" not in said


def test_the_quickstarts_program_says_hello(tmp_path: Path) -> None:
    """It ends by itself, a few seconds after the last greeting."""
    (block,) = ours("docs/quickstart.md")
    (tmp_path / "hello.py").write_text(block.text, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "hello.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello Ada\nhello Bo\nhello Cleo\n"


@pytest.mark.integration
def test_the_example_on_kafka_alone_runs(
    kafka_server: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is taken by the broker, with no store of Hourhand's own."""
    monkeypatch.chdir(tmp_path)
    variables = {
        "HOURHAND_KAFKA__BOOTSTRAP_SERVERS": kafka_server.bootstrap_servers,
        "HOURHAND_BUCKETS__TOPIC": "documents-pending",
        "HOURHAND_BUCKETS__GROUP_ID": "documents-pending",
        "HOURHAND_TOPIC__NAME": "documents",
        "HOURHAND_TOPIC__DEAD_LETTER": "documents-letters",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    create_bucket_topics(Settings(log="kafka", store="kafka"))
    [block] = [block for block in ours("docs/relay.md") if _NEEDS_KAFKA in block.text]
    with Page(tmp_path) as page:
        page.run(block, "docs/relay.md")
