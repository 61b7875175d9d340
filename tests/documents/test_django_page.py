"""The page on Django: its project, as a reader would write it, with its tests and its node."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import django
import pytest

from tests.documents.blocks import blocks
from tests.tidy.source import ROOT
from tests.waiting import until

_PAGE = ROOT / "docs/guides/django.md"
_MANAGE = """
import os
import sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
execute_from_command_line(sys.argv)
"""
_BILL = """
import time
from datetime import timedelta
import django
django.setup()
from django.db import transaction
from django.utils import timezone
from reminders.billing import bill
from reminders.tasks import remind
try:
    with transaction.atomic():
        bill("customer-8", timezone.now())
        raise LookupError("the card was refused")
except LookupError:
    print("refused")
result = remind.get_result(bill("customer-7", timezone.now() + timedelta(seconds=1)))
while not result.is_finished:
    time.sleep(0.05)
    result.refresh()
print(result.status, result.return_value, result.attempts)
"""
"""A view of the reader's, and a page that waits for the result."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with the page's files."""
    for block in blocks(_PAGE):
        if block.info == "python":
            assert block.file is not None
            file = tmp_path / block.file
            file.parent.mkdir(exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(_for_the_django_here(block.text), encoding="utf-8")
    (tmp_path / "manage.py").write_text(_MANAGE, encoding="utf-8")
    return tmp_path


def _for_the_django_here(text: str) -> str:
    """Return a file as a reader with Django 5.2 would write it, where that is installed here."""
    if django.VERSION >= (6, 0):
        return text
    text = text.replace("from django.tasks import", "from django_tasks import")
    return text.replace("INSTALLED_APPS = [", 'INSTALLED_APPS = ["django_tasks", ')


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
    assert "Ran 1 test" in _run(project, "manage.py", "test")


def test_what_is_committed_is_run_by_the_node(project: Path) -> None:
    """Two processes on one database and one folder; SIGTERM ends the node gracefully."""
    _run(project, "manage.py", "check", "--fail-level", "WARNING")
    _run(project, "manage.py", "migrate", "--run-syncdb")
    said = project / "said.txt"
    with said.open("w", encoding="utf-8") as output:
        node = subprocess.Popen(
            [sys.executable, "manage.py", "hourhand", "run"],
            cwd=project,
            env=_environment(project),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: "the node runs" in said.read_text("utf-8"))
        assert "refused\nSUCCESSFUL True 1" in _run(project, "-c", _BILL)
        node.send_signal(signal.SIGTERM)
        assert node.wait(timeout=60) == 0, said.read_text("utf-8")
        told = said.read_text("utf-8")
        assert "reminding customer-7 of invoice" in told
        assert "customer-8" not in told
    finally:
        node.kill()
        node.wait()
