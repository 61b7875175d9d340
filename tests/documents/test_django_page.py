"""The page on Django: its project, as a reader would write it, with its tests and its node."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.blocks import blocks
from tests.tidy.source import ROOT
from tests.waiting import until

_PAGE = ROOT / "docs/guides/django.md"
_SCHEDULE = """
from datetime import timedelta
import django
django.setup()
from django.utils import timezone
from reminders.models import Invoice
from reminders.scheduling import open_client, schedule_reminder
due = timezone.now() + timedelta(seconds=1)
schedule_reminder(Invoice.objects.create(customer="customer-7", due=due))
open_client().close()
"""
"""What a view of the reader's does."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with the page's files."""
    for block in blocks(_PAGE):
        if block.info == "python":
            assert block.file is not None
            file = tmp_path / block.file
            file.parent.mkdir(exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(block.text, encoding="utf-8")
    return tmp_path


def _environment(project: Path) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "PYTHONPATH": str(project),
        "PYTHONUNBUFFERED": "1",
    }


def _run(project: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=_environment(project),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_tests_of_the_page_pass(project: Path) -> None:
    """Under Django's own runner."""
    assert "Ran 2 tests" in _run(project, "-m", "django", "test")


def test_what_a_view_schedules_is_run_by_the_node(project: Path) -> None:
    """Two processes on one database and one folder; SIGTERM ends the node gracefully."""
    _run(project, "-m", "django", "migrate", "--run-syncdb")
    _run(project, "-c", _SCHEDULE)
    said = project / "said.txt"
    with said.open("w", encoding="utf-8") as output:
        node = subprocess.Popen(
            [sys.executable, "node.py"],
            cwd=project,
            env=_environment(project),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: "reminding customer-7 of invoice 1" in said.read_text("utf-8"))
        node.send_signal(signal.SIGTERM)
        assert node.wait(timeout=60) == 0, said.read_text("utf-8")
    finally:
        node.kill()
        node.wait()
